/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects may still be made by a POST, or changed by a PATCH, that had no answer. A
 * caller that has given such a request up does not know when the server carries it out, if ever: it
 * may wait in the server for a webhook or for etcd. While that may be, a name that is not there is
 * not known to be free of our object.
 *
 * An API server that gives a request up does not take it back from an etcd that stands still, which
 * carries it out when it goes on. That shows by a gap, in which requests are sent and none is
 * answered: while there is one, and for a while behind it, no doubt ends.
 *
 * Memory follows the unanswered requests of the last half minute: 16 bytes each, 8,192 at most. Of
 * more than these, all names are in doubt. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube.h"

#define KUBE_DOUBTS_MAX 8192

struct kube_doubt_of {
	uint64_t object; /* hash of kind, namespace and name */
	int64_t until;   /* monotonic ns */
};

struct kube_doubts {
	pthread_mutex_t lock;
	struct kube_doubt_of *v; /* in no order */
	size_t n, room;
	int64_t all_until; /* until then every object is in doubt */
	int64_t late_ns;   /* how long behind a gap; one of twice the length is one */
	int64_t answered_at, gap_until;
	bool unanswered; /* a request, since answered_at */
};

void kube_doubts_init(struct kube_doubts *d, int late_ms);
void kube_doubts_destroy(struct kube_doubts *d);
/* A request was answered, or had no answer. Times are monotonic ns. */
void kube_doubts_hear(struct kube_doubts *d, bool answered, int64_t now);
/* The object may be made until then. */
void kube_doubts_add(struct kube_doubts *d, const struct kube_kind *kind, const char *ns,
                     const char *name, int64_t now, int64_t until);
bool kube_doubts_has(struct kube_doubts *d, const struct kube_kind *kind, const char *ns,
                     const char *name, int64_t now);
