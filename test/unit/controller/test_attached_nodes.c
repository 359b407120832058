/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes by number: a name has one, and a number that is free is given again. */
#include "controller/attached_nodes.h"

#include <stdio.h>

#include "test/lib/suite.h"

#define MANY 1000

static void name_of(unsigned i, char ret[32])
{
	snprintf(ret, 32, "worker-%u", i);
}

START_TEST(a_name_keeps_its_number_while_others_come_and_go)
{
	struct attached_nodes s;
	char name[32];

	attached_nodes_init(&s, hash_key_random());
	ck_assert_uint_eq(attached_nodes_find(&s, "worker-0"), ATTACHED_NODE_NONE);
	for (uint32_t i = 0; i < MANY; i++) {
		name_of(i, name);
		ck_assert_uint_eq(attached_nodes_put(&s, name), i);
		s.v[i].all = i;
	}
	for (uint32_t i = 0; i < MANY; i += 2)
		attached_nodes_forget(&s, i);
	ck_assert_uint_eq(s.used, MANY / 2);
	for (uint32_t i = 0; i < MANY; i++) {
		name_of(i, name);
		ck_assert_uint_eq(attached_nodes_find(&s, name), i % 2 ? i : ATTACHED_NODE_NONE);
		ck_assert(i % 2 == 0 || s.v[i].all == i);
	}
	attached_nodes_clear(&s);
	ck_assert_uint_eq(attached_nodes_find(&s, "worker-1"), ATTACHED_NODE_NONE);
	ck_assert_uint_eq(attached_nodes_size(&s), 0);
}
END_TEST

START_TEST(a_free_number_is_given_again_before_a_new_one)
{
	struct attached_nodes s;
	uint32_t a, b, c;
	size_t size;

	attached_nodes_init(&s, hash_key_random());
	a = attached_nodes_put(&s, "a");
	b = attached_nodes_put(&s, "b");
	ck_assert_uint_eq(attached_nodes_put(&s, "a"), a);
	size = attached_nodes_size(&s);
	s.v[a].all = 7;
	attached_nodes_forget(&s, a);
	ck_assert_uint_eq(attached_nodes_size(&s), size - sizeof("a"));
	c = attached_nodes_put(&s, "c");
	ck_assert_uint_eq(c, a);
	ck_assert_uint_eq(s.v[c].all, 0);
	ck_assert_uint_eq(attached_nodes_find(&s, "a"), ATTACHED_NODE_NONE);
	ck_assert_uint_eq(attached_nodes_find(&s, "b"), b);
	ck_assert_uint_eq(attached_nodes_size(&s), size);
	attached_nodes_clear(&s);
}
END_TEST

SUITE("attached_nodes", a_name_keeps_its_number_while_others_come_and_go,
      a_free_number_is_given_again_before_a_new_one);
