/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run is held by its thread and its caller, an aside by its owner and the run; the last holder
 * frees it. So a thread that never returns keeps its stack and some hundred bytes. The lock guards
 * the aside and its run; no work is done under it. Does not end work: only the kernel can.
 */
#include "common/aside.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"

struct aside {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned holders;
	bool runs;
	int64_t since; /* monotonic ns, while it runs */
};

struct run {
	struct aside *aside;
	void (*fn)(void *box);
	unsigned holders; /* under aside->lock, as `done` */
	bool done;
	void *box;
};

struct aside *aside_new(void)
{
	struct aside *a = xcalloc(1, sizeof(*a));

	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	a->holders = 1;
	return a;
}

static void aside_put(struct aside *a)
{
	bool last;

	{
		WITH_LOCK(&a->lock);
		assert(a->holders);
		last = --a->holders == 0;
	}
	if (!last)
		return;
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

struct aside *aside_free(struct aside *a)
{
	if (a)
		aside_put(a);
	return NULL;
}

static void run_put(struct run *r)
{
	struct aside *a = r->aside;
	bool last;

	{
		WITH_LOCK(&a->lock);
		last = --r->holders == 0;
	}
	if (!last)
		return;
	free(r->box);
	free(r);
	aside_put(a);
}

static void *run_main(void *arg)
{
	struct run *r = arg;

	r->fn(r->box);
	{
		WITH_LOCK(&r->aside->lock);
		r->done = true;
		r->aside->runs = false;
		pthread_cond_broadcast(&r->aside->changed);
	}
	run_put(r);
	return NULL;
}

static int start_thread(struct run *r)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, run_main, r);
	pthread_attr_destroy(&attr);
	return rc;
}

/* True: it has become free, and is the caller's. */
static bool claim(struct aside *a, struct deadline d)
{
	struct timespec until = deadline_timespec(d);
	int rc = 0;

	WITH_LOCK(&a->lock);
	while (a->runs && rc == 0)
		rc = pthread_cond_clockwait(&a->changed, &a->lock, CLOCK_MONOTONIC, &until);
	if (a->runs)
		return false;
	a->runs = true;
	a->since = monotonic_ns();
	a->holders++;
	return true;
}

static void unclaim(struct aside *a)
{
	WITH_LOCK(&a->lock);
	a->runs = false;
	pthread_cond_broadcast(&a->changed);
}

static bool wait_for(struct run *r, struct deadline d)
{
	struct timespec until = deadline_timespec(d);
	int rc = 0;

	WITH_LOCK(&r->aside->lock);
	while (!r->done && rc == 0)
		rc = pthread_cond_clockwait(&r->aside->changed, &r->aside->lock, CLOCK_MONOTONIC,
		                            &until);
	return r->done;
}

int aside_run(struct aside *a, void (*fn)(void *box), void *box, size_t size, struct deadline d,
              struct err *err)
{
	struct run *r;
	bool done;
	int rc;

	if (!claim(a, d))
		return ASIDE_RUNS;
	r = xcalloc(1, sizeof(*r));
	*r = (struct run) { .aside = a, .fn = fn, .holders = 2, .box = xmalloc(size) };
	memcpy(r->box, box, size);
	rc = start_thread(r);
	if (rc) {
		unclaim(a);
		run_put(r);
		run_put(r);
		err_sys(err, rc, "start a thread");
		return err_recode(err, ERR_UNAVAILABLE);
	}
	done = wait_for(r, d);
	if (done)
		memcpy(box, r->box, size);
	run_put(r);
	return done ? 0 : ASIDE_RUNS;
}

bool aside_wait(struct aside *a, struct deadline d)
{
	struct timespec until = deadline_timespec(d);
	int rc = 0;

	WITH_LOCK(&a->lock);
	while (a->runs && rc == 0)
		rc = pthread_cond_clockwait(&a->changed, &a->lock, CLOCK_MONOTONIC, &until);
	return !a->runs;
}

double aside_seconds(struct aside *a)
{
	WITH_LOCK(&a->lock);
	return a->runs ? (double)(monotonic_ns() - a->since) / 1e9 : 0;
}
