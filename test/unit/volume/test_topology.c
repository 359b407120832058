/* SPDX-License-Identifier: Apache-2.0 */
/* Requested topologies, accepted and refused. */
#include "volume/topology.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "test/lib/suite.h"

#define KEY "topology.csi.snap.nvidia.com/dpu"
#define MOST 3

static const struct {
	const char *what;
	struct kv places[MOST][2]; /* up to the first without a key */
	size_t n;
	bool met;
	const char *said;
} rows[] = {
	{ .what = "nobody says where", .met = true },
	{ .what = "ours", .places = { { { KEY, "true" } } }, .n = 1, .met = true },
	{ .what = "ours in other letters",
	  .places = { { { "Topology.CSI.snap.nvidia.com/DPU", "true" } } },
	  .n = 1,
	  .met = true },
	{ .what = "a place without segments is everywhere", .n = 1, .met = true },
	{ .what = "one of several is enough",
	  .places = { { { "zone", "a" } }, { { KEY, "no" } }, { { KEY, "true" } } },
	  .n = 3,
	  .met = true },
	{ .what = "another value",
	  .places = { { { KEY, "True" } } },
	  .n = 1,
	  .said = "requested " KEY "=True; check allowedTopologies" },
	{ .what = "another driver's key beside ours",
	  .places = { { { KEY, "true" }, { "zone", "a" } } },
	  .n = 1,
	  .said = "requested " KEY "=true, zone=a;" },
	{ .what = "other keys alone",
	  .places = { { { "zone", "a" } }, { { "zone", "b" } } },
	  .n = 2,
	  .said = "nodes with " KEY "=true, requested zone=a, zone=b;" },
};

START_TEST(a_volume_is_where_the_dpus_are_and_nowhere_else)
{
	struct kvs places[MOST];
	struct err err = ERR_INIT;
	int rc;

	for (size_t i = 0; i < rows[_i].n; i++)
		places[i] = (struct kvs) { rows[_i].places[i],
			                   (rows[_i].places[i][0].key != NULL) +
			                           (size_t)(rows[_i].places[i][1].key != NULL) };
	rc = topology_check(KEY, places, rows[_i].n, &err);
	ck_assert_msg((rc == 0) == rows[_i].met, "%s: %s", rows[_i].what, err.msg);
	if (rows[_i].met)
		return;
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
	ck_assert_msg(strstr(err.msg, rows[_i].said) != NULL, "%s: %s", rows[_i].what, err.msg);
}
END_TEST

START_TEST(the_key_has_the_drivers_name)
{
	char *ours AUTO(free) = topology_key("csi.snap.nvidia.com");
	char *other AUTO(free) = topology_key("other.example.com");

	ck_assert_str_eq(ours, KEY);
	ck_assert_str_eq(other, "topology.other.example.com/dpu");
}
END_TEST

SUITE("topology", LOOP(a_volume_is_where_the_dpus_are_and_nowhere_else, ARRAY_LEN(rows)),
      the_key_has_the_drivers_name);
