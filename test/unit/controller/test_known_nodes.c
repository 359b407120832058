/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of nodes, and for how long. */
#include "controller/known_nodes.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"

START_TEST(what_was_read_is_believed_for_a_while)
{
	struct known_nodes *k = known_nodes_new();
	int64_t limit = -1, now = 5;

	ck_assert(!known_nodes_is_there(k, "n", now));
	known_nodes_exists(k, "n", now);
	ck_assert(known_nodes_is_there(k, "n", now + NODE_EXISTS_FOR_NS - 1));
	ck_assert(!known_nodes_is_there(k, "n", now + NODE_EXISTS_FOR_NS));
	ck_assert(!known_nodes_is_there(k, "m", now));
	ck_assert(!known_nodes_limit(k, "n", now, &limit));
	known_nodes_takes(k, "n", 7, now);
	ck_assert(known_nodes_limit(k, "n", now + NODE_LIMIT_FOR_NS - 1, &limit));
	ck_assert_int_eq(limit, 7);
	ck_assert(!known_nodes_limit(k, "n", now + NODE_LIMIT_FOR_NS, &limit));
	ck_assert(!known_nodes_limit(k, "m", now, &limit));
	known_nodes_takes(k, "n", 0, now);
	ck_assert(known_nodes_limit(k, "n", now, &limit) && limit == 0);
	known_nodes_free(k);
}
END_TEST

START_TEST(more_nodes_than_places_are_forgotten_but_never_taken_for_each_other)
{
	struct known_nodes *k = known_nodes_new();
	int known = 0;

	for (int i = 0; i < 2 * KNOWN_NODES; i++) {
		char node[20];

		snprintf(node, sizeof(node), "n%d", i);
		known_nodes_takes(k, node, i, 0);
	}
	for (int i = 0; i < 2 * KNOWN_NODES; i++) {
		char node[20];
		int64_t limit;

		snprintf(node, sizeof(node), "n%d", i);
		if (!known_nodes_limit(k, node, 1, &limit))
			continue;
		ck_assert_int_eq(limit, i);
		known++;
	}
	ck_assert_int_gt(known, KNOWN_NODES / 2);
	ck_assert_int_le(known, KNOWN_NODES);
	known_nodes_free(k);
}
END_TEST

SUITE("known_nodes", what_was_read_is_believed_for_a_while,
      more_nodes_than_places_are_forgotten_but_never_taken_for_each_other);
