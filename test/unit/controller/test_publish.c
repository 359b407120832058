/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ControllerPublishVolume and ControllerUnpublishVolume: the attachment, the publish context, every
 * refusal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "controller/attachments.h"
#include "controller/event_recorder.h"
#include "controller/node_cache.h"
#include "controller/nodes.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"
#include "volume/context_keys.h"
#include "test/lib/wait.h"

#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define N "dpunodes"
#define NAME "n1-pvc-1"
#define STATUS(more)                                                                             \
	"{\"status\":{\"controllerAttached\":true,\"dpuAttached\":true,\"dpu\":{\"pciAddress\":" \
	"\"0000:00:1f.2\",\"nvmeAttrs\":{\"namespaceID\":1}}" more "}}"
/* STATUS("") without its braces. */
#define DPU_STATUS                                                                              \
	"\"status\":{\"controllerAttached\":true,\"dpuAttached\":true,\"dpu\":{\"pciAddress\":" \
	"\"0000:00:1f.2\",\"nvmeAttrs\":{\"namespaceID\":1}}}"
#define ATTACHMENT(name, volume, node)                                                       \
	"{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"app.kubernetes.io/managed-by\":" \
	"\"csi.snap.nvidia.com\"}},\"spec\":{\"dpuVolumeName\":\"" volume                    \
	"\",\"dpuNodeName\":\"" node "\",\"functionType\":\"vf\",\"hotplugFunction\":false}}"
/* As this driver creates it; ATTACHMENT is as created by the Go plugin or an earlier version. */
#define LABELLED(name, volume, node)                                                           \
	"{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"app.kubernetes.io/managed-by\":"   \
	"\"csi.snap.nvidia.com\",\"csi.snap.nvidia.com/volume\":\"" volume                     \
	"\",\"csi.snap.nvidia.com/node\":\"" node "\"}},\"spec\":{\"dpuVolumeName\":\"" volume \
	"\",\"dpuNodeName\":\"" node "\",\"functionType\":\"vf\",\"hotplugFunction\":false}}"

static struct controller c;
static struct keylock *locks;
static bool indexed; /* the controller has an index of attachments; otherwise it uses lists */

static void setup(void)
{
	fake_reset();
	c = (struct controller) { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
	locks = keylock_new();
	fake_put(V, "{\"metadata\":{\"name\":\"pvc-1\",\"annotations\":{"
	            "\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":"
	            "\"mount\"}},\"spec\":{\"accessModes\":[\"ReadWriteOnce\",\"ReadWriteMany\"],"
	            "\"volumeMode\":\"Block\"},\"status\":{\"phase\":\"Bound\",\"state\":{"
	            "\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}}}");
	fake_put(N, "{\"metadata\":{\"name\":\"n1\"}}");
}

static void teardown(void)
{
	ck_assert_int_eq(fake.waits_open, 0);
	locks = keylock_free(locks);
	c.attachments = attachment_index_free(c.attachments);
	c.node_cache = node_cache_free(c.node_cache);
	fake_reset();
}

/* A call of the controller; the index begins with the existing attachments. */
static int call(const char *method, const struct json *q, struct json **reply, struct err *err)
{
	if (indexed && !c.attachments)
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
	return door_call(&c, locks, method, q, reply, err);
}

static int publish(const char *patch, struct json **reply, struct err *err)
{
	struct json *q AUTO(json_free) =
		fake_json("{\"volume_id\":\"pvc-1\",\"node_id\":\"n1\",\"volume_"
	                  "capability\":{\"access_mode\":"
	                  "{\"mode\":\"SINGLE_NODE_WRITER\"},\"mount\":{}}}");
	struct json *p AUTO(json_free) = fake_json(patch);

	json_merge_patch(q, p);
	return call("ControllerPublishVolume", q, reply, err);
}

static void same(const char *what, const struct json *got, const char *want)
{
	struct json *j AUTO(json_free) = fake_json(want);
	char *text AUTO(free) = got ? json_print(got) : NULL;

	ck_assert_msg(got && json_equal(got, j), "%s: got %s, want %s", what,
	              text ? text : "nothing", want);
}

/* ---- what the node is told ---- */

#define BASE                                                                    \
	"\"nv-volumeName\":\"pvc-1\",\"nv-volumeAttachmentName\":\"n1-pvc-1\"," \
	"\"nv-pciDeviceAddress\":\"0000:00:1f.2\",\"nv-nvmeNsID\":\"1\","       \
	"\"csi.snap.nvidia.com/capacityBytes\":\"1073741824\","                 \
	"\"csi.snap.nvidia.com/attachmentUID\":\"" FAKE_UID "0003\""

static const struct {
	const char *what, *status, *context;
} told[] = {
	{ "the least", STATUS(""), "{" BASE "}" },
	{ "the vendor's own",
	  STATUS(",\"attachmentMetadata\":{\"test-publish-param\":\"x\",\"nv-other\":\"y\"}"),
	  "{" BASE ",\"test-publish-param\":\"x\",\"nv-other\":\"y\"}" },
	{ "a vendor's names where the DPU tells none",
	  STATUS(",\"attachmentMetadata\":{\"nv-funcVUID\":\"x\",\"nv-nvmeUUID\":\"x\"}"),
	  "{" BASE "}" },
	{ "a vendor that speaks in our name",
	  STATUS(",\"attachmentMetadata\":{\"nv-volumeName\":\"x\",\"nv-pciDeviceAddress\":\"x\","
	         "\"nv-nvmeNsID\":\"9\",\"nv-nvmeUUID\":\"x\",\"nv-funcVUID\":\"x\","
	         "\"nv-virtioFsTag\":\"x\",\"csi.snap.nvidia.com/capacityBytes\":\"1\",\"csi.snap.nvidia.com/attachmentUID\":\"x\"}"),
	  "{" BASE "}" },
	{ "uuid and vuid",
	  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:00:1f.2\",\"funcVUID\":"
	  "\"MT2328\",\"nvmeAttrs\":{\"namespaceID\":1,\"namespaceUUID\":\"u-1\"}}}}",
	  "{" BASE ",\"nv-nvmeUUID\":\"u-1\",\"nv-funcVUID\":\"MT2328\"}" },
	{ "when the attachment was created",
	  "{\"metadata\":{\"creationTimestamp\":\"2026-01-02T03:04:05Z\"}," DPU_STATUS "}",
	  "{" BASE ",\"csi.snap.nvidia.com/attachmentCreated\":\"2026-01-02T03:04:05Z\"}" },
	{ "a creation time of a wrong type",
	  "{\"metadata\":{\"creationTimestamp\":7}," DPU_STATUS "}", "{" BASE "}" },
	{ "an older DPF, which has no condition Ready",
	  STATUS(",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"}]"),
	  "{" BASE "}" },
	{ "conditions that hold",
	  STATUS(",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"},"
	         "{\"type\":\"Ready\",\"status\":\"True\"}]"),
	  "{" BASE "}" },
};

START_TEST(the_node_is_told_where_its_device_is)
{
	for (size_t i = 0; i < ARRAY_LEN(told); i++) {
		struct json *reply AUTO(json_free) = NULL, *again AUTO(json_free) = NULL;
		struct err err = ERR_INIT;

		setup();
		fake.on_create = fake_json(told[i].status);
		ck_assert_msg(publish("{}", &reply, &err) == 0, "%s: %s", told[i].what, err.msg);
		same(told[i].what, json_at(reply, "publish_context"), told[i].context);
		ck_assert_int_eq(publish("{}", &again, &err), 0);
		ck_assert(json_equal(reply, again));
		teardown();
	}
}
END_TEST

START_TEST(an_attachment_is_made_as_the_go_plugin_makes_it)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	setup();
	fake.on_create = fake_json(STATUS(""));
	ck_assert_int_eq(publish("{\"volume_context\":{\"functionType\":\"pf\",\"hotplugFunction\":"
	                         "\"true\",\"csi.snap.nvidia.com/blockSize\":\"4096\","
	                         "\"storage.kubernetes.io/csiProvisionerIdentity\":\"x\"}}",
	                         &reply, &err),
	                 0);
	same("spec", json_at(fake_find(A, NAME)->tree, "spec"),
	     "{\"dpuNodeName\":\"n1\",\"dpuVolumeName\":\"pvc-1\",\"functionType\":\"pf\","
	     "\"hotplugFunction\":true}");
	same("labels", json_at(fake_find(A, NAME)->tree, "metadata.labels"),
	     "{\"app.kubernetes.io/managed-by\":\"csi.snap.nvidia.com\","
	     "\"csi.snap.nvidia.com/volume\":\"pvc-1\",\"csi.snap.nvidia.com/node\":\"n1\"}");
	teardown();
}
END_TEST

START_TEST(attachments_of_other_volumes_are_not_even_read)
{
	struct err err = ERR_INIT;

	setup();
	for (int i = 2; i < 20; i++) {
		char *other AUTO(free) = xasprintf(LABELLED("n2-pvc-%d", "pvc-%d", "n2"), i, i, i);

		fake_put(A, other);
	}
	fake_put(A, ATTACHMENT("n2-pvc-77", "pvc-77", "n2"));
	fake_put(A, LABELLED("n1-pvc-88", "pvc-88", "n1"));
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	/* The unlabelled one, and the one of the node. */
	ck_assert_int_eq(fake.listed, 2);
	ck_assert_int_eq(fake.lists, 3);
	teardown();
}
END_TEST

