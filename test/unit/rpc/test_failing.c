/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes on which calls fail: from the first failure to the first success. */
#include <stdio.h>

#include "rpc/failing.h"
#include "test/lib/suite.h"

#define S INT64_C(1000000000)

static unsigned count(int64_t now, int64_t oldest)
{
	int64_t got;
	unsigned n = failing_count(now, &got);

	ck_assert_int_eq(got, oldest);
	return n;
}

START_TEST(a_volume_fails_from_its_first_failure_to_its_first_success)
{
	failing_note("pvc-1", false, S);
	ck_assert_uint_eq(count(S, 0), 0);
	failing_note("pvc-1", true, 10 * S);
	failing_note("pvc-2", true, 20 * S);
	failing_note("pvc-1", true, 400 * S);
	ck_assert_uint_eq(count(410 * S, 400 * S), 2);
	failing_note("pvc-3", false, 410 * S);
	failing_note("pvc-1", false, 410 * S);
	ck_assert_uint_eq(count(410 * S, 390 * S), 1);
	failing_note("pvc-2", false, 410 * S);
	ck_assert_uint_eq(count(410 * S, 0), 0);
}
END_TEST

START_TEST(whom_nobody_calls_for_is_forgotten_and_begins_anew)
{
	int64_t later = FAILING_FORGOTTEN_NS + 11 * S;

	failing_note("pvc-1", true, 10 * S);
	ck_assert_uint_eq(count(later, 0), 0);
	failing_note("pvc-1", true, later);
	ck_assert_uint_eq(count(later + S, S), 1);
}
END_TEST

START_TEST(more_than_there_is_room_for_leaves_those_that_are_there)
{
	char name[16];
	unsigned n;

	failing_note("first", true, S);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "pvc-%d", i);
		failing_note(name, true, 2 * S);
	}
	n = count(3 * S, 2 * S);
	ck_assert_uint_gt(n, FAILING_MAX / 2);
	ck_assert_uint_le(n, FAILING_MAX);
	failing_note("first", false, 4 * S);
	ck_assert_uint_eq(count(4 * S, 2 * S), n - 1);
}
END_TEST

SUITE("failing", a_volume_fails_from_its_first_failure_to_its_first_success,
      whom_nobody_calls_for_is_forgotten_and_begins_anew,
      more_than_there_is_room_for_leaves_those_that_are_there);
