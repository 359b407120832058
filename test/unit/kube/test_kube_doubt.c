/* SPDX-License-Identifier: Apache-2.0 */
/* Which objects may still be made by a POST that had no answer; the time is the test's. */
#include <stdio.h>

#include "kube/kube_doubt.h"
#include "test/lib/suite.h"

static const struct kube_kind pods = { .plural = "pods" }, nodes = { .plural = "nodes" };

START_TEST(an_object_is_in_doubt_until_its_time_is_over)
{
	struct kube_doubts d;

	kube_doubts_init(&d, 0);
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 100));
	kube_doubts_add(&d, &pods, "ns", "a", 100, 200);
	kube_doubts_add(&d, &pods, "ns", "b", 100, 300);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "a", 199));
	ck_assert(!kube_doubts_has(&d, &nodes, "ns", "a", 199));
	ck_assert(!kube_doubts_has(&d, &pods, "other", "a", 199));
	ck_assert(!kube_doubts_has(&d, &pods, NULL, "a", 199));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 200));
	ck_assert(kube_doubts_has(&d, &pods, "ns", "b", 200));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "b", 300));
	ck_assert_uint_eq(d.n, 0);
	ck_assert_ptr_null(d.v);
	kube_doubts_destroy(&d);
}
END_TEST

START_TEST(the_latest_of_several_counts)
{
	struct kube_doubts d;

	kube_doubts_init(&d, 0);
	kube_doubts_add(&d, &pods, "ns", "a", 0, 300);
	kube_doubts_add(&d, &pods, "ns", "a", 0, 200);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "a", 250));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 300));
	kube_doubts_destroy(&d);
}
END_TEST

START_TEST(of_too_many_all_are_in_doubt)
{
	struct kube_doubts d;

	kube_doubts_init(&d, 0);
	for (int i = 0; i < KUBE_DOUBTS_MAX + 1; i++) {
		char name[20];

		snprintf(name, sizeof(name), "v%d", i);
		kube_doubts_add(&d, &pods, "ns", name, 0, 100 + i);
	}
	ck_assert_uint_eq(d.n, KUBE_DOUBTS_MAX);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "never-named", 100));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "never-named", 100 + KUBE_DOUBTS_MAX));
	/* There is room again for single ones. */
	kube_doubts_add(&d, &pods, "ns", "a", 100000, 200000);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "a", 100000));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "b", 100000));
	kube_doubts_destroy(&d);
}
END_TEST

#define MS INT64_C(1000000)

START_TEST(no_doubt_ends_in_a_gap_and_for_a_while_behind_it)
{
	struct kube_doubts d;

	kube_doubts_init(&d, 10);
	kube_doubts_hear(&d, true, 1000 * MS);
	kube_doubts_add(&d, &pods, "ns", "a", 1000 * MS, 1050 * MS);
	kube_doubts_hear(&d, false, 1005 * MS);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "a", 1100 * MS));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "b", 1100 * MS));
	kube_doubts_hear(&d, true, 1100 * MS);
	ck_assert(kube_doubts_has(&d, &pods, "ns", "a", 1109 * MS));
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 1110 * MS));
	kube_doubts_destroy(&d);
}
END_TEST

/* One server of three fails for ever, or nobody asks anything: doubts end all the same. */
START_TEST(failures_among_answers_and_silence_are_no_gap)
{
	struct kube_doubts d;

	kube_doubts_init(&d, 10);
	kube_doubts_add(&d, &pods, "ns", "a", 1000 * MS, 1050 * MS);
	for (int64_t at = 1000; at < 1060; at += 15) {
		kube_doubts_hear(&d, true, at * MS);
		kube_doubts_hear(&d, false, (at + 1) * MS);
	}
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 1060 * MS));
	kube_doubts_hear(&d, true, 1061 * MS);
	kube_doubts_add(&d, &pods, "ns", "a", 1061 * MS, 1100 * MS);
	ck_assert(!kube_doubts_has(&d, &pods, "ns", "a", 5000 * MS));
	kube_doubts_destroy(&d);
}
END_TEST

SUITE("kube_doubt", an_object_is_in_doubt_until_its_time_is_over, the_latest_of_several_counts,
      of_too_many_all_are_in_doubt, no_doubt_ends_in_a_gap_and_for_a_while_behind_it,
      failures_among_answers_and_silence_are_no_gap);