START_TEST(with_an_index_nothing_is_listed_among_attachments_of_any_kind)
{
	struct json *detach AUTO(json_free) = fake_json("{\"volume_id\":\"pvc-1\"}");
	struct err err = ERR_INIT;

	indexed = true;
	setup();
	for (int i = 2; i < 20; i++) {
		char *other AUTO(free) = xasprintf(ATTACHMENT("n2-pvc-%d", "pvc-%d", "n2"), i, i);

		fake_put(A, other);
	}
	fake_put("csinodes", "{\"metadata\":{\"name\":\"n1\"}}");
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_msg(call("ControllerUnpublishVolume", detach, NULL, &err) == 0, "%s", err.msg);
	ck_assert_msg(call("DeleteVolume", detach, NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.lists, 0);
	teardown();
}
END_TEST

START_TEST(what_the_index_believes_is_read_before_it_refuses)
{
	static const struct {
		const char *what, *attachment;
		const char *uid; /* according to the index */
		bool publishes;
	} rows[] = {
		{ "it has gone", NULL, "u1", true },
		{ "another volume has its name", ATTACHMENT("n2-pvc-1", "1", "n2-pvc"), "u1",
		  true },
		{ "it was created again", ATTACHMENT("n2-pvc-1", "pvc-1", "n2"), "u1", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *stale AUTO(json_free) = fake_json(LABELLED("n2-pvc-1", "pvc-1", "n2"));
		struct err err = ERR_INIT;

		indexed = true;
		setup();
		json_set_str(json_sub(stale, "metadata"), "uid", rows[i].uid);
		if (rows[i].attachment)
			fake_put(A, rows[i].attachment);
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		fake_tell(KUBE_FOLLOW_CHANGED, stale);
		fake.on_create = fake_json(STATUS(""));
		ck_assert_msg((publish("{}", NULL, &err) == 0) == rows[i].publishes, "%s: %s",
		              rows[i].what, err.msg);
		ck_assert_msg(rows[i].publishes || err.code == ERR_PRECONDITION, "%s", err.msg);
		teardown();
	}
}
END_TEST

START_TEST(a_volume_whose_name_is_no_label_is_found_by_its_hash)
{
#define LONG "pvc-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	struct json *name AUTO(json_free) =
		fake_json("{\"metadata\":{\"name\":\"" LONG "\",\"uid\":null}}");
	struct json *volume AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	setup();
	volume = json_copy(fake_find(V, "pvc-1")->tree);
	json_merge_patch(volume, name);
	fake_add(V, volume);
	fake_put(N, "{\"metadata\":{\"name\":\"n2\"}}");
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{\"volume_id\":\"" LONG "\"}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(strlen(json_text(json_member(
				 json_at(fake_find(A, "n1-" LONG)->tree, "metadata.labels"),
				 "csi.snap.nvidia.com/volume"))),
	                 strlen("h-") + 32);
	ck_assert_int_eq(publish("{\"volume_id\":\"" LONG "\",\"node_id\":\"n2\"}", NULL, &err),
	                 -1);
	ck_assert_msg(err.code == ERR_PRECONDITION, "%s", err.msg);
	teardown();
}
END_TEST

/* ---- not ready yet ---- */

#define ATTACHED "{\"type\":\"DPUAttached\",\"status\":\"True\"}"

START_TEST(an_incomplete_status_is_never_passed_on)
{
	static const struct {
		const char *what, *status, *why;
	} rows[] = {
		{ "nothing", "{}",
		  "no conditions yet; DPF has not started: check that its host controller runs and every DPU cluster is reachable" },
		{ "not attached, with a message",
		  "{\"status\":{\"message\":\"DPUAttach not ready: no NVMe controller\"}}",
		  "DPUAttach not ready: no NVMe controller; no conditions yet" },
		{ "no dpu", "{\"status\":{\"dpuAttached\":true}}",
		  "status.dpu is missing; no conditions yet" },
		{ "no address",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"nvmeAttrs\":{\"namespaceID\":1}}}}",
		  "status.dpu.pciAddress is missing; no conditions yet" },
		{ "no nvme",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"26:0c.1\"}}}",
		  "status.dpu.nvmeAttrs is missing; no conditions yet" },
		{ "nsid 0",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"26:0c.1\","
		  "\"nvmeAttrs\":{\"namespaceID\":0,\"namespaceUUID\":\"u\"}}}}",
		  "status.dpu.nvmeAttrs.namespaceID is missing; no conditions yet" },
		{ "the address of a booting host",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"00:00.0\","
		  "\"nvmeAttrs\":{\"namespaceID\":1}}}}",
		  "status.dpu.pciAddress is 00:00.0, which is not a function's address (is the host "
		  "still booting?); no conditions yet" },
		{ "the same with a domain",
		  "{\"status\":{\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:00:00.0\","
		  "\"nvmeAttrs\":{\"namespaceID\":1}}}}",
		  "status.dpu.pciAddress is 00:00.0, which is not a function's address (is the host "
		  "still booting?); no conditions yet" },
		{ "attached once, not any more",
		  STATUS(",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"False\","
		         "\"reason\":\"Pending\",\"message\":\"re-attaching\"}]"),
		  "DPUAttached=False (Pending: re-attaching)" },
		{ "attached for an older generation",
		  STATUS(",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\","
		         "\"observedGeneration\":7}]"),
		  "DPUAttached=True (about an older generation)" },
		{ "attached, and DPF says that it is not ready",
		  STATUS(",\"conditions\":[" ATTACHED ",{\"type\":\"Ready\",\"status\":\"False\","
		         "\"reason\":\"Pending\",\"message\":\"the DPU restarts\"}]"),
		  "Ready=False (Pending: the DPU restarts)" },
		{ "attached, and DPF does not say yet whether it is ready",
		  STATUS(",\"conditions\":[" ATTACHED
		         ",{\"type\":\"Ready\",\"status\":\"Unknown\"}]"),
		  "Ready=Unknown" },
		{ "ready in an older generation",
		  STATUS(",\"conditions\":[" ATTACHED ",{\"type\":\"Ready\",\"status\":\"True\","
		         "\"observedGeneration\":7}]"),
		  "Ready=True (about an older generation)" },
		{ "not ready, for a reason that has a condition of its own",
		  STATUS(",\"conditions\":[" ATTACHED ",{\"type\":\"Ready\",\"status\":\"False\"},"
		         "{\"type\":\"ControllerAttached\",\"status\":\"False\",\"message\":\"x\"}]"),
		  "ControllerAttached=False (x)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *want AUTO(free) = xasprintf(
			"timeout occurred while waiting for volume attachment: DPUVolumeAttachment "
			"dpf/n1-pvc-1 %s: %s",
			strstr(rows[i].status, "\"Ready\"") ? "is attached, but not ready"
							    : "is not attached",
			rows[i].why);
		struct err err = ERR_INIT;
		struct json *reply AUTO(json_free) = NULL;

		setup();
		fake.on_create = fake_json(rows[i].status);
		ck_assert_msg(publish("{}", &reply, &err) == -1, "%s", rows[i].what);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		ROW_STR_EQ(rows[i].what, err.msg, want);
		/* Later it is, and the same call succeeds. */
		err_clear(&err);
		fake_change_text(A, NAME, "{\"status\":null}");
		fake_change_text(A, NAME, STATUS(""));
		ck_assert_msg(publish("{}", &reply, &err) == 0, "%s: %s", rows[i].what, err.msg);
		teardown();
	}
}
END_TEST

/* ---- refusals ---- */

