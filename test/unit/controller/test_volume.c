/* SPDX-License-Identifier: Apache-2.0 */
/* Successful CreateVolume and DeleteVolume; their errors are in test_create_errors.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "controller/names.h"
#include "controller/attachment_index.h"
#include "test/lib/controller_door.h"
#include "test/lib/metric_oldest.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define BOUND                                                                                  \
	"{\"status\":{\"phase\":\"Bound\",\"state\":{\"selectedDPUStorageVendorName\":\"v1\"," \
	"\"storageVendorPluginName\":\"plugin\",\"volumeInfo\":{\"capacity\":{\"storage\":"    \
	"\"2Gi\"}}}}}"

static struct controller c = { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
static struct keylock *locks;

static void setup(void)
{
	fake_reset();
	locks = keylock_new();
}

static void teardown(void)
{
	ck_assert_int_eq(fake.waits_open, 0);
	locks = keylock_free(locks);
	c.attachments = attachment_index_free(c.attachments);
	fake_reset();
}

/* The request, patched onto a valid one. */
static struct json *request(const char *patch)
{
	struct json *j = fake_json(
		"{\"name\":\"pvc-1\",\"capacity_range\":{\"required_bytes\":1073741824},"
		"\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},"
		"\"mount\":{\"fs_type\":\"ext4\"}}],\"parameters\":{\"policy\":\"gold\"}}");
	struct json *p AUTO(json_free) = fake_json(patch);

	json_merge_patch(j, p);
	return j;
}

static struct json *create(const char *patch)
{
	struct json *q AUTO(json_free) = request(patch);
	struct json *reply = NULL;
	struct err err = ERR_INIT;
	int rc = door_call(&c, locks, "CreateVolume", q, &reply, &err);

	ck_assert_msg(rc == 0, "%s: %s", err_code_name(err.code), err.msg);
	return reply;
}

static void same(const char *what, const struct json *got, const char *want)
{
	struct json *j AUTO(json_free) = fake_json(want);
	char *text AUTO(free) = got ? json_print(got) : NULL;

	ck_assert_msg(got && json_equal(got, j), "%s: got %s, want %s", what,
	              text ? text : "nothing", want);
}

/* ---- create ---- */

