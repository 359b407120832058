/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following every object of a collection: events in the order in which the API server sends them,
 * from the one watch that the collection has (kube.h). For a caller that keeps a few bytes per
 * object.
 *
 * fn is called on the HTTP engine's thread, one call after the other, without locks. It must not
 * block. It is called before the waits for the same object are notified. The text of an object is
 * JSON that was not parsed, and only valid during the call.
 */
#pragma once

#include "kube/kube.h"

enum kube_follow_event {
	/*
	 * Earlier events are void. The list of all objects, and every later change, follow.
	 */
	KUBE_FOLLOW_BEGIN,
	KUBE_FOLLOW_LISTED,   /* an object that exists already, in any order; may be repeated */
	KUBE_FOLLOW_COMPLETE, /* the list is complete: changes follow, as they happen */
	KUBE_FOLLOW_CHANGED,  /* an object that is new or has changed */
	/* The last state of a deleted object; also possible before KUBE_FOLLOW_COMPLETE. */
	KUBE_FOLLOW_DELETED,
	/*
	 * Listing or watching is refused: the text is the reason. It is tried again after a pause,
	 * which begins with KUBE_FOLLOW_BEGIN.
	 */
	KUBE_FOLLOW_REFUSED,
};
typedef void kube_follow_fn(void *arg, enum kube_follow_event event, const char *text, size_t n);

struct kube_follow;
/*
 * Begins at once and goes on until kube_free(); fn is not called any more when that has returned.
 * One follower per collection, and before anybody waits for an object of it.
 */
struct kube_follow *kube_follow(struct kube *k, const struct kube_kind *kind, const char *ns,
                                kube_follow_fn *fn, void *arg);
/*
 * How long no stream has been open, in ms; 0: a stream is open. Sets `why` to the reason, "" when
 * it is not known.
 */
int64_t kube_follow_closed_ms(struct kube_follow *f, char why[KUBE_WATCH_ERROR_MAX]);