static void nothing(void)
{
}
static void going_volume(void)
{
	fake_change_text(V, "pvc-1", "{\"metadata\":{\"deletionTimestamp\":\"x\"}}");
}
static void once_volume(void)
{
	fake_change_text(V, "pvc-1", "{\"spec\":{\"accessModes\":[\"ReadWriteOnce\"]}}");
}
/* As docs/reference/parameters.md says, for a volume that was written once and is read by many. */
static void hand_made_volume(void)
{
	fake_change_text(V, "pvc-1",
	                 "{\"metadata\":{\"annotations\":null},\"spec\":{\"accessModes\":["
	                 "\"ReadWriteOnce\",\"ReadOnlyMany\"]}}");
}
static void block_volume(void)
{
	fake_change_text(V, "pvc-1",
	                 "{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/accessType\":"
	                 "\"block\"}}}");
}
static void elsewhere(void)
{
	fake_put(A, ATTACHMENT("n2-pvc-1", "pvc-1", "n2"));
}
static void elsewhere_labelled(void)
{
	fake_put(A, LABELLED("n2-pvc-1", "pvc-1", "n2"));
}
static void elsewhere_by_hand(void)
{
	fake_put(A, "{\"metadata\":{\"name\":\"mine\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n2\",\"functionType\":\"vf\",\"hotplugFunction\":false}}");
}
static void hand_made_volume_elsewhere(void)
{
	hand_made_volume();
	elsewhere();
}
/* As if the names of two volumes had the same hash: the spec decides. */
static void label_of_another(void)
{
	fake_put(A, LABELLED("n2-pvc-9", "pvc-9", "n2"));
	fake_change_text(A, "n2-pvc-9",
	                 "{\"metadata\":{\"labels\":{\"csi.snap.nvidia.com/volume\":\"pvc-1\"}}}");
}
static void no_dpunodes(void)
{
	fake_refuse("get", N, ERR_PRECONDITION, "API group is not served");
}
static void neither_nodes(void)
{
	no_dpunodes();
	fake_refuse("get", "nodes", ERR_PERMISSION, "nodes is forbidden");
}
static void nodes_away(void)
{
	fake_refuse("get", N, ERR_UNAVAILABLE, "connection refused");
}
static void list_forbidden(void)
{
	fake_refuse("list", A, ERR_PERMISSION, "cannot list");
}
static void list_forbidden_later(void)
{
	fake_refuse_after(2, "list", A, ERR_PERMISSION, "cannot list");
}
static void hot_plug(const char *name)
{
	fake_change_text(A, name, "{\"spec\":{\"functionType\":\"pf\",\"hotplugFunction\":true}}");
}
static void full_node(void)
{
	fake_put(A, ATTACHMENT("n1-pvc-2", "pvc-2", "n1"));
	fake_put(A, LABELLED("n1-pvc-3", "pvc-3", "n1"));
	fake_put("csinodes", "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":[{\"name\":"
	                     "\"other\",\"allocatable\":{\"count\":99}},{\"name\":"
	                     "\"csi.snap.nvidia.com\",\"allocatable\":{\"count\":2}}]}}");
}
/* CSINode's count covers all kinds together. */
static void node_full_of_both_kinds(void)
{
	full_node();
	hot_plug("n1-pvc-2");
}
static void node_full_of_hot_plugged(void)
{
	node_full_of_both_kinds();
	hot_plug("n1-pvc-3");
}
static void no_functions_left(void)
{
	fake.on_create = fake_json("{\"status\":{\"message\":\"DPUAttach not ready: no free "
	                           "function: all 4 of kind vf "
	                           "on DPUNode n1 are in use\"}}");
}
static void failed_attachment(void)
{
	fake.on_create = fake_json(
		"{\"status\":{\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"False\","
		"\"reason\":\"Failure\",\"message\":\"SNAP is gone\"}]}}");
}
static void quota_failed(void)
{
	fake.on_create = fake_json("{\"status\":{\"conditions\":[{\"type\":\"ControllerAttached\","
	                           "\"status\":\"False\","
	                           "\"reason\":\"Failure\",\"message\":\"quota exceeded\"}]}}");
}
static void admission_changes_function(void)
{
	fake.admission = "{\"spec\":{\"functionType\":\"pf\"}}";
}
static void admission_changes_node(void)
{
	fake.admission = "{\"spec\":{\"dpuNodeName\":\"n2\"}}";
}
static void admission_changes_function_and_is_held(void)
{
	admission_changes_function();
	fake.hold = true;
}
static void other_function(void)
{
	fake_put(A, ATTACHMENT(NAME, "pvc-1", "n1"));
	hot_plug(NAME);
}
static void other_volume(void)
{
	fake_put(A, ATTACHMENT(NAME, "1", "n1-pvc"));
}
static void going_attachment(void)
{
	fake_put(A, ATTACHMENT(NAME, "pvc-1", "n1"));
	fake_change_text(A, NAME, "{\"metadata\":{\"deletionTimestamp\":\"x\"}}");
}
static void deleted_attachment(void)
{
	fake_then(A, NAME, NULL);
}
static void watch_forbidden(void)
{
	fake_refuse("watch", A, ERR_PERMISSION, "cannot watch");
}
static void create_forbidden(void)
{
	fake_refuse("create", A, ERR_PERMISSION, "cannot create");
}
static void lost_then_forbidden(void)
{
	fake.lost_creates = 1;
	fake_refuse_after(1, "create", A, ERR_PERMISSION, "cannot create");
}
static void lost_and_not_readable(void)
{
	fake.lost_creates = 1;
	fake_refuse("get", A, ERR_PERMISSION, "cannot get");
}
static void malformed_status(void)
{
	fake.on_create = fake_json("{\"status\":{\"dpuAttached\":\"yes\"}}");
}
static void volume_away(void)
{
	fake_refuse("get", V, ERR_UNAVAILABLE, "connection refused");
}

#define FULL_NODE                                                                     \
	"node n1 is full: 2 volumes are attached to it, and its limit is 2 (CSINode " \
	"n1); detach a volume, or run the pod on another node"

static const struct {
	const char *what, *patch;
	void (*world)(void);
	enum err_code code;
	const char *text;
	bool attachment; /* one of that name exists afterwards */
} refused[] = {
	{ "no volume", "{\"volume_id\":null}", nothing, ERR_INVALID, "VolumeId: field is required",
	  false },
	{ "no node", "{\"node_id\":null}", nothing, ERR_INVALID, "NodeId: field is required",
	  false },
	{ "no capability", "{\"volume_capability\":null}", nothing, ERR_INVALID,
	  "VolumeCapability: field is required", false },
	{ "no access mode", "{\"volume_capability\":{\"access_mode\":null}}", nothing, ERR_INVALID,
	  "VolumeCapability.AccessMode: field is required", false },
	{ "an unknown volume", "{\"volume_id\":\"pvc-9\"}", nothing, ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/pvc-9", false },
	{ "a volume that cannot be", "{\"volume_id\":\"A B\"}", nothing, ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/A B", false },
	{ "a volume that cannot be read", "{}", volume_away, ERR_UNAVAILABLE,
	  "DPUVolume dpf/pvc-1: connection refused", false },
	{ "a volume on its way out", "{}", going_volume, ERR_ABORTED,
	  "volume pvc-1 is being deleted", false },
	{ "another access type", "{}", block_volume, ERR_INVALID,
	  "VolumeCapability.AccessType: volume pvc-1 was created for access type block, not mount",
	  false },
	{ "a mode that the volume has not",
	  "{\"volume_capability\":{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"}}}",
	  once_volume, ERR_INVALID,
	  "VolumeCapability.AccessMode: volume pvc-1 has ReadWriteOnce, which does not allow "
	  "MULTI_NODE_READER_ONLY",
	  false },
	{ "a filesystem of an NVMe volume on many nodes",
	  "{\"volume_capability\":{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"}}}",
	  nothing, ERR_INVALID,
	  "VolumeCapability.AccessMode: MULTI_NODE_MULTI_WRITER needs a raw block volume "
	  "(volumeMode: Block): ext4 is not a cluster filesystem; writing to it while other nodes have "
	  "it mounted would destroy it",
	  false },
	{ "a filesystem that neither kind has",
	  "{\"volume_id\":\"pvc-9\",\"volume_capability\":{\"mount\":{\"fs_type\":\"ntfs\"}}}",
	  nothing, ERR_INVALID,
	  "VolumeCapability.Mount.FsType: unsupported filesystem \"ntfs\", supported are ext4, "
	  "ext3, xfs, btrfs",
	  false },
	{ "a context of the other kind",
	  "{\"volume_context\":{\"csi.snap.nvidia.com/emulation\":\"virtiofs\"}}", nothing,
	  ERR_INVALID,
	  "VolumeContext: csi.snap.nvidia.com/emulation is virtiofs, but volume pvc-1 has "
	  "volumeMode Block, which is nvme; correct the PersistentVolume",
	  false },
	{ "bad function keys", "{\"volume_context\":{\"functionType\":\"sf\"}}", nothing,
	  ERR_INVALID,
	  "invalid function type config: functionType: unsupported value sf, supported values are: "
	  "vf, pf",
	  false },
	{ "a static pf", "{\"volume_context\":{\"functionType\":\"pf\"}}", nothing, ERR_INVALID,
	  "invalid function type config: hotplugFunction: must be true when functionType is pf (DPF supports static PFs on hosts outside the cluster only: snap-csi-plugin host)",
	  false },
	{ "an unknown node", "{\"node_id\":\"n9\"}", nothing, ERR_NOT_FOUND,
	  "node not found: there is no DPUNode dpf/n9; a node id is the name of a DPUNode in the "
	  "driver's namespace",
	  false },
	{ "a node that cannot be", "{\"node_id\":\"N_9\"}", nothing, ERR_NOT_FOUND,
	  "node not found: \"N_9\" is not a valid name of a Kubernetes object", false },
	{ "an unknown node where DPUNode is not served", "{}", no_dpunodes, ERR_NOT_FOUND,
	  "node not found: there is no Node n1", false },
	{ "nodes cannot be reached", "{}", nodes_away, ERR_UNAVAILABLE,
	  "node n1: connection refused", false },
	{ "attachments may not be listed", "{}", list_forbidden, ERR_PERMISSION,
	  "listing the attachments of volume pvc-1: cannot list", false },
	{ "attached elsewhere", "{}", elsewhere, ERR_PRECONDITION,
	  "volume pvc-1 is attached to node n2 (DPUVolumeAttachment n2-pvc-1); SINGLE_NODE_WRITER "
	  "allows one node at a time",
	  false },
	{ "attached elsewhere, with a label", "{}", elsewhere_labelled, ERR_PRECONDITION,
	  "volume pvc-1 is attached to node n2 (DPUVolumeAttachment n2-pvc-1); SINGLE_NODE_WRITER "
	  "allows one node at a time",
	  false },
	{ "attached elsewhere by hand", "{}", elsewhere_by_hand, ERR_PRECONDITION,
	  "volume pvc-1 is attached to node n2 (DPUVolumeAttachment mine); SINGLE_NODE_WRITER "
	  "allows one node at a time",
	  false },
	{ "attachments may not be listed any more", "{}", list_forbidden_later, ERR_PERMISSION,
	  "counting the attachments of node n1: cannot list", false },
	{ "a full node", "{}", full_node, ERR_EXHAUSTED, FULL_NODE, false },
	{ "a node full of VFs and hot-plugged functions", "{}", node_full_of_both_kinds,
	  ERR_EXHAUSTED, FULL_NODE, false },
	{ "a node full of hot-plugged functions", "{}", node_full_of_hot_plugged, ERR_EXHAUSTED,
	  FULL_NODE, false },
	{ "a hot-plugged function for a full node",
	  "{\"volume_context\":{\"functionType\":\"pf\",\"hotplugFunction\":\"true\"}}", full_node,
	  ERR_EXHAUSTED, FULL_NODE, false },
	{ "no function is free until the deadline", "{}", no_functions_left, ERR_EXHAUSTED,
	  "timeout occurred while waiting for volume attachment: DPUVolumeAttachment dpf/n1-pvc-1 "
	  "is not attached: DPUAttach not ready: no free function: all 4 of kind vf on DPUNode n1 "
	  "are in use; no conditions yet",
	  true },
	{ "a failure", "{}", failed_attachment, ERR_UNAVAILABLE,
	  "DPUVolumeAttachment dpf/n1-pvc-1 failed: DPUAttached=False (Failure: SNAP is gone)",
	  true },
	{ "a failure by quota", "{}", quota_failed, ERR_EXHAUSTED,
	  "DPUVolumeAttachment dpf/n1-pvc-1 failed: ControllerAttached=False (Failure: quota "
	  "exceeded)",
	  true },
	{ "admission changes the function", "{}", admission_changes_function, ERR_PRECONDITION,
	  "DPUVolumeAttachment dpf/n1-pvc-1 differs from the request: it is volume pvc-1 on node n1 "
	  "by pf, requested volume pvc-1 on node n1 by vf; does an admission policy or webhook change "
	  "DPUVolumeAttachments?",
	  false },
	{ "admission changes the node", "{}", admission_changes_node, ERR_PRECONDITION,
	  "DPUVolumeAttachment dpf/n1-pvc-1 differs from the request: it is volume pvc-1 on node n2 "
	  "by vf, requested volume pvc-1 on node n1 by vf; does an admission policy or webhook change "
	  "DPUVolumeAttachments?",
	  false },
	{ "admission changes the function, and the attachment will not go", "{}",
	  admission_changes_function_and_is_held, ERR_DEADLINE,
	  "timeout occurred while removing an unwanted attachment: DPUVolumeAttachment "
	  "dpf/n1-pvc-1 still exists: no conditions yet; DPF has not started: check that its host controller runs and every DPU cluster is reachable",
	  true },
	{ "attached by another function", "{}", other_function, ERR_EXISTS,
	  "DPUVolumeAttachment already exist but contains different parameters: "
	  "DPUVolumeAttachment "
	  "dpf/n1-pvc-1 is volume pvc-1 on node n1 by hot-plugged pf",
	  true },
	{ "another volume and node of the same joined name", "{}", other_volume, ERR_EXISTS,
	  "DPUVolumeAttachment already exist but contains different parameters: "
	  "DPUVolumeAttachment "
	  "dpf/n1-pvc-1 is volume 1 on node n1-pvc by vf",
	  true },
	{ "an attachment on its way out", "{}", going_attachment, ERR_ABORTED,
	  "DPUVolumeAttachment dpf/n1-pvc-1 is being deleted; retry after its deletion", true },
	{ "an attachment deleted by somebody", "{}", deleted_attachment, ERR_ABORTED,
	  "DPUVolumeAttachment dpf/n1-pvc-1 was deleted during the wait for it", false },
	{ "may not create", "{}", create_forbidden, ERR_PERMISSION,
	  "DPUVolumeAttachment dpf/n1-pvc-1: cannot create", false },
	{ "made, the answer was lost, and then not allowed", "{}", lost_then_forbidden,
	  ERR_UNAVAILABLE, "DPUVolumeAttachment dpf/n1-pvc-1: " KUBE_PERHAPS_DONE ": cannot create",
	  true },
	{ "made, the answer was lost, and it cannot be read", "{}", lost_and_not_readable,
	  ERR_UNAVAILABLE, "DPUVolumeAttachment dpf/n1-pvc-1: cannot get", true },
	{ "may not watch: it may get attached, so nothing final", "{}", watch_forbidden,
	  ERR_UNAVAILABLE, "waiting for DPUVolumeAttachment dpf/n1-pvc-1: cannot watch", true },
	{ "a status that cannot be understood", "{}", malformed_status, ERR_UNAVAILABLE,
	  "DPUVolumeAttachment dpf/n1-pvc-1 status.dpuAttached: is not a boolean", true },
};