static const struct {
	const char *what, *patch;
	const char *name, *annotations, *spec, *context;
} made[] = {
	{ "the least that is needed", "{\"capacity_range\":null}", "pvc-1",
	  "{\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	  "\"csi.snap.nvidia.com/functionType\":\"vf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"false\"}",
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":"
	  "[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},"
	  "\"volumeMode\":\"Block\"}",
	  "{\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\","
	  "\"storageVendorPluginName\":\"plugin\"}" },
	{ "raw block for many nodes, with a limit, on a hot-plugged function",
	  "{\"capacity_range\":{\"required_bytes\":1000000000,\"limit_bytes\":3221225472},"
	  "\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"SINGLE_NODE_WRITER\"},\"block\":"
	  "{}},{\"access_mode\":{\"mode\":\"MULTI_NODE_MULTI_WRITER\"},\"block\":{}},{"
	  "\"access_mode\":{\"mode\":\"SINGLE_NODE_SINGLE_WRITER\"},\"block\":{}}],"
	  "\"parameters\":{\"functionType\":\"PF\",\"hotplugFunction\":\"1\"}}",
	  "pvc-1",
	  "{\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":\"block\","
	  "\"csi.snap.nvidia.com/functionType\":\"pf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"true\",\"csi.snap.nvidia.com/functionInContext\":\"true\"}",
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":"
	  "[\"ReadWriteOnce\",\"ReadWriteMany\"],\"resources\":{\"requests\":{\"storage\":"
	  "\"1000000000\"},\"limits\":{\"storage\":\"3Gi\"}},\"volumeMode\":\"Block\"}",
	  "{\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\","
	  "\"storageVendorPluginName\":\"plugin\",\"functionType\":\"pf\",\"hotplugFunction\":"
	  "\"true\"}" },
	{ "keys of all kinds",
	  "{\"parameters\":{\"pool\":\"p1\",\"csi.snap.nvidia.com/formatPolicy\":\"never\","
	  "\"csi.snap.nvidia.com/emulation\":\"nvme\",\"csi.storage.k8s.io/pvc/name\":\"data\","
	  "\"csi.storage.k8s.io/pvc/namespace\":\"shop\",\"csi.storage.k8s.io/pv/name\":"
	  "\"pvc-1\",\"csi.storage.k8s.io/fstype\":\"xfs\",\"hotplugFunction\":\"false\"}}",
	  "pvc-1",
	  "{\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	  "\"csi.snap.nvidia.com/functionType\":\"vf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"false\",\"csi.snap.nvidia.com/functionInContext\":\"true\","
	  "\"csi.snap.nvidia.com/formatPolicy\":\"never\",\"csi.snap.nvidia.com/emulation\":"
	  "\"nvme\",\"csi.snap.nvidia.com/pvcName\":\"data\","
	  "\"csi.snap.nvidia.com/pvcNamespace\":\"shop\",\"csi.snap.nvidia.com/pvName\":"
	  "\"pvc-1\"}",
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{\"pool\":\"p1\"},\"accessModes\":"
	  "[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},"
	  "\"volumeMode\":\"Block\"}",
	  "{\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\","
	  "\"storageVendorPluginName\":\"plugin\",\"functionType\":\"vf\",\"hotplugFunction\":"
	  "\"false\",\"csi.snap.nvidia.com/formatPolicy\":\"never\","
	  "\"csi.snap.nvidia.com/emulation\":\"nvme\"}" },
	{ "a claim whose names are texts of any kind",
	  "{\"parameters\":{\"csi.storage.k8s.io/pvc/name\":"
	  "\"x\\\",\\\"spec\\\":{\\\"dpuStoragePolicyName\\\":\\\"other\\\"}}\","
	  "\"csi.storage.k8s.io/pvc/namespace\":\"../../kube-system\\n\"}}",
	  "pvc-1",
	  "{\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	  "\"csi.snap.nvidia.com/functionType\":\"vf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"false\",\"csi.snap.nvidia.com/pvcName\":"
	  "\"x\\\",\\\"spec\\\":{\\\"dpuStoragePolicyName\\\":\\\"other\\\"}}\","
	  "\"csi.snap.nvidia.com/pvcNamespace\":\"../../kube-system\\n\"}",
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":"
	  "[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},"
	  "\"volumeMode\":\"Block\"}",
	  NULL },
	{ "a chart's empty values",
	  "{\"parameters\":{\"functionType\":\"\",\"hotplugFunction\":\"\"}}", "pvc-1",
	  "{\"csi.snap.nvidia.com/name\":\"pvc-1\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	  "\"csi.snap.nvidia.com/functionType\":\"vf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"false\"}",
	  NULL, NULL },
	{ "a filesystem for readers, which the backend brings",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"},"
	  "\"mount\":{}}],\"parameters\":{\"csi.snap.nvidia.com/formatPolicy\":\"never\"}}",
	  "pvc-1", NULL,
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":[\"ReadOnlyMany\"],"
	  "\"resources\":{\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}",
	  NULL },
	{ "raw block for readers",
	  "{\"volume_capabilities\":[{\"access_mode\":{\"mode\":\"MULTI_NODE_READER_ONLY\"},"
	  "\"block\":{}}]}",
	  "pvc-1", NULL, NULL, NULL },
	{ "a name that Kubernetes does not take", "{\"name\":\"PVC-1\"}",
	  "v-f1fd65373483d94f708038b03ccabf98",
	  "{\"csi.snap.nvidia.com/name\":\"PVC-1\",\"csi.snap.nvidia.com/accessType\":\"mount\","
	  "\"csi.snap.nvidia.com/functionType\":\"vf\",\"csi.snap.nvidia.com/hotplugFunction\":"
	  "\"false\"}",
	  NULL, NULL },
	{ "a limit below the default size",
	  "{\"capacity_range\":{\"required_bytes\":0,"
	  "\"limit_bytes\":4294967296}}",
	  "pvc-1", NULL,
	  "{\"dpuStoragePolicyName\":\"gold\",\"parameters\":{},\"accessModes\":"
	  "[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"},\"limits\":{"
	  "\"storage\":\"4Gi\"}},\"volumeMode\":\"Block\"}",
	  NULL },
};

#define REQUEST "csi.snap.nvidia.com/request"

