/* SPDX-License-Identifier: Apache-2.0 */
/* The options that node_init() completes. */
#include "test/lib/suite.h"

#include <string.h>

#include "node/service.h"

static const struct node_tuning defaults = {
	.busy_ms = 1000,
	.unstaging_ms = 3000,
	.lock_ms = 1000,
	.settle_ms = 1000,
	.job_turn_ms = 60000,
	.host_wait_ms = 750,
	.guard_ms = 3000,
	.unpublish_ms = 2000,
	.holders_ms = 2000,
	.holders_files = 256 * 1024,
};

START_TEST(a_time_that_is_not_set_has_its_default)
{
	struct node n;

	node_init(&n, &(struct node_options) { .id = "n1" });
	ck_assert_mem_eq(&n.o.tuning, &defaults, sizeof(defaults));
	node_clear(&n);
}
END_TEST

START_TEST(a_time_that_is_set_stays)
{
	static const struct node_tuning set = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	struct node n;

	node_init(&n, &(struct node_options) { .id = "n1", .tuning = set });
	ck_assert_mem_eq(&n.o.tuning, &set, sizeof(set));
	node_clear(&n);
}
END_TEST

SUITE("service", a_time_that_is_not_set_has_its_default, a_time_that_is_set_stays);