/* ---- the DPU of the node ---- */

#define D "dpus"
#define DPU(name, node, more) \
	"{\"metadata\":{\"name\":\"" name "\"" more "},\"spec\":{\"dpuNodeName\":\"" node "\"}}"
#define LABEL(node) ",\"labels\":{\"provisioning.dpu.nvidia.com/dpunode-name\":\"" node "\"}"
#define PREFERRED ",\"annotations\":{\"storage.nvidia.com/preferred-dpu\":\"\"}"
#define GOING ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""

static void dpu_comes_later(void)
{
	if (fake.dpu_lists == 2)
		fake_put(D, DPU("d1", "n1", LABEL("n1")));
}
static void cache_is_behind(void)
{
	fake.during_list = dpu_comes_later;
}
static void dpus_not_served(void)
{
	fake.dpus = false;
}
static void dpus_forbidden(void)
{
	fake_refuse("list", D, ERR_PERMISSION, "dpus is forbidden");
}
static void dpus_away(void)
{
	fake_refuse("list", D, ERR_UNAVAILABLE, "connection refused");
}
static void dpus_away_later(void)
{
	fake_refuse_after(2, "list", D, ERR_DEADLINE, "no answer");
}
static void dpus_refused_for_good(void)
{
	fake_refuse("list", D, ERR_INVALID, "unable to parse the selector");
}
static void attached_already(void)
{
	fake_put(A, LABELLED(NAME, "pvc-1", "n1"));
	fake_change_text(A, NAME, STATUS(""));
}
static void attached_already_by_hand(void)
{
	fake_put(A, ATTACHMENT(NAME, "pvc-1", "n1"));
	fake_change_text(A, NAME, STATUS(""));
}

#define NONE                                                                                 \
	"DPUNode dpf/n1: has no DPU (0 DPUs have spec.dpuNodeName n1, expected 1), and DPF " \
	"needs one to detach; create the DPU, or delete the DPUNode"
#define SEVERAL(n, preferred)                                                                \
	"DPUNode dpf/n1: DPF can select none of its " #n " DPUs (" #preferred                \
	" have the annotation storage.nvidia.com/preferred-dpu, expected 1), and needs one " \
	"to detach; annotate exactly one DPU"
#define LEAVES                                                                                   \
	"DPUNode dpf/n1: its DPU is being deleted (metadata.deletionTimestamp is set, expected " \
	"none), and DPF needs one to detach; retry when there is another DPU, or delete the DPUNode"

static const struct {
	const char *what;
	const char *dpus[3];
	void (*world)(void);
	int lists; /* of DPUs */
	enum err_code code;
	const char *text;
} by_dpu[] = {
	{ "one", { DPU("d1", "n1", LABEL("n1")) }, nothing, 1, ERR_OK, NULL },
	{ "one that is not Ready",
	  { "{\"metadata\":{\"name\":\"d1\"" LABEL(
		  "n1") "},\"spec\":{\"dpuNodeName\":\"n1\"},"
	                "\"status\":{\"phase\":\"Rebooting\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
	                "\"False\"}]}}" },
	  nothing,
	  1,
	  ERR_OK,
	  NULL },
	{ "one without the label", { DPU("d1", "n1", "") }, nothing, 3, ERR_OK, NULL },
	{ "one that the cache does not show yet", { NULL }, cache_is_behind, 3, ERR_OK, NULL },
	{ "one that is preferred of three",
	  { DPU("d1", "n1", LABEL("n1")), DPU("d2", "n1", LABEL("n1") PREFERRED),
	    DPU("d3", "n1", LABEL("n1")) },
	  nothing,
	  1,
	  ERR_OK,
	  NULL },
	{ "one that is preferred, and another that is being deleted",
	  { DPU("d1", "n1", LABEL("n1") GOING), DPU("d2", "n1", LABEL("n1") PREFERRED) },
	  nothing,
	  1,
	  ERR_OK,
	  NULL },
	{ "none", { NULL }, nothing, 3, ERR_UNAVAILABLE, NONE },
	{ "those of other nodes",
	  { DPU("d1", "n2", LABEL("n2")), DPU("d2", "n2", "") },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  NONE },
	{ "one of another node with the label of this one",
	  { DPU("d1", "n2", LABEL("n1")) },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  NONE },
	{ "two",
	  { DPU("d1", "n1", LABEL("n1")), DPU("d2", "n1", LABEL("n1")) },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  SEVERAL(2, 0) },
	{ "one that is preferred, and another without the label, which DPF did not make",
	  { DPU("d1", "n1", LABEL("n1") PREFERRED), DPU("d2", "n1", LABEL("n1")),
	    DPU("d3", "n1", PREFERRED) },
	  nothing,
	  1,
	  ERR_OK,
	  NULL },
	{ "three, two of them preferred",
	  { DPU("d1", "n1", LABEL("n1") PREFERRED), DPU("d2", "n1", LABEL("n1")),
	    DPU("d3", "n1", LABEL("n1") PREFERRED) },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  SEVERAL(3, 2) },
	{ "one that is being deleted",
	  { DPU("d1", "n1", LABEL("n1") GOING) },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  LEAVES },
	{ "two, of which the preferred one is being deleted",
	  { DPU("d1", "n1", LABEL("n1") PREFERRED GOING), DPU("d2", "n1", LABEL("n1")) },
	  nothing,
	  3,
	  ERR_UNAVAILABLE,
	  LEAVES },
	{ "none, and the volume is attached", { NULL }, attached_already, 0, ERR_OK, NULL },
	{ "none, and the volume is attached by hand",
	  { NULL },
	  attached_already_by_hand,
	  0,
	  ERR_OK,
	  NULL },
	{ "DPUs are not served", { NULL }, dpus_not_served, 1, ERR_OK, NULL },
	{ "the right is missing", { NULL }, dpus_forbidden, 1, ERR_OK, NULL },
	{ "the list fails",
	  { DPU("d1", "n1", LABEL("n1")) },
	  dpus_away,
	  1,
	  ERR_UNAVAILABLE,
	  "DPUs of node n1: connection refused" },
	{ "a later list fails",
	  { NULL },
	  dpus_away_later,
	  3,
	  ERR_DEADLINE,
	  "DPUs of node n1: no answer" },
	{ "the list is refused for good",
	  { NULL },
	  dpus_refused_for_good,
	  1,
	  ERR_UNAVAILABLE,
	  "DPUs of node n1: unable to parse the selector" },
};

START_TEST(a_node_without_a_usable_dpu_gets_no_attachment)
{
	bool by_lists = _i >= (int)ARRAY_LEN(by_dpu);
	size_t row = (size_t)_i % ARRAY_LEN(by_dpu);
	struct err err = ERR_INIT;

	indexed = !by_lists;
	setup();
	c.node_cache = node_cache_new();
	fake.dpus = true;
	fake.on_create = fake_json(STATUS(""));
	for (size_t i = 0; i < ARRAY_LEN(by_dpu[row].dpus) && by_dpu[row].dpus[i]; i++)
		fake_put(D, by_dpu[row].dpus[i]);
	by_dpu[row].world();
	IGNORE_RESULT(publish("{}", NULL, &err));
	ck_assert_msg(err.code == by_dpu[row].code, "%s: %s %s", by_dpu[row].what,
	              err_code_name(err.code), err.msg);
	if (err.code)
		ROW_STR_EQ(by_dpu[row].what, err.msg, by_dpu[row].text);
	ck_assert_msg(!err.code || code_is_open(err.code), "%s", by_dpu[row].what);
	ck_assert_msg(fake.dpu_lists == by_dpu[row].lists, "%s: %d lists", by_dpu[row].what,
	              fake.dpu_lists);
	ck_assert_msg(!fake_find(A, NAME) == (err.code != ERR_OK), "%s: attachment",
	              by_dpu[row].what);
	/* A positive result is cached for some time, and a refused kind is not requested. */
	if (!err.code && by_dpu[row].lists)
		ck_assert_int_eq(node_check_dpu(&c, "n1", wait_limit(), &err), 0);
	if (!err.code)
		ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.dpu_lists, by_dpu[row].lists);
	indexed = false;
	teardown();
}
END_TEST

/* ---- what the API server's cache shows of the volume ---- */