START_TEST(a_request_becomes_a_dpuvolume_and_its_state_a_reply)
{
	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		struct json *reply AUTO(json_free) = NULL;
		struct fake_object *o;

		setup();
		fake.on_create = fake_json(BOUND);
		reply = create(made[i].patch);
		o = fake_find(V, made[i].name);
		ck_assert_msg(o, "%s: no object", made[i].what);
		same(made[i].what, json_at(o->tree, "metadata.labels"),
		     "{\"app.kubernetes.io/managed-by\":\"csi.snap.nvidia.com\"}");
		/* Only this driver compares it, with its own other ones. */
		ck_assert_int_eq(strlen(json_text(json_member(
					 json_at(o->tree, "metadata.annotations"), REQUEST))),
		                 32);
		json_remove(json_at_mut(o->tree, "metadata.annotations"), REQUEST);
		if (made[i].annotations)
			same(made[i].what, json_at(o->tree, "metadata.annotations"),
			     made[i].annotations);
		if (made[i].spec)
			same(made[i].what, json_at(o->tree, "spec"), made[i].spec);
		ROW_STR_EQ(made[i].what, json_str(reply, "volume.volume_id"), made[i].name);
		same(made[i].what, json_at(reply, "volume.capacity_bytes"), "2147483648");
		if (made[i].context)
			same(made[i].what, json_at(reply, "volume.volume_context"),
			     made[i].context);
		/* One write and no read: the rest arrived by the watch. */
		ck_assert_int_eq(fake.creates, 1);
		ck_assert_int_eq(fake.gets + fake.lists + fake.deletes, 0);
		teardown();
	}
}
END_TEST

#define KEY "topology.csi.snap.nvidia.com/dpu"
#define WHERE "{\"accessibility_requirements\":{\"requisite\":[{\"segments\":{%s}}]}}"

/* The requirement, sent to a controller with and without --topology. */
static const struct {
	const char *what, *segments;
	const char *key, *topology; /* NULL: none */
	enum err_code code;
} wheres[] = {
	{ "without --topology nothing is said or checked", "\"zone\":\"a\"", NULL, NULL, ERR_OK },
	{ "what can be met", "\"" KEY "\":\"true\"", KEY, "[{\"segments\":{\"" KEY "\":\"true\"}}]",
	  ERR_OK },
	{ "what cannot be met", "\"zone\":\"a\"", KEY, NULL, ERR_EXHAUSTED },
};

START_TEST(a_volume_is_made_where_it_is_wanted_or_not_at_all)
{
	char *patch AUTO(free) = xasprintf(WHERE, wheres[_i].segments);
	struct json *q AUTO(json_free) = request(patch);
	struct json *reply AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	setup();
	c.topology_key = wheres[_i].key;
	fake.on_create = fake_json(BOUND);
	ck_assert_int_eq(door_call(&c, locks, "CreateVolume", q, &reply, &err),
	                 wheres[_i].code ? -1 : 0);
	ck_assert_int_eq(err.code, wheres[_i].code);
	ck_assert_int_eq(fake.creates, !wheres[_i].code);
	if (wheres[_i].topology)
		same(wheres[_i].what, json_at(reply, "volume.accessible_topology"),
		     wheres[_i].topology);
	else
		ck_assert_ptr_null(json_at(reply, "volume.accessible_topology"));
	c.topology_key = NULL;
	teardown();
}
END_TEST

START_TEST(a_volume_is_waited_for_through_its_states)
{
	setup();
	fake_then(V, "pvc-1", "{\"status\":{\"phase\":\"Pending\"}}");
	fake_then(V, "pvc-1", "{\"status\":{\"phase\":\"Bound\"}}");
	fake_then(V, "pvc-1", BOUND);
	json_free(create("{}"));
	ck_assert_int_eq(fake.creates, 1);
	ck_assert_int_eq(fake.gets, 0);
	ck_assert_int_eq(metric_value(METRIC_WAITED, LABELS("dpuvolumes", "reached")), 1);
	ck_assert_int_eq(metric_oldest(METRIC_WAITS), 0);
	teardown();
}
END_TEST

