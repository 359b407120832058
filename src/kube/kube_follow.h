/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following every object of a collection, for who keeps a few bytes of each: news in the order in
 * which the API server tells them, on top of the one watch that the collection has (kube.h).
 *
 * fn is called on the HTTP engine's thread, one call after the other, without locks. It must not
 * block, and its news are told before those who wait for the same object hear of them. The text of
 * an object is JSON that was not parsed, and only valid during the call.
 */
#pragma once

#include "kube/kube.h"

enum kube_news {
	/*
	 * What was told before is void. All objects are being read: those of this moment, and
	 * every later change, follow.
	 */
	KUBE_NEWS_BEGIN,
	KUBE_NEWS_LISTED,   /* an object that exists already, in any order; perhaps told twice */
	KUBE_NEWS_COMPLETE, /* all that exist were told: changes follow, as they happen */
	KUBE_NEWS_CHANGED,  /* an object that is new or has changed */
	/* The last state of an object that has gone; also told before KUBE_NEWS_COMPLETE. */
	KUBE_NEWS_DELETED,
	/*
	 * Listing or watching is refused for good, as far as can be seen: the text says why. It is
	 * tried again all the same, which begins with KUBE_NEWS_BEGIN.
	 */
	KUBE_NEWS_REFUSED,
};
typedef void kube_news_fn(void *arg, enum kube_news news, const char *text, size_t n);

struct kube_follow;
/*
 * Begins at once and goes on until kube_free(); fn is not called any more when that has returned.
 * One follower per collection, and before anybody waits for an object of it.
 */
struct kube_follow *kube_follow(struct kube *k, const struct kube_kind *kind, const char *ns,
                                kube_news_fn *fn, void *arg);
/*
 * For how long changes cannot be told because no stream is open, in ms; 0: one is. `why` then says
 * what keeps it from being opened, "" when that is not known.
 */
int64_t kube_follow_closed_ms(struct kube_follow *f, char why[KUBE_WATCH_ERROR_MAX]);
