/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indeterminate writes are POSTs and PATCHes without an answer, which the server may still execute.
 * A caller that has abandoned such a request does not know when the server executes it, if ever:
 * the request may wait in the server for a webhook or for etcd. Until the write's time limit has
 * passed, an absent object may still appear.
 *
 * When an API server abandons a request, it does not withdraw the request from a hung etcd; etcd
 * still executes the request once it recovers. A gap in the answers shows that etcd hangs: requests
 * are sent and none is answered. During a gap, and for late_ns after it, no entry expires.
 *
 * Memory: 16 bytes for each unanswered write of the last half minute, at most 8,192 entries. If
 * there are more, every object counts as indeterminate. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube.h"

#define KUBE_INDETERMINATE_MAX 8192

struct kube_indeterminate_write {
	uint64_t object; /* hash of kind, namespace and name */
	int64_t until;   /* monotonic ns */
};

struct kube_indeterminate {
	pthread_mutex_t lock;
	struct kube_indeterminate_write *v; /* in no order */
	size_t n, room;
	int64_t all_until; /* until this time every object counts as indeterminate; monotonic ns */
	/* no entry expires for this long after a gap, a silence of 2 * late_ns */
	int64_t late_ns;
	int64_t answered_at, gap_until;
	bool unanswered; /* a request sent after answered_at has had no answer */
};

void kube_indeterminate_init(struct kube_indeterminate *d, int late_ms);
void kube_indeterminate_destroy(struct kube_indeterminate *d);
/* Records that a request was, or was not, answered. Times are monotonic ns. */
void kube_indeterminate_response(struct kube_indeterminate *d, bool answered, int64_t now);
/* Records that the server may execute a write of the object before `until`. */
void kube_indeterminate_add(struct kube_indeterminate *d, const struct kube_kind *kind,
                            const char *ns, const char *name, int64_t now, int64_t until);
bool kube_indeterminate_has(struct kube_indeterminate *d, const struct kube_kind *kind,
                            const char *ns, const char *name, int64_t now);