/* The conditions of a volume at the deadline of its wait. */
static const char *page_while_it_waits(const char *state)
{
	static struct str page = STR_INIT(1 << 20);
	struct json *q AUTO(json_free) = request("{}");
	struct err err = ERR_INIT;

	setup();
	if (state)
		fake_then(V, "pvc-1", state);
	ck_assert_int_eq(door_call(&c, locks, "CreateVolume", q, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	teardown();
	str_reset(&page);
	metric_print(&page, METRIC_CONTROLLER);
	return page.ptr;
}

START_TEST(a_wait_is_counted_by_the_condition_that_is_missing)
{
	static const char scheduled[] =
		"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"},"
		"{\"type\":\"Created\",\"status\":\"True\"},"
		"{\"type\":\"Scheduled\",\"status\":\"False\",\"reason\":\"Pending\"}]}}";
	const char *page = page_while_it_waits(NULL);

	ck_assert_ptr_nonnull(
		strstr(page, "snap_csi_waits{resource=\"dpuvolumes\",condition=\"none\"} 0\n"));
	ck_assert_ptr_null(strstr(page, "Scheduled"));
	page = page_while_it_waits(scheduled);
	ck_assert_ptr_nonnull(strstr(
		page, "snap_csi_waits{resource=\"dpuvolumes\",condition=\"Scheduled\"} 0\n"));
	ck_assert_int_eq(metric_value(METRIC_WAITED, LABELS("dpuvolumes", "deadline")), 2);
}
END_TEST

START_TEST(news_that_are_older_than_the_object_are_not_believed)
{
	setup();
	fake.stale_gone = true;
	fake_then(V, "pvc-1", BOUND);
	json_free(create("{}"));
	ck_assert_int_eq(fake.gets, 1);
	teardown();
}
END_TEST

START_TEST(the_same_request_again_gives_the_same_volume)
{
	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		struct json *first AUTO(json_free) = NULL, *second AUTO(json_free) = NULL;

		setup();
		fake.on_create = fake_json(BOUND);
		first = create(made[i].patch);
		second = create(made[i].patch);
		ck_assert_msg(json_equal(first, second), "%s", made[i].what);
		ck_assert_int_eq(fake.creates, 2);
		ck_assert_int_eq(fake.gets, 1);
		teardown();
	}
}
END_TEST

