/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes by number: each name has one, and free numbers are reused. */
#include "controller/node_table.h"

#include <stdio.h>

#include "test/lib/suite.h"

#define MANY 1000

static void name_of(unsigned i, char ret[32])
{
	snprintf(ret, 32, "worker-%u", i);
}

START_TEST(a_name_keeps_its_number_while_others_come_and_go)
{
	struct node_table s;
	char name[32];

	node_table_init(&s, hash_key_random());
	ck_assert_uint_eq(node_table_find(&s, "worker-0"), NODE_NUMBER_NONE);
	for (uint32_t i = 0; i < MANY; i++) {
		name_of(i, name);
		ck_assert_uint_eq(node_table_put(&s, name), i);
		s.v[i]->all = i;
	}
	for (uint32_t i = 0; i < MANY; i += 2)
		node_table_forget(&s, i);
	ck_assert_uint_eq(s.names.n, MANY / 2);
	for (uint32_t i = 0; i < MANY; i++) {
		name_of(i, name);
		ck_assert_uint_eq(node_table_find(&s, name), i % 2 ? i : NODE_NUMBER_NONE);
		ck_assert(i % 2 == 0 || s.v[i]->all == i);
	}
	node_table_clear(&s);
	ck_assert_uint_eq(node_table_find(&s, "worker-1"), NODE_NUMBER_NONE);
	ck_assert_uint_eq(node_table_size(&s), 0);
}
END_TEST

START_TEST(a_free_number_is_given_again_before_a_new_one)
{
	struct node_table s;
	uint32_t a, b, c;
	size_t size;

	node_table_init(&s, hash_key_random());
	a = node_table_put(&s, "a");
	b = node_table_put(&s, "b");
	ck_assert_uint_eq(node_table_put(&s, "a"), a);
	size = node_table_size(&s);
	s.v[a]->all = 7;
	node_table_forget(&s, a);
	ck_assert_uint_eq(node_table_size(&s),
	                  size - sizeof(struct node_table_entry) - sizeof("a"));
	c = node_table_put(&s, "c");
	ck_assert_uint_eq(c, a);
	ck_assert_uint_eq(s.v[c]->all, 0);
	ck_assert_uint_eq(node_table_find(&s, "a"), NODE_NUMBER_NONE);
	ck_assert_uint_eq(node_table_find(&s, "b"), b);
	ck_assert_uint_eq(node_table_size(&s), size);
	node_table_clear(&s);
}
END_TEST

SUITE("node_table", a_name_keeps_its_number_while_others_come_and_go,
      a_free_number_is_given_again_before_a_new_one);