#define CACHED(meta, spec, capacity)                                                       \
	"{\"metadata\":{\"name\":\"pvc-1\"," meta                                          \
	"\"annotations\":{\"csi.snap.nvidia.com/name\":\"pvc-1\","                         \
	"\"csi.snap.nvidia.com/accessType\":\"mount\"}},\"spec\":{\"accessModes\":[" spec  \
	"],\"volumeMode\":\"Block\"},\"status\":{\"state\":{\"volumeInfo\":{\"capacity\":" \
	"{\"storage\":\"" capacity "\"}}}}}"
#define MODES "\"ReadWriteOnce\",\"ReadOnlyMany\",\"ReadWriteMany\""

static void no_volume(void)
{
	fake_then(V, "pvc-1", NULL);
	fake_run_step();
}

static const struct {
	const char *what, *cached;
	void (*world)(void);
	int gets; /* with that of the node */
	enum err_code code;
	const char *says; /* the capacity in the publish context, or the refusal */
} by_cache[] = {
	{ "what it shows is good", CACHED("", MODES, "1Gi"), nothing, 2, ERR_OK, "1073741824" },
	{ "the volume has grown since", CACHED("", MODES, "512Mi"), nothing, 2, ERR_OK,
	  "536870912" },
	{ "it has gone since", CACHED("", MODES, "1Gi"), no_volume, 2, ERR_OK, "1073741824" },
	{ "the cache does not show it yet", "", nothing, 3, ERR_OK, "1073741824" },
	{ "nor does etcd", "", no_volume, 2, ERR_NOT_FOUND,
	  "volume not found: there is no DPUVolume dpf/pvc-1" },
	{ "the cache shows it without its size", CACHED("", MODES, "0"), nothing, 3, ERR_OK,
	  "1073741824" },
	{ "the cache shows another that is going",
	  CACHED("\"deletionTimestamp\":\"x\",", MODES, "1Gi"), nothing, 3, ERR_OK, "1073741824" },
	{ "so does etcd", CACHED("\"deletionTimestamp\":\"x\",", MODES, "1Gi"), going_volume, 2,
	  ERR_ABORTED, "volume pvc-1 is being deleted" },
	{ "the cache shows a mode too few", CACHED("", "\"ReadOnlyMany\"", "1Gi"), nothing, 3,
	  ERR_OK, "1073741824" },
	{ "the cache shows what is no volume", "{\"metadata\":{\"name\":7}}", nothing, 3, ERR_OK,
	  "1073741824" },
};

START_TEST(the_api_servers_cache_lets_a_volume_pass_and_never_refuses_one)
{
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	setup();
	by_cache[_i].world();
	fake.on_create = fake_json(STATUS(""));
	fake.cached = by_cache[_i].cached;
	publish("{}", &reply, &err);
	ck_assert_msg(err.code == by_cache[_i].code, "%s: %s", by_cache[_i].what, err.msg);
	ROW_STR_EQ(by_cache[_i].what,
	           err.code ? err.msg
	                    : json_text(json_member(json_member(reply, "publish_context"),
	                                            PUBLISH_CAPACITY)),
	           by_cache[_i].says);
	ck_assert_msg(fake.gets == by_cache[_i].gets, "%s: %d", by_cache[_i].what, fake.gets);
	teardown();
}
END_TEST

START_TEST(publish_is_refused_with_a_reason)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct err err = ERR_INIT;

		indexed = _i;
		if (indexed && refused[i].world == list_forbidden_later)
			continue; /* nothing is listed then */
		setup();
		refused[i].world();
		ck_assert_msg(publish(refused[i].patch, NULL, &err) == -1, "%s", refused[i].what);
		ck_assert_msg(err.code == refused[i].code, "%s: %s %s", refused[i].what,
		              err_code_name(err.code), err.msg);
		ROW_STR_EQ(refused[i].what, err.msg, refused[i].text);
		ck_assert_msg(!fake_find(A, NAME) == !refused[i].attachment, "%s: attachment",
		              refused[i].what);
		teardown();
	}
}
END_TEST

START_TEST(publish_succeeds_where_it_may)
{
	static const struct {
		const char *what, *patch;
		void (*world)(void);
	} rows[] = {
		{ "one pod",
		  "{\"volume_capability\":{\"access_mode\":{\"mode\":\"SINGLE_NODE_SINGLE_WRITER\"}"
		  "}}",
		  nothing },
		{ "many nodes",
		  "{\"volume_capability\":{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},"
		  "\"mount\":null,\"block\":{}}}",
		  elsewhere },
		{ "no node can be checked", "{}", neither_nodes },
		{ "another volume has the label", "{}", label_of_another },
		{ "the writer of a volume that many will read", "{}", hand_made_volume },
		{ "a second reader of it",
		  "{\"volume_capability\":{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"}}}",
		  hand_made_volume_elsewhere },
		{ "a chart's empty values",
		  "{\"volume_context\":{\"functionType\":\"\",\"hotplugFunction\":\"\"}}",
		  nothing },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		indexed = _i;
		setup();
		rows[i].world();
		if (i == 1)
			block_volume();
		fake.on_create = fake_json(STATUS(""));
		ck_assert_msg(publish(rows[i].patch, NULL, &err) == 0, "%s: %s", rows[i].what,
		              err.msg);
		teardown();
	}
}
END_TEST

/* The modes, by CSI's numbers, in which a volume with these accessModes may be used. */
START_TEST(a_narrower_use_is_allowed_and_a_wider_one_refused)
{
	static const struct {
		const char *has, *block, *mount;
	} rows[] = {
		{ "[\"ReadWriteOnce\"]", "1267", "1267" },
		{ "[\"ReadOnlyMany\"]", "23", "23" },
		{ "[\"ReadWriteMany\"]", "1234567", "1267" },
		{ "[\"ReadWriteOnce\",\"ReadOnlyMany\"]", "123467", "12367" },
		{ "[\"ReadOnlyMany\",\"ReadWriteMany\"]", "1234567", "12367" },
		{ "[]", "", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows) * 2; i++)
		for (int mode = 1; mode <= 7; mode++) {
			bool block = i % 2;
			const char *allowed = block ? rows[i / 2].block : rows[i / 2].mount;
			char *cap AUTO(free) = xasprintf(
				"{\"volume_capability\":{\"access_mode\":{\"mode\":%d},\"mount\":%s}}",
				mode, block ? "null,\"block\":{}" : "{}");
			char *has AUTO(free) = xasprintf(
				"{\"metadata\":{\"annotations\":null},\"spec\":{\"accessModes\":%s}}",
				rows[i / 2].has);
			struct err err = ERR_INIT;
			bool is;

			setup();
			fake_change_text(V, "pvc-1", has);
			fake.on_create = fake_json(STATUS(""));
			is = publish(cap, NULL, &err) == 0;
			ck_assert_msg(is == (strchr(allowed, '0' + mode) != NULL),
			              "%s, %s, mode %d: %s", rows[i / 2].has,
			              block ? "block" : "mount", mode, err.msg);
			ck_assert(is || err.code == ERR_INVALID);
			teardown();
		}
}
END_TEST

static int warnings;

static void count_warnings(void *arg, const char *line)
{
	(void)arg;
	if (strstr(line, "neither DPUNode nor Node"))
		warnings++;
}

START_TEST(a_node_check_that_is_forbidden_warns_once_and_asks_seldom)
{
	struct err err = ERR_INIT;
	int gets;

	setup();
	neither_nodes();
	fake.on_create = fake_json(STATUS(""));
	log_redirect(count_warnings, NULL);
	ck_assert_int_eq(publish("{}", NULL, &err), 0);
	gets = fake.gets;
	ck_assert_int_eq(publish("{}", NULL, &err), 0);
	log_redirect(NULL, NULL);
	ck_assert_int_eq(warnings, 1);
	/* The volume, both nodes; then the volume and the attachment. */
	ck_assert_int_eq(gets, 3);
	ck_assert_int_eq(fake.gets - gets, 2);
	teardown();
}
END_TEST

START_TEST(a_node_that_could_not_be_looked_for_is_not_remembered)
{
	struct err err = ERR_INIT;

	setup();
	c.node_cache = node_cache_new();
	neither_nodes();
	ck_assert_int_eq(node_check(&c, "n9", wait_limit(), &err), 0);
	fake.n_refusals = 0;
	c.dpu_nodes.again_at = 1;
	ck_assert_int_eq(node_check(&c, "n9", wait_limit(), &err), -1);
	ck_assert_msg(err.code == ERR_NOT_FOUND, "%s", err.msg);
	c.node_cache = node_cache_free(c.node_cache);
	teardown();
}
END_TEST

START_TEST(a_node_check_that_was_refused_comes_back_within_a_minute)
{
	static const char unknown[] = "{\"node_id\":\"n9\"}";
	struct err err = ERR_INIT;

	setup();
	neither_nodes();
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish(unknown, NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_le(c.dpu_nodes.again_at, monotonic_ns() + INT64_C(60000000000));
	/* After another refusal, the pause is longer; ten minutes at most. */
	for (int i = 0; i < 9; i++) {
		int64_t before = monotonic_ns();

		c.dpu_nodes.again_at = 1;
		ck_assert_msg(publish(unknown, NULL, &err) == 0, "%s", err.msg);
		ck_assert_int_gt(c.dpu_nodes.again_at, before + INT64_C(110000000000));
		ck_assert_int_le(c.dpu_nodes.again_at, monotonic_ns() + INT64_C(600000000000));
	}
	fake.n_refusals = 0;
	c.dpu_nodes.again_at = 1;
	ck_assert_int_eq(publish("{\"node_id\":\"n8\"}", NULL, &err), -1);
	ck_assert_msg(err.code == ERR_NOT_FOUND, "%s", err.msg);
	ck_assert_int_eq(c.dpu_nodes.pause, 0);
	/* And it stays. */
	err_clear(&err);
	ck_assert_int_eq(publish("{\"node_id\":\"n8\"}", NULL, &err), -1);
	ck_assert_msg(err.code == ERR_NOT_FOUND, "%s", err.msg);
	teardown();
}
END_TEST

/* Each sends its request while the previous one waits for its refusal. */
static int at_once;
static void another_check(void)
{
	struct err err = ERR_INIT;

	if (at_once++ < 9)
		ck_assert_int_eq(node_check(&c, "n9", wait_limit(), &err), 0);
}

START_TEST(one_refusal_of_many_calls_at_once_counts_once)
{
	struct err err = ERR_INIT;

	setup();
	neither_nodes();
	at_once = 0;
	fake.during_get = another_check;
	ck_assert_int_eq(node_check(&c, "n9", wait_limit(), &err), 0);
	ck_assert_int_ge(at_once, 10);
	ck_assert_int_le(c.dpu_nodes.again_at, monotonic_ns() + INT64_C(60000000000));
	ck_assert_int_eq(c.dpu_nodes.pause, INT64_C(60000000000));
	teardown();
}
END_TEST

START_TEST(a_full_node_is_counted_by_a_list_before_it_refuses)
{
	struct json *stale AUTO(json_free) = fake_json(LABELLED("n1-pvc-3", "pvc-3", "n1"));
	struct err err = ERR_INIT;

	indexed = true;
	setup();
	full_node();
	json_set_str(json_sub(stale, "metadata"), "uid", "yesterday");
	fake_then(A, "n1-pvc-3", NULL);
	fake_run_step();
	c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
	fake_tell(KUBE_FOLLOW_CHANGED, stale);
	ck_assert_uint_eq(attachment_index_count(c.attachments, "n1").ours, 2);
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.lists, 1);
	teardown();
}
END_TEST