START_TEST(a_compatible_request_gives_the_volume_that_is_there)
{
	static const struct {
		const char *what, *patch;
	} rows[] = {
		{ "less", "{\"capacity_range\":{\"required_bytes\":1048576}}" },
		{ "no size", "{\"capacity_range\":null}" },
		{ "a range around it", "{\"capacity_range\":{\"required_bytes\":2147483648,\"limit_"
		                       "bytes\":2147483648}}" },
		{ "other names of the claim", "{\"parameters\":{\"csi.storage.k8s.io/pvc/name\":"
		                              "\"other\"}}" },
		{ "the default said", "{\"parameters\":{\"functionType\":\"vf\"}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		setup();
		fake.on_create = fake_json(BOUND);
		json_free(create("{}"));
		json_free(create(rows[i].patch));
		ck_assert_uint_eq(fake.n_objects, 1);
		teardown();
	}
}
END_TEST

START_TEST(a_volume_of_the_go_plugin_is_taken_for_what_it_does_not_say)
{
	struct json *reply AUTO(json_free) = NULL;

	setup();
	fake_put(V,
	         "{\"metadata\":{\"name\":\"pvc-1\"},\"spec\":{\"dpuStoragePolicyName\":\"gold\","
	         "\"parameters\":{\"csi.storage.k8s.io/pvc/name\":\"claim\"},"
	         "\"accessModes\":[\"ReadWriteOnce\",\"ReadWriteOnce\"],\"resources\":{"
	         "\"requests\":{\"storage\":\"1Gi\"}},\"volumeMode\":\"Block\"}}");
	fake_change_text(V, "pvc-1", BOUND);
	reply = create("{\"parameters\":{\"functionType\":\"PF\",\"hotplugFunction\":\"true\","
	               "\"csi.storage.k8s.io/pv/name\":\"pvc-1\","
	               "\"csi.snap.nvidia.com/formatPolicy\":\"never\"}}");
	same("context", json_at(reply, "volume.volume_context"),
	     "{\"storagePolicyName\":\"gold\",\"storageVendorName\":\"v1\","
	     "\"storageVendorPluginName\":\"plugin\",\"functionType\":\"pf\","
	     "\"hotplugFunction\":\"true\",\"csi.snap.nvidia.com/formatPolicy\":\"never\"}");
	teardown();
}
END_TEST

/* ---- delete ---- */

static int delete_volume(const char *id, struct err *err)
{
	struct json *q AUTO(json_free) = json_object();

	json_set_str(q, "volume_id", id);
	return door_call(&c, locks, "DeleteVolume", q, NULL, err);
}

static void a_volume(void)
{
	fake_put(V, "{\"metadata\":{\"name\":\"pvc-1\"}}");
}
static void a_volume_held(void)
{
	a_volume();
	fake.hold = true;
	fake_then(
		V, "pvc-1",
		"{\"status\":{\"conditions\":[{\"type\":\"DPUVolumeReconciled\",\"status\":"
		"\"False\",\"reason\":\"AwaitingDeletion\",\"message\":\"volume is attached\"}]}}");
}
static void a_volume_held_unwatched(void)
{
	a_volume_held();
	fake.watch_error = "connection refused";
}
static void a_volume_held_then_gone(void)
{
	a_volume();
	fake.hold = true;
	fake_then(V, "pvc-1", "{\"status\":{\"phase\":\"Bound\"}}");
	fake_then(V, "pvc-1", NULL);
}
static void the_watch_lags(void)
{
	fake.foreign = "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"before\"}}";
}
static void a_volume_held_and_lag(void)
{
	a_volume_held();
	the_watch_lags();
}
static void a_volume_held_then_gone_and_lag(void)
{
	a_volume_held_then_gone();
	the_watch_lags();
}
/* The API server's cache lags behind. */
static void a_volume_that_the_cache_does_not_show(void)
{
	a_volume();
	fake.cached = "";
}
static void the_volume_before_is_in_the_cache(void)
{
	a_volume();
	fake.cached = "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"before\"}}";
}
static void a_volume_that_is_in_the_cache_alone(void)
{
	fake.cached = "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"before\"}}";
}
static void a_volume_that_goes_in_the_cache_alone(void)
{
	fake.cached = "{\"metadata\":{\"name\":\"pvc-1\",\"uid\":\"before\","
		      "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}";
}
static void a_volume_going(void)
{
	fake_put(V, "{\"metadata\":{\"name\":\"pvc-1\",\"deletionTimestamp\":"
	            "\"2026-01-01T00:00:00Z\"}}");
	fake_then(V, "pvc-1", NULL);
}
static void an_attached_volume(void)
{
	a_volume();
	fake_put(A, "{\"metadata\":{\"name\":\"n2-pvc-2\"},\"spec\":{\"dpuVolumeName\":\"pvc-2\","
	            "\"dpuNodeName\":\"n2\"}}");
	fake_put(A, "{\"metadata\":{\"name\":\"by-hand\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n1\"}}");
}
static void a_volume_attached_twice(void)
{
	an_attached_volume();
	fake_put(A, "{\"metadata\":{\"name\":\"n2-pvc-1\"},\"spec\":{\"dpuVolumeName\":\"pvc-1\","
	            "\"dpuNodeName\":\"n2\"}}");
}
static void a_volume_failed(void)
{
	fake_put(V,
	         "{\"metadata\":{\"name\":\"pvc-1\"},\"status\":{\"conditions\":[{\"type\":"
	         "\"Bound\",\"status\":\"False\",\"reason\":\"Failure\",\"message\":\"full\"}]}}");
	fake.hold = true;
	fake_then(V, "pvc-1", NULL);
}
static void no_list(void)
{
	a_volume();
	fake_refuse("list", A, ERR_PERMISSION, "cannot list");
}
static void no_delete(void)
{
	a_volume();
	fake_refuse("delete", V, ERR_PERMISSION, "cannot delete");
}
static void no_watch(void)
{
	a_volume();
	fake_refuse("watch", V, ERR_PERMISSION, "cannot watch");
}
static void no_watch_held(void)
{
	no_watch();
	fake.hold = true;
}
static void no_server(void)
{
	fake_refuse("get", V, ERR_UNAVAILABLE, "connection refused");
}
static void nothing(void)
{
}

static const struct {
	const char *what, *id;
	void (*world)(void);
	enum err_code code;
	const char *text;
	int deletes;
} deletes[] = {
	{ "no id", "", nothing, ERR_INVALID, "VolumeID: field is required", 0 },
	{ "one that never was", "pvc-1", nothing, ERR_OK, NULL, 0 },
	{ "one that cannot be", "Pvc_1", nothing, ERR_OK, NULL, 0 },
	{ "one that is there", "pvc-1", a_volume, ERR_OK, NULL, 1 },
	{ "one with a finalizer", "pvc-1", a_volume_held_then_gone, ERR_OK, NULL, 1 },
	{ "one on its way out", "pvc-1", a_volume_going, ERR_OK, NULL, 0 },
	{ "one that the cache does not show yet", "pvc-1", a_volume_that_the_cache_does_not_show,
	  ERR_OK, NULL, 1 },
	{ "one that the cache shows as the one before", "pvc-1", the_volume_before_is_in_the_cache,
	  ERR_ABORTED,
	  "DPUVolume dpf/pvc-1 was created again by another client during its deletion; retry", 1 },
	{ "one that the cache alone still shows", "pvc-1", a_volume_that_is_in_the_cache_alone,
	  ERR_OK, NULL, 1 },
	{ "one on its way out in the cache alone", "pvc-1", a_volume_that_goes_in_the_cache_alone,
	  ERR_OK, NULL, 0 },
	{ "one that failed", "pvc-1", a_volume_failed, ERR_OK, NULL, 1 },
	{ "one that stays", "pvc-1", a_volume_held, ERR_DEADLINE,
	  "timeout occurred while waiting for volume deletion: DPUVolume dpf/pvc-1 still exists: "
	  "DPUVolumeReconciled=False (AwaitingDeletion: volume is attached)",
	  1 },
	{ "one that stays, and the watch brings the one before it", "pvc-1", a_volume_held_and_lag,
	  ERR_DEADLINE,
	  "timeout occurred while waiting for volume deletion: DPUVolume dpf/pvc-1 still exists: "
	  "DPUVolumeReconciled=False (AwaitingDeletion: volume is attached)",
	  1 },
	{ "one that goes, and the watch brings the one before it", "pvc-1",
	  a_volume_held_then_gone_and_lag, ERR_OK, NULL, 1 },
	{ "one that stays, without a watch that would tell", "pvc-1", a_volume_held_unwatched,
	  ERR_DEADLINE,
	  "timeout occurred while waiting for volume deletion: DPUVolume dpf/pvc-1 still exists: "
	  "DPUVolumeReconciled=False (AwaitingDeletion: volume is attached); connection refused",
	  1 },
	{ "an attached one", "pvc-1", an_attached_volume, ERR_PRECONDITION,
	  "volume pvc-1 is attached to node n1 (DPUVolumeAttachment dpf/by-hand)", 0 },
	{ "one attached twice", "pvc-1", a_volume_attached_twice, ERR_PRECONDITION,
	  "volume pvc-1 is attached to node n1 (DPUVolumeAttachment dpf/by-hand and 1 more)", 0 },
	{ "attachments that may not be listed", "pvc-1", no_list, ERR_PERMISSION,
	  "listing the attachments of volume pvc-1: cannot list", 0 },
	{ "may not delete", "pvc-1", no_delete, ERR_PERMISSION,
	  "DPUVolume dpf/pvc-1: cannot delete", 1 },
	{ "may not watch, but it goes", "pvc-1", no_watch, ERR_OK, NULL, 1 },
	{ "may not watch, and it stays", "pvc-1", no_watch_held, ERR_UNAVAILABLE,
	  "waiting for DPUVolume dpf/pvc-1: cannot watch", 1 },
	{ "the API server is away", "pvc-1", no_server, ERR_UNAVAILABLE,
	  "DPUVolume dpf/pvc-1: connection refused", 0 },
};

/* By lists, and with an index. */
START_TEST(delete_ends_when_the_object_is_gone)
{
	for (size_t i = 0; i < ARRAY_LEN(deletes); i++) {
		struct err err = ERR_INIT;

		setup();
		deletes[i].world();
		if (_i)
			c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		delete_volume(deletes[i].id, &err);
		ck_assert_msg(err.code == deletes[i].code, "%s: %s %s", deletes[i].what,
		              err_code_name(err.code), err.msg);
		if (deletes[i].text)
			ROW_STR_EQ(deletes[i].what, err.msg, deletes[i].text);
		else
			ck_assert_msg(!fake_find(V, "pvc-1"), "%s: still there", deletes[i].what);
		ck_assert_msg(fake.deletes == deletes[i].deletes, "%s: %d DELETEs", deletes[i].what,
		              fake.deletes);
		teardown();
	}
}
END_TEST

START_TEST(create_and_delete_of_one_volume_exclude_each_other)
{
	static const char *const names[] = { "pvc-1", "PVC-1" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char id[OBJECT_NAME_MAX + 1];
		struct keylock_hold *hold = NULL;
		struct err err = ERR_INIT;
		char *patch AUTO(free) = xasprintf("{\"name\":\"%s\"}", names[i]);
		struct json *q AUTO(json_free) = NULL;

		setup();
		q = request(patch);
		volume_object_name(names[i], id);
		ck_assert_int_eq(keylock_take(locks, id, "DeleteVolume", &hold, &err), 0);
		ck_assert_int_eq(door_call(&c, locks, "CreateVolume", q, NULL, &err), -1);
		ck_assert_int_eq(err.code, ERR_ABORTED);
		err_clear(&err);
		ck_assert_int_eq(delete_volume(id, &err), -1);
		ck_assert_int_eq(err.code, ERR_ABORTED);
		keylock_release(hold);
		teardown();
	}
}
END_TEST

#define RULE "{\"x-kubernetes-validations\":[{\"rule\":\"self == oldSelf\"}]"
#define SCHEMA(resources)                                                                  \
	"{\"properties\":{\"spec\":{\"properties\":{\"resources\":" resources              \
	",\"properties\":{\"requests\":{\"additionalProperties\":{\"type\":\"string\"}}}}" \
	"}}}}"
#define CAN                                                                 \
	"{\"capabilities\":[{\"rpc\":{\"type\":\"CREATE_DELETE_VOLUME\"}}," \
	"{\"rpc\":{\"type\":\"PUBLISH_UNPUBLISH_VOLUME\"}},"                \
	"{\"rpc\":{\"type\":\"SINGLE_NODE_MULTI_WRITER\"}},"                \
	"{\"rpc\":{\"type\":\"LIST_VOLUMES\"}},"                            \
	"{\"rpc\":{\"type\":\"LIST_VOLUMES_PUBLISHED_NODES\"}},"            \
	"{\"rpc\":{\"type\":\"GET_VOLUME\"}},"                              \
	"{\"rpc\":{\"type\":\"GET_VOLUME_HEALTH\"}}"

static const struct {
	const char *what, *schema, *can;
	int asked; /* requests for the schema, for two calls */
} abilities[] = {
	{ "a CRD whose spec.resources is immutable", SCHEMA(RULE), CAN "]}", 1 },
	{ "one whose spec.resources may change", SCHEMA("{\"type\":\"object\""),
	  CAN ",{\"rpc\":{\"type\":\"EXPAND_VOLUME\"}}]}", 1 },
	{ "a schema that cannot be read", NULL, CAN "]}", 2 },
};

START_TEST(what_the_controller_can_do)
{
	for (size_t i = 0; i < ARRAY_LEN(abilities); i++) {
		setup();
		c.expands = 0;
		fake.schema = abilities[i].schema;
		for (int n = 0; n < 2; n++) {
			struct json *q AUTO(json_free) = json_object();
			struct json *reply AUTO(json_free) = NULL;
			struct err err = ERR_INIT;

			ck_assert_int_eq(
				door_call(&c, locks, "ControllerGetCapabilities", q, &reply, &err),
				0);
			same(abilities[i].what, reply, abilities[i].can);
		}
		ck_assert_msg(fake.schemas == abilities[i].asked, "%s: %d requests",
		              abilities[i].what, fake.schemas);
		c.expands = 0;
		teardown();
	}
}
END_TEST

SUITE("volume", a_request_becomes_a_dpuvolume_and_its_state_a_reply,
      LOOP(a_volume_is_made_where_it_is_wanted_or_not_at_all, ARRAY_LEN(wheres)),
      a_volume_is_waited_for_through_its_states, a_wait_is_counted_by_the_condition_that_is_missing,
      news_that_are_older_than_the_object_are_not_believed,
      the_same_request_again_gives_the_same_volume,
      a_compatible_request_gives_the_volume_that_is_there,
      a_volume_of_the_go_plugin_is_taken_for_what_it_does_not_say,
      LOOP(delete_ends_when_the_object_is_gone, 2),
      create_and_delete_of_one_volume_exclude_each_other, what_the_controller_can_do);
