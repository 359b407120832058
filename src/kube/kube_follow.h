/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows every object of a collection: passes events in the order in which the API server sends
 * them, from the collection's single watch (kube.h). Meant for a caller that keeps a few bytes per
 * object.
 *
 * fn is called on the HTTP engine's thread, one call after the other, without locks. It must not
 * block. It is called before the waits for the same object are notified. `text` is the unparsed
 * JSON of the object, and valid only during the call.
 */
#pragma once

#include "kube/kube.h"

enum kube_follow_event {
	/* Earlier events are void. The list of all objects follows, then every later change. */
	KUBE_FOLLOW_BEGIN,
	KUBE_FOLLOW_LISTED,   /* an existing object, in any order; may be repeated */
	KUBE_FOLLOW_COMPLETE, /* the list is complete: changes follow, as they happen */
	KUBE_FOLLOW_CHANGED,  /* an object that is new or has changed */
	/* The last state of a deleted object; may also come before KUBE_FOLLOW_COMPLETE. */
	KUBE_FOLLOW_DELETED,
	/*
	 * Listing or watching was refused; `text` is the reason. The watch retries after a pause;
	 * the retry begins with KUBE_FOLLOW_BEGIN.
	 */
	KUBE_FOLLOW_REFUSED,
};
typedef void kube_follow_fn(void *arg, enum kube_follow_event event, const char *text, size_t n);

struct kube_follow;
/*
 * Starts a follower, which runs until kube_free(); fn is not called after kube_free() has returned.
 * A collection may have only one follower, started before the first wait for one of its objects.
 */
struct kube_follow *kube_follow(struct kube *k, const struct kube_kind *kind, const char *ns,
                                kube_follow_fn *fn, void *arg);
/*
 * Returns the time since the last stream ended, in ms; 0 if a stream is open. Sets `why` to the
 * reason, "" if not known.
 */
int64_t kube_follow_closed_ms(struct kube_follow *f, char why[KUBE_WATCH_ERROR_MAX]);
