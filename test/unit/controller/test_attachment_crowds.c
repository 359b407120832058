/* SPDX-License-Identifier: Apache-2.0 */
/* The crowds of volumes hold what was added and not removed, and cost nothing without members. */
#include "controller/attachment_crowds.h"

#include <stdbool.h>
#include <string.h>

#include "test/lib/suite.h"

#define VOLUMES 40
#define MEMBERS 30

static bool has(const struct attachment_crowds *s, uint64_t volume, uint32_t member)
{
	const struct attachment_crowd *crowd = attachment_crowds_find(s, volume);

	for (uint32_t i = 0; crowd && i < crowd->n; i++)
		if (crowd->members[i] == member)
			return true;
	return false;
}

/* Volumes whose hashes begin alike stand in one bucket. Some end and begin again on the way. */
START_TEST(a_crowd_holds_what_was_added_and_not_removed)
{
	static bool there[VOLUMES][MEMBERS];
	struct attachment_crowds s = { .members = 0 };
	unsigned random = 7;

	memset(there, 0, sizeof(there));
	for (unsigned step = 0; step < 40000; step++) {
		unsigned volume, member, n = 0, crowds = 0;
		const struct attachment_crowd *crowd;
		bool add = step / 2000 % 2 ? random >> 29 < 1 : random >> 29 < 6;

		random = random * 1103515245 + 12345;
		volume = random / 65536 % VOLUMES;
		member = random / 1024 % MEMBERS;
		if (add && !there[volume][member])
			attachment_crowds_add(&s, volume * 16, member);
		else if (!add && there[volume][member])
			attachment_crowds_remove(&s, volume * 16, member);
		there[volume][member] = add;
		ck_assert_int_eq(has(&s, volume * 16, member), add);
		for (unsigned i = 0; i < MEMBERS; i++)
			n += there[volume][i];
		crowd = attachment_crowds_find(&s, volume * 16);
		ck_assert_uint_eq(crowd ? crowd->n : 0, n);
		for (unsigned i = 0; i < VOLUMES; i++)
			crowds += memchr(there[i], true, MEMBERS) != NULL;
		ck_assert_uint_eq(s.table.n, crowds);
	}
	attachment_crowds_clear(&s);
	ck_assert_uint_eq(attachment_crowds_size(&s), 0);
}
END_TEST

START_TEST(crowds_that_have_gone_cost_no_memory)
{
	struct attachment_crowds s = { .members = 0 };

	for (uint32_t i = 0; i < 100000; i++)
		attachment_crowds_add(&s, i % 1000, i);
	ck_assert_uint_eq(s.table.n, 1000);
	ck_assert_uint_lt(attachment_crowds_size(&s), 100000 * 6);
	for (uint32_t i = 0; i < 90000; i++)
		attachment_crowds_remove(&s, i % 1000, i);
	ck_assert_uint_lt(attachment_crowds_size(&s), 1000 * 200);
	for (uint32_t i = 90000; i < 100000; i++)
		attachment_crowds_remove(&s, i % 1000, i);
	ck_assert_uint_eq(s.table.n, 0);
	ck_assert_uint_lt(attachment_crowds_size(&s), 200);
	attachment_crowds_clear(&s);
}
END_TEST

SUITE("attachment_crowds", a_crowd_holds_what_was_added_and_not_removed,
      crowds_that_have_gone_cost_no_memory);
