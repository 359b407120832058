/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock guards the references and the end of the operation; it is not held during the operation.
 * This module never ends an operation, because only the kernel can.
 */
#include "common/detached.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/thread.h"
#include "common/wait_queue.h"

struct detached {
	void (*run)(void *box);
	void (*free_box)(void *box);
	void *box;
	int64_t since; /* monotonic ns */
	pthread_mutex_t lock;
	unsigned refs;
	bool ended;
	struct wait_queue end;
};

static void detached_free(struct detached *d)
{
	d->free_box(d->box);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

struct detached *detached_get(struct detached *d)
{
	WITH_LOCK(&d->lock);
	d->refs++;
	return d;
}

struct detached *detached_put(struct detached *d)
{
	bool last = false;

	if (d) {
		WITH_LOCK(&d->lock);
		assert(d->refs);
		last = --d->refs == 0;
	}
	if (last)
		detached_free(d);
	return NULL;
}

/*
 * Marks the operation as ended and drops the thread's reference in one step, because a caller that
 * has waited frees the box itself.
 */
static void *detached_main(void *arg)
{
	struct detached *d = arg;
	bool last;

	d->run(d->box);
	{
		WITH_LOCK(&d->lock);
		d->ended = true;
		wait_queue_wake(&d->end);
		last = --d->refs == 0;
	}
	if (last)
		detached_free(d);
	return NULL;
}

struct detached *detached_start(void (*run)(void *box), void (*free_box)(void *box), void *box,
                                struct err *err)
{
	struct detached *d = xcalloc(1, sizeof(*d));
	int rc;

	*d = (struct detached) {
		.run = run, .free_box = free_box, .box = box, .since = monotonic_ns(), .refs = 2
	};
	pthread_mutex_init(&d->lock, NULL);
	rc = thread_start(detached_main, d);
	if (rc == 0)
		return d;
	pthread_mutex_destroy(&d->lock);
	free(d);
	err_sys_of(err, ERR_CALL_TASK, rc, "start a thread");
	err_recode(err, ERR_UNAVAILABLE);
	return NULL;
}

bool detached_wait(struct detached *d, struct deadline until)
{
	WITH_LOCK(&d->lock);
	while (!d->ended && wait_queue_wait(&d->end, &d->lock, until))
		;
	return d->ended;
}

bool detached_ended(struct detached *d)
{
	WITH_LOCK(&d->lock);
	return d->ended;
}

double detached_seconds(struct detached *d)
{
	return d && !detached_ended(d) ? (double)(monotonic_ns() - d->since) / 1e9 : 0;
}

/* ---- one at a time ---- */

struct detached_slot {
	pthread_mutex_t lock;
	struct detached *last; /* guarded by the lock; NULL: none was started yet */
};

struct slot_box {
	void (*fn)(void *box);
	_Alignas(max_align_t) char bytes[];
};

struct detached_slot *detached_slot_new(void)
{
	struct detached_slot *s = xcalloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	return s;
}

struct detached_slot *detached_slot_free(struct detached_slot *s)
{
	if (!s)
		return NULL;
	detached_put(s->last);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static void slot_main(void *box)
{
	struct slot_box *b = box;

	b->fn(b->bytes);
}

/* Returns a reference to the running operation; NULL if none runs. */
static struct detached *slot_running_locked(struct detached_slot *s)
{
	assert_locked(&s->lock);
	return s->last && !detached_ended(s->last) ? detached_get(s->last) : NULL;
}

static bool wait_and_put(struct detached *d, struct deadline until)
{
	bool ended = detached_wait(d, (struct deadline) { .at = until.at });

	detached_put(d);
	return ended;
}

/*
 * Returns 0 with the new operation in *ret, DETACHED_RUNS with the previous one, or -1. Both are
 * references.
 */
static int slot_try(struct detached_slot *s, struct slot_box *b, struct detached **ret,
                    struct err *err)
{
	WITH_LOCK(&s->lock);
	*ret = slot_running_locked(s);
	if (*ret)
		return DETACHED_RUNS;
	*ret = detached_start(slot_main, free, b, err);
	if (!*ret)
		return -1;
	detached_put(s->last);
	s->last = detached_get(*ret);
	return 0;
}

int detached_slot_run(struct detached_slot *s, void (*fn)(void *box), void *box, size_t size,
                      struct deadline d, struct err *err)
{
	struct slot_box *b = xmalloc(sizeof(*b) + size);
	struct detached *work;
	bool ended;
	int rc;

	b->fn = fn;
	memcpy(b->bytes, box, size);
	do
		rc = slot_try(s, b, &work, err);
	while (rc == DETACHED_RUNS && wait_and_put(work, d));
	if (rc) {
		free(b);
		return rc;
	}
	ended = detached_wait(work, (struct deadline) { .at = d.at });
	if (ended)
		memcpy(box, b->bytes, size);
	detached_put(work);
	return ended ? 0 : DETACHED_RUNS;
}

bool detached_slot_wait(struct detached_slot *s, struct deadline d)
{
	struct detached *running;

	{
		WITH_LOCK(&s->lock);
		running = slot_running_locked(s);
	}
	return !running || wait_and_put(running, d);
}

double detached_slot_seconds(struct detached_slot *s)
{
	WITH_LOCK(&s->lock);
	return detached_seconds(s->last);
}
