/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run calls. There is no queue: a task is given to an idle thread by name, or to a new
 * one. The thread that became idle last gets the next task, so that those which a burst has left
 * over get none and end. How many there may be is bounded by who submits: rpc_server_call.c counts
 * the calls that it lets in.
 *
 * A thread that ends joins the one that ended before it, so that none is left unjoined but the
 * last; and it gives back to the system what malloc has kept since the burst.
 */
#include "rpc/workers.h"

#include <assert.h>
#include <malloc.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"

/*
 * The deepest handler needs a fifth of it. Sanitizers need more for the same frames: their threads
 * have the system's size.
 */
#define STACK_BYTES (256 * 1024)
/* Between two malloc_trim() while many threads end. */
#define TRIM_NS INT64_C(1000000000)

#ifdef __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif

/* One thread. */
struct worker {
	struct workers *pool;
	struct worker *below; /* of the idle ones */
	struct task *task;    /* what to run next */
	pthread_cond_t woken;
	pthread_t thread;
};

struct workers {
	int idle_ms;
	pthread_attr_t attr;
	pthread_mutex_t lock; /* guards all below, and what belongs to idle threads */
	pthread_cond_t changed;
	struct worker *idle; /* who became idle last */
	unsigned n_threads;
	bool stop;
	bool any_ended;
	pthread_t ended; /* to be joined */
	int64_t trimmed_at;
};

struct workers *workers_new(int idle_ms)
{
	struct workers *w = xcalloc(1, sizeof(*w));

	w->idle_ms = idle_ms;
	pthread_attr_init(&w->attr);
#ifndef SANITIZED
	pthread_attr_setstacksize(&w->attr, STACK_BYTES);
#endif
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	return w;
}

/* ---- a thread ---- */

static void leave_idle_locked(struct worker *me)
{
	assert_locked(&me->pool->lock);
	for (struct worker **at = &me->pool->idle; *at; at = &(*at)->below)
		if (*at == me) {
			*at = me->below;
			return;
		}
}

/* NULL: it came none, and the thread ends. */
static struct task *next_task(struct worker *me)
{
	struct workers *w = me->pool;
	struct timespec until = deadline_timespec(deadline_in_ms(w->idle_ms));
	int rc = 0;

	WITH_LOCK(&w->lock);
	me->task = NULL;
	me->below = w->idle;
	w->idle = me;
	while (!me->task && !w->stop && rc == 0)
		rc = pthread_cond_clockwait(&me->woken, &w->lock, CLOCK_MONOTONIC, &until);
	if (!me->task)
		leave_idle_locked(me);
	return me->task;
}

/* True: this thread is to give memory back. Not each of a thousand that end together. */
static bool is_to_trim_locked(struct workers *w)
{
	int64_t now = monotonic_ns();

	assert_locked(&w->lock);
	if (w->stop || (w->n_threads > 1 && now - w->trimmed_at < TRIM_NS))
		return false;
	w->trimmed_at = now;
	return true;
}

/* The last access to the pool is made under its lock: workers_free() goes on after it. */
static void end(struct worker *me)
{
	struct workers *w = me->pool;
	pthread_t before = 0;
	bool join, trim;

	{
		WITH_LOCK(&w->lock);
		trim = is_to_trim_locked(w);
	}
	if (trim)
		malloc_trim(0);
	pthread_cond_destroy(&me->woken);
	{
		WITH_LOCK(&w->lock);
		join = w->any_ended;
		before = w->ended;
		w->any_ended = true;
		w->ended = me->thread;
		w->n_threads--;
		free(me);
		pthread_cond_signal(&w->changed);
	}
	if (join)
		pthread_join(before, NULL);
}

static void *worker(void *arg)
{
	struct worker *me = arg;

	me->thread = pthread_self();
	pthread_setname_np(me->thread, "rpc-worker");
	for (struct task *task = me->task; task; task = next_task(me))
		task->run(task);
	end(me);
	return NULL;
}

/* ---- the pool ---- */

static bool start_locked(struct workers *w, struct task *task)
{
	struct worker *new = xcalloc(1, sizeof(*new));
	pthread_t thread;
	int rc;

	assert_locked(&w->lock);
	new->pool = w;
	new->task = task;
	pthread_cond_init(&new->woken, NULL);
	rc = pthread_create(&thread, &w->attr, worker, new);
	if (rc == 0) {
		w->n_threads++;
		return true;
	}
	log_limited(LOG_WARNING, 10, "cannot start a thread for a call (errno %d); %u run", rc,
	            w->n_threads);
	pthread_cond_destroy(&new->woken);
	free(new);
	return false;
}

bool workers_submit(struct workers *w, struct task *task)
{
	struct worker *idle;

	WITH_LOCK(&w->lock);
	assert(!w->stop);
	idle = w->idle;
	if (!idle)
		return start_locked(w, task);
	w->idle = idle->below;
	idle->task = task;
	pthread_cond_signal(&idle->woken);
	return true;
}

static void stop(struct workers *w)
{
	WITH_LOCK(&w->lock);
	w->stop = true;
	for (struct worker *idle = w->idle; idle; idle = idle->below)
		pthread_cond_signal(&idle->woken);
	while (w->n_threads)
		pthread_cond_wait(&w->changed, &w->lock);
}

struct workers *workers_free(struct workers *w)
{
	if (!w)
		return NULL;
	stop(w);
	if (w->any_ended)
		pthread_join(w->ended, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	pthread_attr_destroy(&w->attr);
	free(w);
	return NULL;
}
