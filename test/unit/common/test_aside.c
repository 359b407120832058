/* SPDX-License-Identifier: Apache-2.0 */
/* Work beside its caller: it ends, it outlives the caller, it hangs. */
#include <semaphore.h>
#include <stdatomic.h>

#include "common/aside.h"
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

static struct aside *begin(void)
{
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	atomic_store(&runs, 0);
	return aside_new();
}

START_TEST(work_that_ends_in_time_gives_its_result)
{
	struct aside *a AUTO(aside_free) = begin();
	struct err err = ERR_INIT;

	for (int i = 0; i < 3; i++) {
		struct box b = { .in = i };

		ck_assert_int_eq(aside_run(a, add_one, &b, sizeof(b), soon(), &err), 0);
		ck_assert_int_eq(b.out, i + 1);
	}
	ck_assert(aside_wait(a, soon()));
	ck_assert(aside_seconds(a) == 0);
}
END_TEST

START_TEST(work_that_hangs_costs_one_thread_and_its_caller_goes)
{
	struct aside *a AUTO(aside_free) = begin();
	struct box b = { .in = 1, .out = 7 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(aside_run(a, hang, &b, sizeof(b), now(), &err), ASIDE_RUNS);
	while (sem_wait(&begun))
		;
	/* What comes behind it does not begin, and nothing is written to a box that was left. */
	ck_assert_int_eq(aside_run(a, add_one, &b, sizeof(b), deadline_in_ms(10), &err),
	                 ASIDE_RUNS);
	ck_assert(!aside_wait(a, now()));
	ck_assert(aside_seconds(a) > 0);
	ck_assert_int_eq(b.out, 7);
	ck_assert_int_eq(atomic_load(&runs), 0);
	sem_post(&may_end);
	ck_assert_int_eq(aside_run(a, add_one, &b, sizeof(b), soon(), &err), 0);
	ck_assert_int_eq(atomic_load(&runs), 2);
	ck_assert_int_eq(b.out, 2);
}
END_TEST

START_TEST(work_may_outlive_its_owner)
{
	struct aside *a = begin();
	struct box b = { .in = 1 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(aside_run(a, hang, &b, sizeof(b), now(), &err), ASIDE_RUNS);
	ck_assert_ptr_null(aside_free(a));
	sem_post(&may_end);
	while (!atomic_load(&runs))
		sched_yield();
}
END_TEST

SUITE("aside", work_that_ends_in_time_gives_its_result,
      work_that_hangs_costs_one_thread_and_its_caller_goes, work_may_outlive_its_owner);
