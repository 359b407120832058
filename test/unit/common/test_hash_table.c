/* SPDX-License-Identifier: Apache-2.0 */
/* The table finds all items that were added and not removed, for any hashes. */
#include "common/hash_table.h"

#include <stdbool.h>
#include <string.h>

#include "test/lib/suite.h"

#define THINGS 1000

static struct thing {
	struct hash_link link;
	bool there;
	unsigned seen;
} things[THINGS];

/* Four items per hash, and hashes with many equal low bits. */
static uint64_t hash_of(size_t i)
{
	return i / 4 * 16;
}

static bool has(const struct hash_table *t, size_t i)
{
	struct hash_link *l = hash_table_first(t, hash_of(i));

	while (l && l != &things[i].link)
		l = hash_table_next(l);
	return l != NULL;
}

static void see(struct hash_link *l)
{
	((struct thing *)l)->seen++;
}

static void each_is_seen_once(const struct hash_table *t)
{
	hash_table_each(t, see);
	for (size_t i = 0; i < THINGS; i++) {
		ck_assert_uint_eq(things[i].seen, things[i].there);
		things[i].seen = 0;
	}
}

/* Mostly additions for some time, then mostly removals: it grows and shrinks. */
START_TEST(what_was_added_and_not_removed_is_found)
{
	struct hash_table t = { .n = 0 };
	unsigned random = 7;
	size_t n = 0;

	memset(things, 0, sizeof(things));
	for (unsigned step = 0; step < 40000; step++) {
		bool add = step / 5000 % 2 ? random >> 29 < 1 : random >> 29 < 6;
		size_t i;

		random = random * 1103515245 + 12345;
		i = random / 1024 % THINGS;
		if (add && !things[i].there)
			hash_table_add(&t, &things[i].link, hash_of(i));
		else if (!add && things[i].there)
			hash_table_remove(&t, &things[i].link);
		n = n + add - things[i].there;
		things[i].there = add;
		ck_assert_int_eq(has(&t, i), add);
		ck_assert_uint_eq(t.n, n);
		if (step % 1000 == 0)
			each_is_seen_once(&t);
	}
	each_is_seen_once(&t);
	hash_table_clear(&t);
}
END_TEST

START_TEST(of_one_hash_the_newest_comes_first)
{
	struct hash_table t = { .n = 0 };
	struct hash_link *l;

	for (size_t i = 0; i < THINGS; i++)
		hash_table_add(&t, &things[i].link, i % 2);
	for (size_t i = THINGS; i > 20; i--) /* chains are merged on the way */
		hash_table_remove(&t, &things[i - 1].link);
	l = hash_table_first(&t, 1);
	for (size_t i = 20; i > 0; i -= 2, l = hash_table_next(l))
		ck_assert_ptr_eq(l, &things[i - 1].link);
	ck_assert_ptr_null(l);
	hash_table_clear(&t);
}
END_TEST

START_TEST(things_that_have_gone_cost_no_memory)
{
	struct hash_table t = { .n = 0 };

	ck_assert_ptr_null(hash_table_first(&t, 0));
	ck_assert_uint_eq(hash_table_size(&t), 0);
	for (size_t i = 0; i < THINGS; i++)
		hash_table_add(&t, &things[i].link, i);
	ck_assert_uint_le(hash_table_size(&t), 2 * THINGS * sizeof(void *));
	for (size_t i = 0; i < THINGS; i++)
		hash_table_remove(&t, &things[i].link);
	ck_assert_uint_le(hash_table_size(&t), 8 * sizeof(void *));
	hash_table_clear(&t);
	ck_assert_uint_eq(hash_table_size(&t), 0);
}
END_TEST

SUITE("hash_table", what_was_added_and_not_removed_is_found, of_one_hash_the_newest_comes_first,
      things_that_have_gone_cost_no_memory);
