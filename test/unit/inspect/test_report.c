/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a report: it has each volume once, and findings in full. */
#include <stdlib.h>

#include "inspect/inspect.h"
#include "test/lib/suite.h"

START_TEST(a_volume_is_in_it_once)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct json *first;

	inspect_report_init(&r);
	first = inspect_volume(&r, "pvc-0");
	for (unsigned i = 0; i < 1000; i++) {
		char id[32];

		snprintf(id, sizeof(id), "pvc-%u", i);
		json_set_int(json_sub(inspect_volume(&r, id), "node"), "i", i);
	}
	ck_assert_ptr_eq(inspect_volume(&r, "pvc-0"), first);
	ck_assert_uint_eq(json_count(json_at(r.tree, "volumes")), 1000);
	for (unsigned i = 0; i < 1000; i++) {
		char id[32];
		int64_t v = -1;
		struct err err = ERR_INIT;

		snprintf(id, sizeof(id), "pvc-%u", i);
		ck_assert_int_eq(json_get_i64(inspect_volume(&r, id), "node.i", &v, &err), 0);
		ck_assert_int_eq(v, i);
	}
}
END_TEST

START_TEST(a_finding_has_its_object_what_and_next)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };

	inspect_report_init(&r);
	ck_assert_uint_eq(json_count(json_at(r.tree, "findings")), 0);
	inspect_finding(&r, "volume pvc-1", "end it", "pid %d (%s) holds it", 12, "d\033d");
	ck_assert_uint_eq(r.n_findings, 1);
	ck_assert_str_eq(json_str(r.tree, "findings.0.object"), "volume pvc-1");
	ck_assert_str_eq(json_str(r.tree, "findings.0.what"), "pid 12 (d\\u001bd) holds it");
	ck_assert_str_eq(json_str(r.tree, "findings.0.next"), "end it");
}
END_TEST

START_TEST(ages_are_told_in_two_units)
{
	static const struct {
		int64_t seconds;
		const char *age;
	} rows[] = {
		{ -5, "0 s" },
		{ 0, "0 s" },
		{ 59, "59 s" },
		{ 60, "1 min" },
		{ 61, "1 min 1 s" },
		{ 3599, "59 min 59 s" },
		{ 3600, "1 h" },
		{ 3605, "1 h" },
		{ 86400, "1 d" },
		{ 3 * 86400 + 4 * 3600 + 59, "3 d 4 h" },
		{ 400 * 86400, "400 d" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char buf[64];

		ck_assert_str_eq(inspect_age(rows[i].seconds, buf), rows[i].age);
	}
}
END_TEST

SUITE("report", a_volume_is_in_it_once, a_finding_has_its_object_what_and_next,
      ages_are_told_in_two_units);
