/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines and cancellation. */
#include <limits.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

START_TEST(never_is_never)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(deadline_left_ms(deadline_never()), INT_MAX);
	ck_assert_int_eq(deadline_check(deadline_never(), &err, "wait"), 0);
	ck_assert_int_eq(deadline_left_ms(deadline_reserve(deadline_never(), 1000, 5)), INT_MAX);
	ck_assert_int_eq(deadline_left_ms(deadline_in_ms(INT64_MAX)), INT_MAX);
}
END_TEST

START_TEST(clamping_only_shortens)
{
	struct deadline d = deadline_in_ms(600000);

	ck_assert_int_le(deadline_left_ms(deadline_clamp(d, 100)), 100);
	ck_assert_int_gt(deadline_left_ms(deadline_clamp(d, 1000000)), 500000);
}
END_TEST

START_TEST(a_reserve_is_the_larger_of_both_but_at_most_half)
{
	int left = deadline_left_ms(deadline_reserve(deadline_in_ms(100000000), 1000, 5));

	ck_assert_int_le(left, 95000000);
	ck_assert_int_gt(left, 94000000);
	left = deadline_left_ms(deadline_reserve(deadline_in_ms(10000), 1000, 5));
	ck_assert_int_le(left, 9000);
	left = deadline_left_ms(deadline_reserve(deadline_in_ms(1000000), 1000000, 5));
	ck_assert_int_le(left, 500000);
	ck_assert_int_gt(left, 400000);
}
END_TEST

START_TEST(a_passed_deadline_says_what_was_waited_for)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(deadline_check(deadline_in_ms(0), &err, "DPUVolume a/b"), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert_str_eq(err.msg, "DPUVolume a/b: time ran out");
}
END_TEST

static void *cancel_soon(void *arg)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(deadline_sleep(deadline_never(), 50, &err, "pause"), 0);
	cancel_set(arg);
	return NULL;
}

START_TEST(cancelling_wakes_a_sleeper)
{
	struct cancel c = CANCEL_INIT;
	struct deadline d = deadline_never();
	struct err err = ERR_INIT;
	pthread_t t;

	d.cancel = &c;
	ck_assert_int_eq(pthread_create(&t, NULL, cancel_soon, &c), 0);
	ck_assert_int_eq(deadline_sleep(d, NEVER_MS, &err, "wait"), -1);
	ck_assert_int_eq(err.code, ERR_CANCELLED);
	pthread_join(t, NULL);
	cancel_destroy(&c);
}
END_TEST

START_TEST(a_sleep_ends_with_its_deadline)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(deadline_sleep(deadline_in_ms(20), NEVER_MS, &err, "wait"), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
}
END_TEST

SUITE("deadline", never_is_never, clamping_only_shortens,
      a_reserve_is_the_larger_of_both_but_at_most_half, a_passed_deadline_says_what_was_waited_for,
      cancelling_wakes_a_sleeper, a_sleep_ends_with_its_deadline);
