/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests may be sent per second, and whose is the next one.
 *
 * A token bucket. Who finds it empty waits in the queue of his kind of work (kube_begin()), and the
 * kinds take turns: a thousand creates keep a detach waiting for one turn, not for a thousand. In a
 * queue the work that began first goes first, so that under a flood some calls are finished while
 * others have not begun, and not all of them half done at their deadlines.
 *
 * One of those who wait sleeps until the next token and hands out the turns; the others sleep until
 * they are called. So the wait of thousands costs nothing.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/wait_queue.h"
#include "kube/kube.h"

/* One request that waits, on its thread's stack. All fields are under the limiter's lock. */
struct kube_turn {
	struct kube_turn *before, *after; /* in its queue */
	unsigned kind;
	uint64_t began; /* the work's number */
	bool granted;
	struct wait_queue called;
};

struct kube_limiter {
	pthread_mutex_t lock;
	double qps; /* 0: unlimited */
	double burst;
	double tokens; /* this and what follows: under lock */
	int64_t at;    /* when tokens were last added; monotonic ns; 0: never */
	struct kube_turn *first[KUBE_WORK_KINDS], *last[KUBE_WORK_KINDS];
	unsigned next_kind;       /* whose turn it is */
	struct kube_turn *keeper; /* who sleeps until the next token, NULL: nobody */
	bool stopping;
};

void kube_limiter_init(struct kube_limiter *l, double qps, int burst);
void kube_limiter_destroy(struct kube_limiter *l); /* nobody waits */
/*
 * Blocks until a request of this thread may be sent. -1: the deadline has passed, the call is
 * cancelled, or the limiter has been stopped.
 */
int kube_limiter_wait(struct kube_limiter *l, struct deadline d, struct err *err) MUST_CHECK;
/* All who wait give up, now and later. */
void kube_limiter_stop(struct kube_limiter *l);

/* ---- what kube_limiter_wait() is made of, with the time as an argument ---- */

/* Initialises `t` for this thread's work. True: it may be sent at once. False: it is queued. */
bool kube_limiter_ask(struct kube_limiter *l, struct kube_turn *t, int64_t now);
/*
 * Hands out the turns whose time has come. Returns in how many ns the next one comes, INT64_MAX
 * when nobody waits.
 */
int64_t kube_limiter_grant(struct kube_limiter *l, int64_t now);
/* Ends the turn; one that was not granted leaves its queue. */
void kube_limiter_leave(struct kube_limiter *l, struct kube_turn *t);
