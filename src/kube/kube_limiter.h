/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the requests per second, and orders the waiting requests.
 *
 * A token bucket. A thread that finds it empty waits in the queue of its operation's kind
 * (kube_begin()), and the kinds take turns: a thousand creates delay a detach by one turn, not by a
 * thousand. Within a queue, the operation that began first goes first. So under overload some calls
 * complete while others have not begun; otherwise all would be half done at their deadlines.
 *
 * One of the waiting threads sleeps until the next token and grants the turns; the others sleep
 * until they are woken. So thousands of waiting threads cost no CPU.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/wait_queue.h"
#include "kube/kube.h"

/* One waiting request, on its thread's stack. All fields are guarded by the limiter's lock. */
struct kube_turn {
	struct kube_turn *before, *after; /* in its queue */
	unsigned kind;
	uint64_t began; /* number of its operation; a lower number began earlier */
	bool granted;
	struct wait_queue called;
};

struct kube_limiter {
	pthread_mutex_t lock;
	double qps; /* 0: unlimited */
	double burst;
	double tokens; /* this field and the following ones: guarded by lock */
	int64_t at;    /* when tokens were last added; monotonic ns; 0: never */
	struct kube_turn *first[KUBE_WORK_KINDS], *last[KUBE_WORK_KINDS];
	unsigned next_kind;       /* the kind that goes next */
	struct kube_turn *keeper; /* the thread that sleeps until the next token; NULL: none */
	bool stopping;
};

void kube_limiter_init(struct kube_limiter *l, double qps, int burst);
void kube_limiter_destroy(struct kube_limiter *l); /* no thread may be waiting */
/*
 * Blocks until a request of this thread may be sent. -1: the deadline has passed, the call is
 * cancelled, or the limiter has been stopped.
 */
int kube_limiter_wait(struct kube_limiter *l, struct deadline d, struct err *err) MUST_CHECK;
/* Makes all current and later waits fail. */
void kube_limiter_stop(struct kube_limiter *l);

/* ---- the parts of kube_limiter_wait(), with the time as an argument ---- */

/*
 * Initialises `t` for this thread's operation. Returns true if the request may be sent at once,
 * false if it was queued.
 */
bool kube_limiter_ask(struct kube_limiter *l, struct kube_turn *t, int64_t now);
/*
 * Grants the turns that are due. Returns the time until the next turn in ns, or INT64_MAX if no
 * thread waits.
 */
int64_t kube_limiter_grant(struct kube_limiter *l, int64_t now);
/* Ends the turn; a turn that was not granted leaves its queue. */
void kube_limiter_leave(struct kube_limiter *l, struct kube_turn *t);
