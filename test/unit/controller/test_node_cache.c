/* SPDX-License-Identifier: Apache-2.0 */
/* The cached properties of nodes, and their lifetime. */
#include "controller/node_cache.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"

START_TEST(what_was_read_is_believed_for_a_while)
{
	struct node_cache *k = node_cache_new();
	int64_t limit = -1, now = 5;

	ck_assert(!node_cache_exists(k, "n", now));
	node_cache_put_exists(k, "n", now);
	ck_assert(node_cache_exists(k, "n", now + NODE_EXISTS_FOR_NS - 1));
	ck_assert(!node_cache_exists(k, "n", now + NODE_EXISTS_FOR_NS));
	ck_assert(!node_cache_exists(k, "m", now));
	ck_assert(!node_cache_has_dpu(k, "n", now));
	node_cache_put_dpu(k, "n", now);
	ck_assert(node_cache_has_dpu(k, "n", now + NODE_DPU_FOR_NS - 1));
	ck_assert(!node_cache_has_dpu(k, "n", now + NODE_DPU_FOR_NS));
	ck_assert(!node_cache_has_dpu(k, "m", now));
	ck_assert(!node_cache_get_limit(k, "n", now, &limit));
	node_cache_put_limit(k, "n", 7, now);
	ck_assert(node_cache_get_limit(k, "n", now + NODE_LIMIT_FOR_NS - 1, &limit));
	ck_assert_int_eq(limit, 7);
	ck_assert(!node_cache_get_limit(k, "n", now + NODE_LIMIT_FOR_NS, &limit));
	ck_assert(!node_cache_get_limit(k, "m", now, &limit));
	node_cache_put_limit(k, "n", 0, now);
	ck_assert(node_cache_get_limit(k, "n", now, &limit) && limit == 0);
	node_cache_free(k);
}
END_TEST

START_TEST(more_nodes_than_places_are_forgotten_but_never_taken_for_each_other)
{
	struct node_cache *k = node_cache_new();
	int known = 0;

	for (int i = 0; i < 2 * NODE_CACHE_SLOTS; i++) {
		char node[20];

		snprintf(node, sizeof(node), "n%d", i);
		node_cache_put_limit(k, node, i, 0);
	}
	for (int i = 0; i < 2 * NODE_CACHE_SLOTS; i++) {
		char node[20];
		int64_t limit;

		snprintf(node, sizeof(node), "n%d", i);
		if (!node_cache_get_limit(k, node, 1, &limit))
			continue;
		ck_assert_int_eq(limit, i);
		known++;
	}
	ck_assert_int_gt(known, NODE_CACHE_SLOTS / 2);
	ck_assert_int_le(known, NODE_CACHE_SLOTS);
	node_cache_free(k);
}
END_TEST

SUITE("node_cache", what_was_read_is_believed_for_a_while,
      more_nodes_than_places_are_forgotten_but_never_taken_for_each_other);
