/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request limiter; kube_limiter.h has the rules. `lock` guards the bucket and the queues; it is
 * held for a few steps only, and never while a thread sleeps.
 */
#include "kube/kube_limiter.h"

#include <stdatomic.h>

#include "common/cleanup.h"
#include "common/metric.h"
#include "common/thread.h"

/*
 * The operation to which the thread's requests belong. `began` 0: each request is a separate
 * operation.
 */
static _Thread_local struct {
	unsigned kind;
	uint64_t began;
} work;

static uint64_t next_number(void)
{
	static _Atomic uint64_t last;
	return atomic_fetch_add(&last, 1) + 1;
}

void kube_begin(unsigned kind)
{
	work.kind = kind % KUBE_WORK_KINDS;
	work.began = next_number();
}

void kube_limiter_init(struct kube_limiter *l, double qps, int burst)
{
	*l = (struct kube_limiter) { .lock = PTHREAD_MUTEX_INITIALIZER,
		                     .qps = qps > 0 ? qps : 0,
		                     .burst = burst > 0 ? burst : 1,
		                     .tokens = burst > 0 ? burst : 1 };
}

void kube_limiter_destroy(struct kube_limiter *l)
{
	pthread_mutex_destroy(&l->lock);
}

/* ---- queues ---- */

static void put_behind_locked(struct kube_limiter *l, struct kube_turn *before, struct kube_turn *t)
{
	assert_locked(&l->lock);
	t->before = before;
	t->after = before ? before->after : l->first[t->kind];
	*(before ? &before->after : &l->first[t->kind]) = t;
	*(t->after ? &t->after->before : &l->last[t->kind]) = t;
}

/*
 * New operations go to the end of the queue; the next request of an earlier operation usually goes
 * to the front.
 */
static void enqueue_locked(struct kube_limiter *l, struct kube_turn *t)
{
	struct kube_turn *before = l->last[t->kind];

	assert_locked(&l->lock);
	if (before && l->first[t->kind]->began > t->began)
		before = NULL;
	while (before && before->began > t->began)
		before = before->before;
	put_behind_locked(l, before, t);
}

static void dequeue_locked(struct kube_limiter *l, struct kube_turn *t)
{
	assert_locked(&l->lock);
	*(t->before ? &t->before->after : &l->first[t->kind]) = t->after;
	*(t->after ? &t->after->before : &l->last[t->kind]) = t->before;
}

static struct kube_turn *next_locked(const struct kube_limiter *l)
{
	for (unsigned i = 0; i < KUBE_WORK_KINDS; i++) {
		struct kube_turn *t = l->first[(l->next_kind + i) % KUBE_WORK_KINDS];
		if (t)
			return t;
	}
	return NULL;
}

/* ---- turns ---- */

static bool limiter_consume_token_locked(struct kube_limiter *l, int64_t now)
{
	assert_locked(&l->lock);
	if (l->qps <= 0)
		return true;
	if (l->at && now > l->at)
		l->tokens += (double)(now - l->at) * l->qps / 1e9;
	if (l->tokens > l->burst)
		l->tokens = l->burst;
	if (!l->at || now > l->at)
		l->at = now;
	/* A difference of a billionth is a rounding error from adding times. */
	if (l->tokens < 1 - 1e-9)
		return false;
	l->tokens -= 1;
	return true;
}

static bool ask_locked(struct kube_limiter *l, struct kube_turn *t, int64_t now)
{
	assert_locked(&l->lock);
	*t = (struct kube_turn) { .kind = work.kind,
		                  .began = work.began ? work.began : next_number() };
	t->granted = !next_locked(l) && limiter_consume_token_locked(l, now);
	if (!t->granted)
		enqueue_locked(l, t);
	return t->granted;
}

static int64_t limiter_grant_locked(struct kube_limiter *l, int64_t now)
{
	struct kube_turn *t;

	assert_locked(&l->lock);
	while ((t = next_locked(l))) {
		if (!limiter_consume_token_locked(l, now))
			return (int64_t)((1 - l->tokens) * 1e9 / l->qps) + 1;
		dequeue_locked(l, t);
		l->next_kind = (t->kind + 1) % KUBE_WORK_KINDS;
		t->granted = true;
		wait_queue_wake(&t->called);
	}
	return INT64_MAX;
}

static void limiter_leave_locked(struct kube_limiter *l, struct kube_turn *t)
{
	struct kube_turn *next;

	assert_locked(&l->lock);
	if (!t->granted)
		dequeue_locked(l, t);
	if (l->keeper == t)
		l->keeper = NULL;
	/*
	 * Needed even if another thread was chosen as keeper, because this thread may leave before
	 * the keeper has woken.
	 */
	next = l->keeper ? NULL : next_locked(l);
	if (next)
		wait_queue_wake(&next->called);
}

bool kube_limiter_ask(struct kube_limiter *l, struct kube_turn *t, int64_t now)
{
	WITH_LOCK(&l->lock);
	return ask_locked(l, t, now);
}

int64_t kube_limiter_grant(struct kube_limiter *l, int64_t now)
{
	WITH_LOCK(&l->lock);
	return limiter_grant_locked(l, now);
}

void kube_limiter_leave(struct kube_limiter *l, struct kube_turn *t)
{
	WITH_LOCK(&l->lock);
	limiter_leave_locked(l, t);
}

/* ---- waiting ---- */

/*
 * Returns when the thread of this turn must wake without a signal. If no other thread grants turns,
 * this thread does.
 */
static struct deadline limiter_wake_at_locked(struct kube_limiter *l, struct kube_turn *t,
                                              struct deadline d)
{
	int64_t now, wait;

	assert_locked(&l->lock);
	if (!l->keeper)
		l->keeper = t;
	if (l->keeper != t)
		return d;
	now = monotonic_ns();
	wait = limiter_grant_locked(l, now);
	if (wait < INT64_MAX && now + wait < d.at)
		d.at = now + wait;
	return d;
}

/* Ends the turn. Returns whether the limiter has been stopped. */
static bool sleep_until_granted(struct kube_limiter *l, struct kube_turn *t, struct deadline d)
{
	WITH_LOCK(&l->lock);
	while (!t->granted && !l->stopping && !deadline_given_up(d)) {
		struct deadline until = limiter_wake_at_locked(l, t, d);

		if (!t->granted)
			IGNORE_RESULT(wait_queue_wait(&t->called, &l->lock, until));
	}
	limiter_leave_locked(l, t);
	return l->stopping;
}

int kube_limiter_wait(struct kube_limiter *l, struct deadline d, struct err *err)
{
	static const char what[] = "waiting for the request limit (--kube-api-qps)";
	struct kube_turn t;
	bool stopping;
	unsigned span;

	if (kube_limiter_ask(l, &t, monotonic_ns()))
		return 0;
	span = metric_begin(METRIC_API_QUEUE, NULL);
	thread_rest();
	stopping = sleep_until_granted(l, &t, d);
	metric_end(span);
	if (t.granted)
		return 0;
	if (stopping)
		return err_set(err, ERR_CANCELLED, "%s: the client is being stopped", what);
	return deadline_check(d, err, what);
}

void kube_limiter_stop(struct kube_limiter *l)
{
	WITH_LOCK(&l->lock);
	l->stopping = true;
	for (unsigned i = 0; i < KUBE_WORK_KINDS; i++)
		for (struct kube_turn *t = l->first[i]; t; t = t->after)
			wait_queue_wake(&t->called);
}
