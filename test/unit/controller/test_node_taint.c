/* SPDX-License-Identifier: Apache-2.0 */
/* When the start-up taint is removed, and that nothing else of the node changes. */
#include "controller/node_taint.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define DRIVER "csi.snap.nvidia.com"
#define KEY DRIVER "/agent-not-ready"
#define OURS "{\"key\":\"" KEY "\",\"effect\":\"NoExecute\",\"timeAdded\":\"2026-01-01T00:00:00Z\"}"
#define OTHER "{\"key\":\"other/agent-not-ready\",\"value\":\"x\",\"effect\":\"NoSchedule\"}"
#define OWNED(uid) "\"ownerReferences\":[{\"kind\":\"Node\",\"name\":\"n\",\"uid\":\"" uid "\"}]"
#define LISTED "[{\"name\":\"a\",\"nodeID\":\"n\"},{\"name\":\"" DRIVER "\",\"nodeID\":\"n\"}]"

static const struct {
	const char *what;
	const char *taints;              /* of the Node; NULL: the Node does not exist */
	const char *csi_owner, *drivers; /* of its CSINode; NULL: it does not exist */
	int rc;
	const char *left; /* of the taints */
} rows[] = {
	{ "there is no node", NULL, NULL, NULL, TAINT_NOT_THERE, NULL },
	{ "no taint", "[]", OWNED("u1"), LISTED, TAINT_NOT_THERE, "[]" },
	{ "other taints alone", "[" OTHER "]", OWNED("u1"), LISTED, TAINT_NOT_THERE,
	  "[" OTHER "]" },
	{ "kubelet has written no CSINode", "[" OURS "]", NULL, NULL, TAINT_WAITS, "[" OURS "]" },
	{ "another driver is registered", "[" OURS "]", OWNED("u1"),
	  "[{\"name\":\"csi.snap.nvidia.com.example\",\"nodeID\":\"n\"}]", TAINT_WAITS,
	  "[" OURS "]" },
	{ "no driver", "[" OURS "]", OWNED("u1"), "[]", TAINT_WAITS, "[" OURS "]" },
	{ "the CSINode is that of the Node before", "[" OURS "]", OWNED("u0"), LISTED, TAINT_WAITS,
	  "[" OURS "]" },
	{ "the CSINode is nobody's", "[" OURS "]", "\"labels\":{}", LISTED, TAINT_WAITS,
	  "[" OURS "]" },
	{ "it is registered", "[" OURS "]", OWNED("u1"), LISTED, 0, "[]" },
	{ "others stay as they are, in their order",
	  "[" OTHER "," OURS ",{\"key\":\"z\",\"effect\":\"NoExecute\",\"new\":{\"field\":1}}]",
	  OWNED("u1"), LISTED, 0,
	  "[" OTHER ",{\"key\":\"z\",\"effect\":\"NoExecute\",\"new\":{\"field\":1}}]" },
	{ "of both effects", "[" OURS ",{\"key\":\"" KEY "\",\"effect\":\"NoSchedule\"}]",
	  OWNED("u1"), LISTED, 0, "[]" },
};

static void put(const char *taints, const char *csi_owner, const char *drivers)
{
	char *node AUTO(free) = NULL, *csi_node AUTO(free) = NULL;

	fake_reset();
	if (taints) {
		node = xasprintf("{\"metadata\":{\"name\":\"n\",\"uid\":\"u1\","
		                 "\"resourceVersion\":\"7\",\"labels\":{\"a\":\"b\"}},"
		                 "\"spec\":{\"podCIDR\":\"c\",\"taints\":%s}}",
		                 taints);
		fake_put("nodes", node);
	}
	if (csi_owner) {
		csi_node = xasprintf("{\"metadata\":{\"name\":\"n\",%s},\"spec\":{\"drivers\":%s}}",
		                     csi_owner, drivers);
		fake_put("csinodes", csi_node);
	}
}

static void left(const char *what, const char *taints)
{
	struct json *want AUTO(json_free) = fake_json(taints);
	const struct json *node = fake_find("nodes", "n")->tree;

	ck_assert_msg(json_equal(json_at(node, "spec.taints"), want), "%s: %s", what,
	              json_print(node));
	ck_assert_str_eq(json_str(node, "spec.podCIDR"), "c");
	ck_assert_str_eq(json_str(node, "metadata.labels.a"), "b");
}

START_TEST(it_goes_when_the_driver_is_registered_on_this_very_node)
{
	struct err err = ERR_INIT;
	int rc;

	put(rows[_i].taints, rows[_i].csi_owner, rows[_i].drivers);
	rc = node_taint_remove(NULL, DRIVER, "n", deadline_never(), &err);
	ck_assert_msg(rc == rows[_i].rc, "%s: %d %s", rows[_i].what, rc, err.msg);
	ck_assert_int_eq(fake.patches, rc == 0);
	if (rows[_i].left)
		left(rows[_i].what, rows[_i].left);
	fake_reset();
}
END_TEST

/* Another client adds a taint between the read and the write. */
START_TEST(a_node_that_has_changed_is_read_again)
{
	struct err err = ERR_INIT;

	put("[" OURS "]", OWNED("u1"), LISTED);
	fake.before_patch = "{\"metadata\":{\"resourceVersion\":\"8\"},"
			    "\"spec\":{\"taints\":[" OTHER "," OURS "]}}";
	ck_assert_int_eq(node_taint_remove(NULL, DRIVER, "n", deadline_never(), &err), 0);
	ck_assert_int_eq(fake.patches, 2);
	left("changed", "[" OTHER "]");
	/* If the answer to the write is lost, the write is found to be done. */
	put("[" OURS "]", OWNED("u1"), LISTED);
	fake.lost_patch = true;
	ck_assert_int_eq(node_taint_remove(NULL, DRIVER, "n", deadline_never(), &err),
	                 TAINT_NOT_THERE);
	left("lost", "[]");
	fake_reset();
}
END_TEST

START_TEST(what_fails_says_which_object_and_which_right)
{
	static const struct {
		const char *verb, *plural, *said;
	} refused[] = {
		{ "get", "nodes", "Node n: " },
		{ "get", "csinodes", "CSINode n: " },
		{ "patch", "nodes", "Node n: " },
	};

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct err err = ERR_INIT;

		put("[" OURS "]", OWNED("u1"), LISTED);
		fake_refuse(refused[i].verb, refused[i].plural, ERR_PERMISSION, "forbidden");
		ck_assert_int_eq(node_taint_remove(NULL, DRIVER, "n", deadline_never(), &err), -1);
		ck_assert_int_eq(err.code, ERR_PERMISSION);
		ck_assert_msg(str_has_prefix(err.msg, refused[i].said), "%s", err.msg);
		left(refused[i].said, "[" OURS "]");
		fake_reset();
	}
}
END_TEST

SUITE("node_taint", LOOP(it_goes_when_the_driver_is_registered_on_this_very_node, ARRAY_LEN(rows)),
      a_node_that_has_changed_is_read_again, what_fails_says_which_object_and_which_right);