START_TEST(until_all_attachments_are_read_publish_waits_and_says_how_far_it_is)
{
	struct err err = ERR_INIT;

	indexed = true;
	setup();
	elsewhere();
	fake.follower.start = KUBE_FOLLOW_BEGIN;
	c.wait_timeout_ms = 50;
	ck_assert_int_eq(publish("{}", NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert_str_eq(
		err.msg,
		"listing the attachments of volume pvc-1: the attachments of namespace dpf "
		"are still being read: 1 so far; retry");
	teardown();
}
END_TEST

/* None exists before kubelet has registered the driver: that refuses nothing. */
START_TEST(a_csinode_that_is_not_there_is_not_asked_for_each_time)
{
	struct err err = ERR_INIT;
	int gets;

	indexed = true;
	setup();
	c.node_cache = node_cache_new();
	fake_put(A, LABELLED("n1-pvc-2", "pvc-2", "n1"));
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	fake_then(A, NAME, NULL);
	fake_run_step();
	gets = fake.gets;
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.gets - gets, 1); /* the volume */
	teardown();
}
END_TEST

#define RIVAL                                                                              \
	"volume pvc-1 was attached to node n2 (DPUVolumeAttachment n2-pvc-1) at the same " \
	"time, by another driver or by hand; SINGLE_NODE_WRITER allows one node at a time"

START_TEST(who_was_later_gives_way_to_another_driver)
{
	static const struct {
		const char *what, *first, *second; /* created just before our POST */
		bool quiet;                        /* the watch brings neither */
		bool many;                         /* the volume allows many nodes */
		const char *text;                  /* NULL: it is published */
		bool there;                        /* ours, afterwards */
		/* events of the attachment of this call that were awaited */
		int news;
	} rows[] = {
		{ "nobody else", NULL, NULL, false, false, NULL, true, 1 },
		{ "another driver was first", LABELLED("n2-pvc-1", "pvc-1", "n2"), NULL, false,
		  false, RIVAL, false, 1 },
		{ "a person was first", ATTACHMENT("n2-pvc-1", "pvc-1", "n2"), NULL, false, false,
		  RIVAL, false, 1 },
		{ "ours had been made before", LABELLED("n2-pvc-1", "pvc-1", "n2"),
		  LABELLED(NAME, "pvc-1", "n1"), false, false,
		  RIVAL "; detach it from one of the two", true, 0 },
		{ "ours had been made before the other", LABELLED(NAME, "pvc-1", "n1"),
		  LABELLED("n2-pvc-1", "pvc-1", "n2"), false, false, NULL, true, 0 },
		{ "the watch is mute", LABELLED("n2-pvc-1", "pvc-1", "n2"), NULL, true, false,
		  RIVAL, false, 1 },
		{ "many nodes are allowed", LABELLED("n2-pvc-1", "pvc-1", "n2"), NULL, false, true,
		  NULL, true, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		int rc;

		indexed = true;
		setup();
		if (rows[i].many)
			block_volume();
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		fake.follower.quiet = rows[i].quiet;
		fake.before_create[0] = rows[i].first;
		fake.before_create[1] = rows[i].second;
		fake.on_create = fake_json(STATUS(""));
		if (rows[i].second)
			fake_then(A, NAME, STATUS(""));
		rc = publish(rows[i].many
		                     ? "{\"volume_capability\":{\"access_mode\":{\"mode\":"
		                       "\"MULTI_NODE_MULTI_WRITER\"},\"mount\":null,\"block\":{}}}"
		                     : "{}",
		             NULL, &err);
		ck_assert_msg((rc == 0) == !rows[i].text, "%s: %s", rows[i].what, err.msg);
		if (rows[i].text)
			ROW_STR_EQ(rows[i].what, err.msg, rows[i].text);
		ck_assert_msg(!rows[i].text || err.code == ERR_PRECONDITION, "%s", rows[i].what);
		ck_assert_msg(!fake_find(A, NAME) == !rows[i].there, "%s", rows[i].what);
		ck_assert_msg(!fake_find(A, "n2-pvc-1") == !rows[i].first, "%s", rows[i].what);
		ck_assert_msg(fake.news == rows[i].news, "%s: %d", rows[i].what, fake.news);
		teardown();
	}
}
END_TEST

#define OF_MODE(mode)                                              \
	"\"volume_capability\":{\"access_mode\":{\"mode\":\"" mode \
	"\"},\"mount\":null,\"block\":{}}"
#define MANY OF_MODE("MULTI_NODE_MULTI_WRITER")
#define ENCRYPTED "\"volume_context\":{\"csi.snap.nvidia.com/encryption\":\"luks2\"},"
#define OURS LABELLED(NAME, "pvc-1", "n1")
#define THEIRS LABELLED("n2-pvc-1", "pvc-1", "n2")

static void untyped_volume(void)
{
	fake_change_text(V, "pvc-1",
	                 "{\"metadata\":{\"annotations\":{\"csi.snap.nvidia.com/accessType\":"
	                 "null}},\"spec\":{\"accessModes\":[\"ReadWriteOnce\",\"ReadOnlyMany\","
	                 "\"ReadWriteMany\"]}}");
}

/* Only one of two nodes may create the container of an encrypted volume. */
START_TEST(of_several_writers_the_one_with_the_oldest_attachment_formats)
{
	static const struct {
		const char *what, *request;
		const char *listed[2];      /* exist before the driver starts */
		const char *first, *second; /* created just before our POST */
		bool quiet, lists;          /* the watch delivers nothing; no index */
		const char *node;           /* NULL: none is named */
	} rows[] = {
		{ .what = "alone", .request = ENCRYPTED MANY, .node = "n1" },
		{ .what = "alone, by lists",
		  .request = ENCRYPTED MANY,
		  .lists = true,
		  .node = "n1" },
		{ .what = "another was first",
		  .request = ENCRYPTED MANY,
		  .first = THEIRS,
		  .node = "n2" },
		{ .what = "another was there before the start",
		  .request = ENCRYPTED MANY,
		  .listed = { THEIRS },
		  .node = "n2" },
		{ .what = "a person's was first",
		  .request = ENCRYPTED MANY,
		  .first = ATTACHMENT("n2-pvc-1", "pvc-1", "n2"),
		  .node = "n2" },
		{ .what = "ours was first",
		  .request = ENCRYPTED MANY,
		  .first = OURS,
		  .second = THEIRS,
		  .node = "n1" },
		{ .what = "ours was second",
		  .request = ENCRYPTED MANY,
		  .first = THEIRS,
		  .second = OURS,
		  .node = "n2" },
		{ .what = "a start has no order",
		  .request = ENCRYPTED MANY,
		  .listed = { OURS, THEIRS },
		  .node = "n2" },
		{ .what = "lists have no order",
		  .request = ENCRYPTED MANY,
		  .first = OURS,
		  .second = THEIRS,
		  .lists = true,
		  .node = "n2" },
		{ .what = "a mute watch has no order",
		  .request = ENCRYPTED MANY,
		  .first = OURS,
		  .second = THEIRS,
		  .quiet = true,
		  .node = "n2" },
		{ .what = "another volume was first",
		  .request = ENCRYPTED MANY,
		  .first = LABELLED("n2-pvc-2", "pvc-2", "n2"),
		  .node = "n1" },
		{ .what = "one writer of many nodes",
		  .request = ENCRYPTED OF_MODE("MULTI_NODE_SINGLE_WRITER"),
		  .first = THEIRS,
		  .node = "n2" },
		{ .what = "not encrypted", .request = MANY },
		{ .what = "one node", .request = ENCRYPTED OF_MODE("SINGLE_NODE_WRITER") },
		{ .what = "readers", .request = ENCRYPTED OF_MODE("MULTI_NODE_READER_ONLY") },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *patch AUTO(free) = xasprintf("{%s}", rows[i].request);
		struct json *reply AUTO(json_free) = NULL;
		const char *node;
		struct err err = ERR_INIT;

		indexed = !rows[i].lists;
		setup();
		untyped_volume();
		for (size_t k = 0; k < 2 && rows[i].listed[k]; k++)
			fake_put(A, rows[i].listed[k]);
		if (indexed)
			c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		fake.follower.quiet = rows[i].quiet;
		fake.before_create[0] = rows[i].first;
		fake.before_create[1] = rows[i].second;
		fake.on_create = fake_json(STATUS(""));
		if (rows[i].second || rows[i].listed[1])
			fake_then(A, NAME, STATUS(""));
		ck_assert_msg(publish(patch, &reply, &err) == 0, "%s: %s", rows[i].what, err.msg);
		node = json_text(json_member(json_at(reply, "publish_context"),
		                             "csi.snap.nvidia.com/formatNode"));
		ROW_STR_EQ(rows[i].what, node ? node : "none",
		           rows[i].node ? rows[i].node : "none");
		teardown();
	}
}
END_TEST

/* Our attachment exists, so an error while removing it is not final. */
START_TEST(who_was_first_goes_on_although_the_later_one_stays)
{
	static const char here[] = LABELLED(NAME, "pvc-1", "n1");
	static const char there[] = LABELLED("n2-pvc-1", "pvc-1", "n2");

	for (int first = 0; first < 2; first++) {
		struct err err = ERR_INIT;
		int rc;

		indexed = true;
		setup();
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		fake_put(A, first ? here : there);
		fake_put(A, first ? there : here);
		fake_then(A, NAME, STATUS(""));
		rc = publish("{}", NULL, &err);
		ck_assert_msg((rc == 0) == first, "%d: %s", first, err.msg);
		ck_assert_msg(first || err.code == ERR_PRECONDITION, "%s", err.msg);
		ck_assert_ptr_nonnull(fake_find(A, NAME));
		teardown();
	}
}
END_TEST

START_TEST(what_is_read_instead_of_what_was_expected_counts)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = "pvc-1" };
	struct err err = ERR_INIT;

	indexed = true;
	setup();
	c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
	elsewhere_by_hand();
	fake.follower.quiet = true;
	fake_change_text(A, "mine", "{\"spec\":{\"dpuNodeName\":\"n3\"}}");
	ck_assert_int_eq(attachments_scan(&c, wait_limit(), &scan, &err), 0);
	ck_assert_uint_eq(scan.n_elsewhere, 1);
	ck_assert_str_eq(scan.elsewhere, "n3");
	teardown();
}
END_TEST

