/* SPDX-License-Identifier: Apache-2.0 */
/* Indeterminate writes and when they expire; the test sets the time. */
#include <stdio.h>

#include "kube/kube_indeterminate.h"
#include "test/lib/suite.h"

static const struct kube_kind pods = { .plural = "pods" }, nodes = { .plural = "nodes" };

START_TEST(an_object_is_indeterminate_until_its_time_is_over)
{
	struct kube_indeterminate d;

	kube_indeterminate_init(&d, 0);
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 100));
	kube_indeterminate_add(&d, &pods, "ns", "a", 100, 200);
	kube_indeterminate_add(&d, &pods, "ns", "b", 100, 300);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "a", 199));
	ck_assert(!kube_indeterminate_has(&d, &nodes, "ns", "a", 199));
	ck_assert(!kube_indeterminate_has(&d, &pods, "other", "a", 199));
	ck_assert(!kube_indeterminate_has(&d, &pods, NULL, "a", 199));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 200));
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "b", 200));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "b", 300));
	ck_assert_uint_eq(d.n, 0);
	ck_assert_ptr_null(d.v);
	kube_indeterminate_destroy(&d);
}
END_TEST

START_TEST(the_latest_of_several_counts)
{
	struct kube_indeterminate d;

	kube_indeterminate_init(&d, 0);
	kube_indeterminate_add(&d, &pods, "ns", "a", 0, 300);
	kube_indeterminate_add(&d, &pods, "ns", "a", 0, 200);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "a", 250));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 300));
	kube_indeterminate_destroy(&d);
}
END_TEST

START_TEST(of_too_many_writes_all_objects_are_indeterminate)
{
	struct kube_indeterminate d;

	kube_indeterminate_init(&d, 0);
	for (int i = 0; i < KUBE_INDETERMINATE_MAX + 1; i++) {
		char name[20];

		snprintf(name, sizeof(name), "v%d", i);
		kube_indeterminate_add(&d, &pods, "ns", name, 0, 100 + i);
	}
	ck_assert_uint_eq(d.n, KUBE_INDETERMINATE_MAX);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "never-named", 100));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "never-named",
	                                  100 + KUBE_INDETERMINATE_MAX));
	/* There is space for single entries again. */
	kube_indeterminate_add(&d, &pods, "ns", "a", 100000, 200000);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "a", 100000));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "b", 100000));
	kube_indeterminate_destroy(&d);
}
END_TEST

#define MS INT64_C(1000000)

START_TEST(no_entry_expires_during_a_gap_or_shortly_after_it)
{
	struct kube_indeterminate d;

	kube_indeterminate_init(&d, 10);
	kube_indeterminate_response(&d, true, 1000 * MS);
	kube_indeterminate_add(&d, &pods, "ns", "a", 1000 * MS, 1050 * MS);
	kube_indeterminate_response(&d, false, 1005 * MS);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "a", 1100 * MS));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "b", 1100 * MS));
	kube_indeterminate_response(&d, true, 1100 * MS);
	ck_assert(kube_indeterminate_has(&d, &pods, "ns", "a", 1109 * MS));
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 1110 * MS));
	kube_indeterminate_destroy(&d);
}
END_TEST

/* One server of three fails permanently, or no request is sent: entries expire anyway. */
START_TEST(failures_among_answers_and_silence_are_no_gap)
{
	struct kube_indeterminate d;

	kube_indeterminate_init(&d, 10);
	kube_indeterminate_add(&d, &pods, "ns", "a", 1000 * MS, 1050 * MS);
	for (int64_t at = 1000; at < 1060; at += 15) {
		kube_indeterminate_response(&d, true, at * MS);
		kube_indeterminate_response(&d, false, (at + 1) * MS);
	}
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 1060 * MS));
	kube_indeterminate_response(&d, true, 1061 * MS);
	kube_indeterminate_add(&d, &pods, "ns", "a", 1061 * MS, 1100 * MS);
	ck_assert(!kube_indeterminate_has(&d, &pods, "ns", "a", 5000 * MS));
	kube_indeterminate_destroy(&d);
}
END_TEST

SUITE("kube_indeterminate", an_object_is_indeterminate_until_its_time_is_over,
      the_latest_of_several_counts, of_too_many_writes_all_objects_are_indeterminate,
      no_entry_expires_during_a_gap_or_shortly_after_it,
      failures_among_answers_and_silence_are_no_gap);
