/* SPDX-License-Identifier: Apache-2.0 */
/* Detached operations: one ends, one outlives the caller, one hangs. */
#include <semaphore.h>
#include <stdatomic.h>

#include "common/detached.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static sem_t begun, may_end;
static atomic_int runs;

struct box {
	int in, out;
};

static void add_one(void *arg)
{
	struct box *b = arg;

	b->out = b->in + 1;
	atomic_fetch_add(&runs, 1);
}

static void hang(void *arg)
{
	sem_post(&begun);
	while (sem_wait(&may_end))
		;
	add_one(arg);
}

static struct deadline now(void)
{
	return deadline_in_ms(0);
}

static struct deadline soon(void)
{
	return wait_limit();
}

static struct detached_slot *begin(void)
{
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	atomic_store(&runs, 0);
	return detached_slot_new();
}

static atomic_int freed;

static void count_free(void *arg)
{
	(void)arg;
	atomic_fetch_add(&freed, 1);
}

static struct detached *begin_work(struct box *b)
{
	struct err err = ERR_INIT;
	struct detached *d;

	detached_slot_free(begin());
	atomic_store(&freed, 0);
	d = detached_start(hang, count_free, b, &err);
	ck_assert_ptr_nonnull(d);
	while (sem_wait(&begun))
		;
	return d;
}

START_TEST(work_is_joined_later_and_frees_its_box_once)
{
	struct box b = { .in = 1 };
	struct detached *d = begin_work(&b);

	ck_assert(!detached_wait(d, now()) && !detached_ended(d));
	ck_assert(detached_seconds(d) > 0);
	sem_post(&may_end);
	for (int i = 0; i < 2; i++)
		ck_assert(detached_wait(d, soon()) && detached_ended(d));
	ck_assert(detached_seconds(d) == 0);
	ck_assert_int_eq(b.out, 2);
	/* The thread has no reference left: the box is freed with the caller's. */
	ck_assert_ptr_eq(detached_get(d), d);
	detached_put(d);
	ck_assert_int_eq(atomic_load(&freed), 0);
	ck_assert_ptr_null(detached_put(d));
	ck_assert_int_eq(atomic_load(&freed), 1);
	ck_assert_ptr_null(detached_put(NULL));
}
END_TEST

START_TEST(work_that_outlives_all_callers_frees_its_box)
{
	struct box b = { .in = 1 };

	detached_put(begin_work(&b));
	ck_assert_int_eq(atomic_load(&freed), 0);
	sem_post(&may_end);
	WAIT_UNTIL(atomic_load(&freed) == 1);
	ck_assert_int_eq(b.out, 2);
}
END_TEST

struct caller {
	struct detached *work;
	struct cancel cancel;
	pthread_t thread;
	bool ended;
};

static void *wait_for_work(void *arg)
{
	struct caller *c = arg;
	struct deadline d = deadline_never();

	d.cancel = &c->cancel;
	c->ended = detached_wait(c->work, d);
	return NULL;
}

START_TEST(a_cancellation_wakes_its_caller_and_no_other)
{
	struct box b = { .in = 1 };
	struct detached *d = begin_work(&b);
	struct caller callers[3];

	for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
		callers[i] = (struct caller) { .work = d };
		cancel_init(&callers[i].cancel);
		ck_assert_int_eq(
			pthread_create(&callers[i].thread, NULL, wait_for_work, &callers[i]), 0);
	}
	cancel_set(&callers[1].cancel);
	pthread_join(callers[1].thread, NULL);
	ck_assert(!callers[1].ended);
	sem_post(&may_end);
	for (size_t i = 0; i < ARRAY_LEN(callers); i += 2) {
		pthread_join(callers[i].thread, NULL);
		ck_assert(callers[i].ended);
	}
	detached_put(d);
}
END_TEST

START_TEST(work_that_ends_in_time_gives_its_result)
{
	struct detached_slot *s AUTO(detached_slot_free) = begin();
	struct err err = ERR_INIT;

	for (int i = 0; i < 3; i++) {
		struct box b = { .in = i };

		ck_assert_int_eq(detached_slot_run(s, add_one, &b, sizeof(b), soon(), &err), 0);
		ck_assert_int_eq(b.out, i + 1);
	}
	ck_assert(detached_slot_wait(s, soon()));
	ck_assert(detached_slot_seconds(s) == 0);
}
END_TEST

START_TEST(work_that_hangs_costs_one_thread_and_its_caller_goes)
{
	struct detached_slot *s AUTO(detached_slot_free) = begin();
	struct box b = { .in = 1, .out = 7 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(detached_slot_run(s, hang, &b, sizeof(b), now(), &err), DETACHED_RUNS);
	while (sem_wait(&begun))
		;
	/* The next operation does not begin, and nothing is written to an abandoned box. */
	ck_assert_int_eq(detached_slot_run(s, add_one, &b, sizeof(b), deadline_in_ms(10), &err),
	                 DETACHED_RUNS);
	ck_assert(!detached_slot_wait(s, now()));
	ck_assert(detached_slot_seconds(s) > 0);
	ck_assert_int_eq(b.out, 7);
	ck_assert_int_eq(atomic_load(&runs), 0);
	sem_post(&may_end);
	ck_assert_int_eq(detached_slot_run(s, add_one, &b, sizeof(b), soon(), &err), 0);
	ck_assert_int_eq(atomic_load(&runs), 2);
	ck_assert_int_eq(b.out, 2);
}
END_TEST

START_TEST(work_may_outlive_its_owner)
{
	struct detached_slot *s = begin();
	struct box b = { .in = 1 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(detached_slot_run(s, hang, &b, sizeof(b), now(), &err), DETACHED_RUNS);
	ck_assert_ptr_null(detached_slot_free(s));
	sem_post(&may_end);
	while (!atomic_load(&runs))
		sched_yield();
}
END_TEST

SUITE("detached", work_is_joined_later_and_frees_its_box_once,
      work_that_outlives_all_callers_frees_its_box, a_cancellation_wakes_its_caller_and_no_other,
      work_that_ends_in_time_gives_its_result, work_that_hangs_costs_one_thread_and_its_caller_goes,
      work_may_outlive_its_owner);