START_TEST(what_cannot_be_withdrawn_may_be_attached)
{
	struct err err = ERR_INIT;

	indexed = true;
	setup();
	fake.before_create[0] = LABELLED("n2-pvc-1", "pvc-1", "n2");
	fake_refuse("delete", A, ERR_PERMISSION, "cannot delete");
	ck_assert_int_eq(publish("{}", NULL, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE, "%s", err.msg);
	ck_assert_str_eq(err.msg, "DPUVolumeAttachment dpf/n1-pvc-1: cannot delete");
	teardown();
}
END_TEST

/* The same applies to its limit, which is re-read before a refusal. */
START_TEST(a_node_that_was_found_is_not_asked_for_again)
{
	static const char csi_node[] =
		"{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":[{\"name\":"
		"\"csi.snap.nvidia.com\",\"allocatable\":{\"count\":2}}]}}";
	struct err err = ERR_INIT;
	int gets;

	indexed = true;
	setup();
	c.node_cache = node_cache_new();
	fake_put("csinodes", csi_node);
	fake.on_create = fake_json(STATUS(""));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.gets, 2); /* volume, DPUNode */
	fake_then(A, NAME, NULL);
	fake_run_step();
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.gets, 3);
	fake_then(A, NAME, NULL);
	fake_run_step();
	fake_put(A, LABELLED("n1-pvc-2", "pvc-2", "n1"));
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(fake.gets, 5); /* CSINode, the first read */
	fake_then(A, NAME, NULL);
	fake_run_step();
	gets = fake.gets;
	fake_put(A, LABELLED("n1-pvc-3", "pvc-3", "n1"));
	ck_assert_int_eq(publish("{}", NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
	ck_assert_int_eq(fake.gets - gets, 2); /* CSINode, the re-read */
	err_clear(&err);
	/* kubelet has counted again: the cached value does not refuse. */
	fake_change_text("csinodes", "n1",
	                 "{\"spec\":{\"drivers\":[{\"name\":\"csi.snap.nvidia.com\","
	                 "\"allocatable\":{\"count\":3}}]}}");
	ck_assert_msg(publish("{}", NULL, &err) == 0, "%s", err.msg);
	teardown();
}
END_TEST

/* ---- unpublish ---- */

static void attached(void)
{
	fake_put(A, ATTACHMENT(NAME, "pvc-1", "n1"));
	fake_put(A, ATTACHMENT("n1-pvc-2", "pvc-2", "n1"));
}
static void attached_without_volume(void)
{
	attached();
	fake_then(V, "pvc-1", NULL);
	fake_run_step();
}
static void attached_to_many(void)
{
	attached();
	elsewhere();
	fake_put(A, ATTACHMENT("by-hand", "pvc-1", "n3"));
}
static void attached_twice(void)
{
	fake_put(A, LABELLED(NAME, "pvc-1", "n1"));
	elsewhere();
	fake_put(A, LABELLED("n1-pvc-2", "pvc-2", "n1"));
}
static void attached_twice_one_gone(void)
{
	attached_twice();
	fake.gone_before_delete = NAME;
}
static void attached_twice_and_held(void)
{
	attached_twice();
	fake.hold = true;
}
static void attached_twice_and_held_for_a_while(void)
{
	attached_twice_and_held();
	fake_then(A, "n2-pvc-1", NULL);
	fake_then(A, NAME, NULL);
}
static void attached_and_held(void)
{
	attached();
	fake.hold = true;
	fake_then(A, NAME, "{\"status\":{\"message\":\"DPUDetach not ready: busy\"}}");
}
static void attached_without_a_dpu(void)
{
	attached();
	fake.hold = true;
	fake_then(A, NAME,
	          "{\"status\":{\"conditions\":[{\"type\":\"DPUVolumeAttachmentReconciled\","
	          "\"status\":\"False\",\"reason\":\"Error\",\"message\":"
	          "\"no DPU found for DPUNode n1\"}]}}");
}
static void attached_held_then_gone(void)
{
	attached();
	fake.hold = true;
	fake_then(A, NAME, "{}");
	fake_then(A, NAME, NULL);
}
/* The watch lags: it delivers the previous attachment, while the new one exists. */
static void attached_and_held_and_the_watch_lags(void)
{
	attached();
	fake.hold = true;
	fake.foreign = "{\"metadata\":{\"name\":\"" NAME "\",\"uid\":\"before\"}}";
}
static void attached_and_the_watch_lags_and_get_fails(void)
{
	attached_and_held_and_the_watch_lags();
	fake_refuse_after(!indexed, "get", A, ERR_PERMISSION, "cannot get");
}
static void attached_and_held_and_not_watched(void)
{
	attached();
	fake.hold = true;
	fake_refuse("watch", A, ERR_PERMISSION, "cannot watch");
}
static void detach_going(void)
{
	going_attachment();
	fake_then(A, NAME, NULL);
}
static void detach_forbidden(void)
{
	attached();
	fake_refuse("delete", A, ERR_PERMISSION, "cannot delete");
}

static const struct {
	const char *what, *volume, *node;
	void (*world)(void);
	enum err_code code;
	const char *text;
	unsigned left; /* attachments */
} detached[] = {
	{ "no volume", "", "n1", nothing, ERR_INVALID, "VolumeId: field is required", 0 },
	{ "never attached", "pvc-1", "n1", nothing, ERR_OK, NULL, 0 },
	{ "an unknown volume", "pvc-9", "n1", nothing, ERR_OK, NULL, 0 },
	{ "a name that cannot be", "PVC_9", "N 1", nothing, ERR_OK, NULL, 0 },
	{ "attached", "pvc-1", "n1", attached, ERR_OK, NULL, 1 },
	{ "attached, and the volume is gone", "pvc-1", "n1", attached_without_volume, ERR_OK, NULL,
	  1 },
	{ "with a finalizer", "pvc-1", "n1", attached_held_then_gone, ERR_OK, NULL, 1 },
	{ "on its way out", "pvc-1", "n1", detach_going, ERR_OK, NULL, 0 },
	{ "from every node, but not what was made by hand", "pvc-1", "", attached_to_many, ERR_OK,
	  NULL, 2 },
	{ "from every node, with and without label", "pvc-1", "", attached_twice, ERR_OK, NULL, 1 },
	{ "from every node, one of which was faster", "pvc-1", "", attached_twice_one_gone, ERR_OK,
	  NULL, 1 },
	{ "from every node, with finalizers that go in any order", "pvc-1", "",
	  attached_twice_and_held_for_a_while, ERR_OK, NULL, 1 },
	{ "from every node, and it stays", "pvc-1", "", attached_twice_and_held, ERR_DEADLINE,
	  "timeout occurred while waiting for volume attachment deletion: DPUVolumeAttachment "
	  "dpf/n1-pvc-1 still exists: no conditions yet; DPF has not started: check that its host controller runs and every DPU cluster is reachable",
	  3 },
	{ "from one of two nodes", "pvc-1", "n2", attached_to_many, ERR_OK, NULL, 3 },
	{ "another volume and node of the same joined name", "pvc-1", "n1", other_volume, ERR_OK,
	  NULL, 1 },
	{ "it stays", "pvc-1", "n1", attached_and_held, ERR_DEADLINE,
	  "timeout occurred while waiting for volume attachment deletion: DPUVolumeAttachment "
	  "dpf/n1-pvc-1 still exists: DPUDetach not ready: busy; no conditions yet",
	  2 },
	{ "it stays, and the node has no DPU", "pvc-1", "n1", attached_without_a_dpu, ERR_DEADLINE,
	  "timeout occurred while waiting for volume attachment deletion: DPUVolumeAttachment "
	  "dpf/n1-pvc-1 still exists: DPUVolumeAttachmentReconciled=False (Error: no DPU found for "
	  "DPUNode n1)",
	  2 },
	{ "it stays, and the watch brings the one before it", "pvc-1", "n1",
	  attached_and_held_and_the_watch_lags, ERR_DEADLINE,
	  "timeout occurred while waiting for volume attachment deletion: DPUVolumeAttachment "
	  "dpf/n1-pvc-1 still exists: no conditions yet; DPF has not started: check that its host controller runs and every DPU cluster is reachable",
	  2 },
	{ "the watch brings the one before it, and the read is refused", "pvc-1", "n1",
	  attached_and_the_watch_lags_and_get_fails, ERR_UNAVAILABLE,
	  "waiting for DPUVolumeAttachment dpf/n1-pvc-1: cannot get", 2 },
	{ "it stays, and may not be watched", "pvc-1", "n1", attached_and_held_and_not_watched,
	  ERR_UNAVAILABLE, "waiting for DPUVolumeAttachment dpf/n1-pvc-1: cannot watch", 2 },
	{ "may not delete", "pvc-1", "n1", detach_forbidden, ERR_PERMISSION,
	  "DPUVolumeAttachment dpf/n1-pvc-1: cannot delete", 2 },
	{ "from every node, and is not permitted to list", "pvc-1", "", list_forbidden,
	  ERR_PERMISSION, "listing the attachments of volume pvc-1: cannot list", 0 },
};

static unsigned count_attachments(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < fake.n_objects; i++)
		n += !fake.objects[i].gone && str_eq(fake.objects[i].plural, A);
	return n;
}

START_TEST(unpublish_leaves_no_attachment_of_ours)
{
	for (size_t i = 0; i < ARRAY_LEN(detached); i++) {
		struct json *q AUTO(json_free) = json_object();
		struct err err = ERR_INIT;

		indexed = _i;
		setup();
		detached[i].world();
		json_set_str(q, "volume_id", detached[i].volume);
		json_set_str(q, "node_id", detached[i].node);
		if (call("ControllerUnpublishVolume", q, NULL, &err) == 0)
			ck_assert_int_eq(detached[i].code, ERR_OK);
		ck_assert_msg(err.code == detached[i].code, "%s: %s %s", detached[i].what,
		              err_code_name(err.code), err.msg);
		if (detached[i].text)
			ROW_STR_EQ(detached[i].what, err.msg, detached[i].text);
		ck_assert_msg(count_attachments() == detached[i].left, "%s: %u left",
		              detached[i].what, count_attachments());
		teardown();
	}
}
END_TEST

#define OLD_UID "00112233-4455-6677-8899-aabbccddeeff"
#define WITH_UID(uid, name, volume, node)                                        \
	"{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid                    \
	"\"},\"spec\":{\"dpuVolumeName\":\"" volume "\",\"dpuNodeName\":\"" node \
	"\",\"functionType\":\"vf\","                                            \
	"\"hotplugFunction\":false}}"

START_TEST(what_the_index_knows_is_detached_without_a_read)
{
	static const struct {
		const char *what, *heard, *there; /* in the index; in the API server */
		enum err_code code;
		int gets, deletes;
		unsigned left, left_by_a_retry;
	} rows[] = {
		{ "it is there", NULL, ATTACHMENT(NAME, "pvc-1", "n1"), ERR_OK, 0, 1, 0, 0 },
		{ "it has gone", WITH_UID(OLD_UID, NAME, "pvc-1", "n1"), NULL, ERR_OK, 0, 1, 0, 0 },
		/* Perhaps after a DELETE of this call, for a pod of today. */
		{ "it was created again", WITH_UID(OLD_UID, NAME, "pvc-1", "n1"),
		  ATTACHMENT(NAME, "pvc-1", "n1"), ERR_ABORTED, 0, 1, 1, 0 },
		{ "another volume has its name now", WITH_UID(OLD_UID, NAME, "pvc-1", "n1"),
		  ATTACHMENT(NAME, "1", "n1-pvc"), ERR_ABORTED, 0, 1, 1, 1 },
		{ "its uid is no API server's", NULL, WITH_UID("u", NAME, "pvc-1", "n1"), ERR_OK, 1,
		  1, 0, 0 },
		{ "another attachment of the volume, made by hand", NULL,
		  ATTACHMENT("by-hand", "pvc-1", "n1"), ERR_OK, 1, 0, 1, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *q AUTO(json_free) =
			fake_json("{\"volume_id\":\"pvc-1\",\"node_id\":\"n1\"}");
		struct json *heard AUTO(json_free) =
			rows[i].heard ? fake_json(rows[i].heard) : NULL;
		struct err err = ERR_INIT;

		indexed = true;
		setup();
		if (rows[i].there)
			fake_put(A, rows[i].there);
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		if (heard) {
			fake_tell(KUBE_FOLLOW_BEGIN, NULL);
			fake_tell(KUBE_FOLLOW_CHANGED, heard);
			fake_tell(KUBE_FOLLOW_COMPLETE, NULL);
		}
		IGNORE_RESULT(call("ControllerUnpublishVolume", q, NULL, &err));
		ck_assert_msg(err.code == rows[i].code, "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(fake.gets == rows[i].gets && fake.deletes == rows[i].deletes,
		              "%s: %d GETs, %d DELETEs", rows[i].what, fake.gets, fake.deletes);
		ck_assert_msg(count_attachments() == rows[i].left, "%s: %u left", rows[i].what,
		              count_attachments());
		err_clear(&err);
		ck_assert_msg(call("ControllerUnpublishVolume", q, NULL, &err) == 0, "%s: %s",
		              rows[i].what, err.msg);
		ck_assert_msg(count_attachments() == rows[i].left_by_a_retry,
		              "%s: %u left by a retry", rows[i].what, count_attachments());
		teardown();
	}
}
END_TEST

START_TEST(every_node_is_asked_to_detach_before_the_first_is_waited_for)
{
	struct json *q AUTO(json_free) = fake_json("{\"volume_id\":\"pvc-1\"}");
	static const struct {
		const char *what;
		int refused; /* DELETEs that succeed before one is refused; -1: all succeed */
		enum err_code code;
	} rows[] = {
		{ "all wait", -1, ERR_DEADLINE },
		{ "the first is refused", 0, ERR_PERMISSION },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		indexed = _i;
		setup();
		attached_twice_and_held();
		if (rows[i].refused >= 0)
			fake_refuse_after(rows[i].refused, "delete", A, ERR_PERMISSION,
			                  "cannot delete");
		ck_assert_int_eq(call("ControllerUnpublishVolume", q, NULL, &err), -1);
		ck_assert_msg(err.code == rows[i].code, "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(fake.deletes == 2, "%s: %d", rows[i].what, fake.deletes);
		teardown();
	}
}
END_TEST

/* The Event that a refused publish has written; NULL: none. */
static const struct json *event_of_publish(void (*also)(void), struct err *err)
{
	const struct event_recorder_options o = { .driver = "csi.snap.nvidia.com" };
	static struct json *event;

	ck_assert_msg(!event_recorder_start(&o, &c.events, err), "%s", err->msg);
	also();
	ck_assert_int_eq(publish("{}", NULL, err), -1);
	WAIT_UNTIL(metric_value(METRIC_EVENTS, LABELS("ok")) > 0);
	event_recorder_stop(c.events);
	c.events = event_recorder_free(c.events);
	event = NULL;
	for (size_t i = 0; i < fake.n_objects; i++)
		if (str_eq(fake.objects[i].plural, "events"))
			event = fake.objects[i].tree;
	return event;
}

static void attached_to_n2(void)
{
	fake_put(A, ATTACHMENT("n2-pvc-1", "pvc-1", "n2"));
	fake_put("persistentvolumes",
	         "{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"csi\":{\"driver\":"
	         "\"csi.snap.nvidia.com\",\"volumeHandle\":\"pvc-1\"}}}");
}

static void a_node_without_dpu(void)
{
	fake.dpus = true;
}

static const struct {
	void (*also)(void);
	const char *kind, *name, *reason, *message;
} event_rows[] = {
	{ full_node, "Node", "n1", "NoFreeFunction", FULL_NODE },
	{ no_functions_left, "Node", "n1", "NoFreeFunction", "no free function: all 4 of kind vf" },
	{ a_node_without_dpu, "Node", "n1", "NoUsableDPU", "DPUNode dpf/n1: has no DPU" },
	{ attached_to_n2, "PersistentVolume", "pvc-1", "AttachedToOtherNode",
	  "volume pvc-1 is attached to node n2 (DPUVolumeAttachment n2-pvc-1)" },
};

START_TEST(a_refusal_that_a_person_has_to_end_is_an_event)
{
	struct err err = ERR_INIT;
	const struct json *event;

	setup();
	event = event_of_publish(event_rows[_i].also, &err);
	ck_assert_ptr_nonnull(event);
	ck_assert_str_eq(json_str(event, "involvedObject.kind"), event_rows[_i].kind);
	ck_assert_str_eq(json_str(event, "involvedObject.name"), event_rows[_i].name);
	ck_assert_str_eq(json_str(event, "reason"), event_rows[_i].reason);
	ck_assert_msg(strstr(json_str(event, "message"), event_rows[_i].message), "%s",
	              json_str(event, "message"));
	teardown();
}
END_TEST

SUITE("publish", LOOP(a_refusal_that_a_person_has_to_end_is_an_event, ARRAY_LEN(event_rows)),
      the_node_is_told_where_its_device_is, an_attachment_is_made_as_the_go_plugin_makes_it,
      an_incomplete_status_is_never_passed_on, LOOP(publish_is_refused_with_a_reason, 2),
      LOOP(a_node_without_a_usable_dpu_gets_no_attachment, 2 * ARRAY_LEN(by_dpu)),
      LOOP(the_api_servers_cache_lets_a_volume_pass_and_never_refuses_one, ARRAY_LEN(by_cache)),
      LOOP(publish_succeeds_where_it_may, 2), a_narrower_use_is_allowed_and_a_wider_one_refused,
      attachments_of_other_volumes_are_not_even_read,
      with_an_index_nothing_is_listed_among_attachments_of_any_kind,
      what_the_index_believes_is_read_before_it_refuses,
      a_full_node_is_counted_by_a_list_before_it_refuses,
      until_all_attachments_are_read_publish_waits_and_says_how_far_it_is,
      a_volume_whose_name_is_no_label_is_found_by_its_hash,
      a_node_that_was_found_is_not_asked_for_again,
      a_csinode_that_is_not_there_is_not_asked_for_each_time,
      of_several_writers_the_one_with_the_oldest_attachment_formats,
      who_was_later_gives_way_to_another_driver, who_was_first_goes_on_although_the_later_one_stays,
      what_is_read_instead_of_what_was_expected_counts, what_cannot_be_withdrawn_may_be_attached,
      a_node_check_that_is_forbidden_warns_once_and_asks_seldom,
      a_node_check_that_was_refused_comes_back_within_a_minute,
      one_refusal_of_many_calls_at_once_counts_once,
      a_node_that_could_not_be_looked_for_is_not_remembered,
      LOOP(unpublish_leaves_no_attachment_of_ours, 2),
      what_the_index_knows_is_detached_without_a_read,
      LOOP(every_node_is_asked_to_detach_before_the_first_is_waited_for, 2));
