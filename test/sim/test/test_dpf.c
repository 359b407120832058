/* SPDX-License-Identifier: Apache-2.0 */
/* DPF's actions on volumes and attachments. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/kinds/object.h"
#include "test/sim/test/harness.h"

#define PROVISIONING_API "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/" NS
#define DPUS PROVISIONING_API "/dpus"
#define DPUNODES PROVISIONING_API "/dpunodes"
#define META "{\"apiVersion\":\"storage.dpu.nvidia.com/v1alpha1\",\"kind\":"

static void make_vendor(struct sim_world *w, const char *name)
{
	char *body AUTO(free) =
		xasprintf(META "\"DPUStorageVendor\",\"metadata\":{\"name\":\"%s\"},\"spec\":{"
	                       "\"storageClassName\":\"class-%s\",\"pluginName\":\"%s\"}}",
	                  name, name, name);

	world_ok(w, "POST", STORAGE_API "/dpustoragevendors", body, 201);
}

static void make_policy(struct sim_world *w, const char *name, const char *vendors,
                        const char *algorithm)
{
	char *body AUTO(free) =
		xasprintf(META "\"DPUStoragePolicy\",\"metadata\":{\"name\":\"%s\"},\"spec\":{"
	                       "\"dpuStorageVendors\":%s,\"selectionAlgorithm\":\"%s\","
	                       "\"parameters\":{\"a\":\"policy\",\"b\":\"policy\"}}}",
	                  name, vendors, algorithm);

	world_ok(w, "POST", STORAGE_API "/dpustoragepolicies", body, 201);
}

static void make_volume(struct sim_world *w, const char *name, const char *policy)
{
	char *body AUTO(free) = volume_json_text(name, policy);

	world_ok(w, "POST", VOLUMES, body, 201);
}

START_TEST(a_volume_is_bound_in_the_steps_of_dpf)
{
	SEEDED_WITH(w, "--capacity-unit=100000000");
	struct watcher *watcher AUTO(watcher_close) = NULL;
	struct str steps AUTO(str_clear) = STR_INIT(1000);
	struct event e = { 0 };
	struct json *o AUTO(json_free) = NULL;

	ck_assert_int_eq(store_watch(w.sim.store, RES(VOLUMES), store_rv(w.sim.store), &watcher),
	                 0);
	make_volume(&w, "v", "example-policy");
	o = world_bound(&w, "v");
	while (watcher_next(watcher, &e) == NEWS_EVENT) {
		struct json *step AUTO(json_free) = version_parse(e.now);

		str_addf(&steps, "%d%s%d%d ", object_has_finalizers(step),
		         json_str(step, "status.phase") ? json_str(step, "status.phase") : "-",
		         conditions_true(step, "Scheduled"), conditions_true(step, "Ready"));
		event_clear(&e);
	}
	/*
	 * Conditions first, then the finalizer, then the rest of the status, each only if it
	 * changes.
	 */
	ck_assert_str_eq(steps.ptr, "0-00 0-00 1-00 1Pending00 1Pending00 1Pending10 1Pending11 "
	                            "1Bound11 ");
	ck_assert_str_eq(json_str(o, "status.state.selectedDPUStorageVendorName"),
	                 "example-vendor");
	ck_assert_str_eq(json_str(o, "status.state.volumeInfo.capacity.storage"), "100000000");
	ck_assert_str_eq(json_str(o, "status.state.persistentVolumeClaimRef.name"), "v-pvc");
	ck_assert_ptr_null(json_at(o, "status.state.parameters"));
	ck_assert_ptr_nonnull(json_at(o, "status.observedGeneration"));
}
END_TEST

START_TEST(a_volume_waits_for_its_policy_and_the_policy_for_its_vendors)
{
	WORLD(w, "--no-fabric");
	struct json *o AUTO(json_free) = NULL;

	make_volume(&w, "v", "gold");
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "Pending",
	                     "DPUStoragePolicy " NS "/gold not found");
	make_policy(&w, "gold", "[\"acme\"]", "NumberVolumes");
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "Pending",
	                     "DPUStoragePolicy " NS "/gold is not ready");
	world_wait_condition(&w, "dpustoragepolicies/gold", "Valid", "Error",
	                     "DPUStoragePolicy is not valid:\n* DPUStorageVendor " NS
	                     "/acme: not found");
	make_vendor(&w, "acme");
	world_wait(&w, "dpustoragevendors/acme", "status.dpuClusters.0.name", DPU_CLUSTER);
	o = world_bound(&w, "v");
	ck_assert_str_eq(json_str(o, "status.state.storageClassName"), "class-acme");
	ck_assert_str_eq(json_str(o, "status.state.csiDriverName"), "acme.csi.example.com");
}
END_TEST

START_TEST(the_vendor_with_the_fewest_volumes_is_taken)
{
	WORLD(w, "--no-fabric");
	struct str chosen AUTO(str_clear) = STR_INIT(100);
	char name[] = "v0";
	struct json *last AUTO(json_free) = NULL;

	make_vendor(&w, "b");
	make_vendor(&w, "a");
	make_policy(&w, "p", "[\"b\",\"a\"]", "NumberVolumes");
	for (; name[1] < '4'; name[1]++) {
		struct json *o AUTO(json_free) = NULL;

		make_volume(&w, name, "p");
		o = world_bound(&w, name);
		str_add(&chosen, json_str(o, "status.state.selectedDPUStorageVendorName"));
	}
	ck_assert_str_eq(chosen.ptr, "abab");
	world_ok(&w, "DELETE", VOLUMES "/v1", NULL, 200);
	world_wait(&w, "dpuvolumes/v1", NULL, NULL);
	make_volume(&w, "v9", "p");
	last = world_bound(&w, "v9");
	ck_assert_str_eq(json_str(last, "status.state.selectedDPUStorageVendorName"), "b");
}
END_TEST

START_TEST(random_selection_uses_every_vendor_in_the_end)
{
	WORLD(w, "--no-fabric");
	bool seen[2] = { false, false };

	make_vendor(&w, "a");
	make_vendor(&w, "b");
	make_policy(&w, "p", "[\"b\",\"a\"]", "Random");
	for (int i = 0; i < 64 && !(seen[0] && seen[1]); i++) {
		char *name AUTO(free) = xasprintf("v%d", i);
		struct json *o AUTO(json_free) = NULL;

		make_volume(&w, name, "p");
		o = world_bound(&w, name);
		seen[*json_str(o, "status.state.selectedDPUStorageVendorName") - 'a'] = true;
	}
	ck_assert(seen[0] && seen[1]);
}
END_TEST

START_TEST(the_volumes_parameters_win_over_the_policys)
{
	WORLD(w, "--no-fabric");
	struct json *o AUTO(json_free) = NULL;

	make_vendor(&w, "a");
	make_policy(&w, "p", "[\"a\"]", "NumberVolumes");
	world_ok(&w, "POST", VOLUMES,
	         META "\"DPUVolume\",\"metadata\":{\"name\":\"v\"},\"spec\":{"
	              "\"dpuStoragePolicyName\":\"p\",\"accessModes\":[\"ReadWriteOnce\"],"
	              "\"parameters\":{\"b\":\"volume\"},"
	              "\"resources\":{\"requests\":{\"storage\":\"1\"}}}}",
	         201);
	o = world_bound(&w, "v");
	ck_assert_str_eq(json_str(o, "status.state.parameters.a"), "policy");
	ck_assert_str_eq(json_str(o, "status.state.parameters.b"), "volume");
}
END_TEST

START_TEST(an_attachment_gets_a_function)
{
	SEEDED_WITH(w, "--attachment-metadata=test-publish-param=x");
	struct json *o AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t nsid = 0;
	bool flag = false;

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	o = world_attached(&w, "one-v");
	ck_assert_str_eq(json_str(o, "status.dpu.pciAddress"), "0000:26:00.1");
	ck_assert_uint_eq(strlen(json_str(o, "status.dpu.nvmeAttrs.namespaceUUID")), 36);
	ck_assert_int_eq(json_get_i64(o, "status.dpu.nvmeAttrs.namespaceID", &nsid, &err), 0);
	ck_assert_int_gt(nsid, 0);
	ck_assert(json_get_bool(o, "status.controllerAttached", &flag, &err) == 0 && flag);
	ck_assert(json_get_bool(o, "status.dpuAttached", &flag, &err) == 0 && flag);
	ck_assert_str_eq(json_str(o, "status.attachmentMetadata.test-publish-param"), "x");
	ck_assert_ptr_null(json_at(o, "status.message"));
	ck_assert(conditions_true(o, "Ready"));
	ck_assert(object_has_finalizer(o, "storage.dpu.nvidia.com/dpuvolumeattachment"));
}
END_TEST

START_TEST(what_an_attachment_lacks_is_in_its_conditions)
{
	SEEDED(w);

	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume v not found");
	world_fault(&w, "{\"dpf\":\"volume-never-bound\"}");
	world_make_volume(&w, "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume " NS "/v is not ready");
	world_heal(&w);
	json_free(world_attached(&w, "one-v"));
	world_make_attachment(&w, "three-v", "three", "v");
	world_wait_condition(&w, "dpuvolumeattachments/three-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUNode " NS "/three not found");
	world_ok(&w, "POST", DPUNODES,
	         "{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUNode\","
	         "\"metadata\":{\"name\":\"three\"}}",
	         201);
	world_wait_condition(&w, "dpuvolumeattachments/three-v", "DPUVolumeAttachmentReconciled",
	                     "Error", "no DPU found for DPUNode three");
	world_wait_condition(&w, "dpuvolumeattachments/three-v", "Ready", "Pending",
	                     "DPUVolumeAttachmentReconciled");
}
END_TEST

static void make_dpu(struct sim_world *w, const char *name, const char *annotations)
{
	char *body AUTO(free) =
		xasprintf("{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":"
	                  "\"DPU\",\"metadata\":{\"name\":\"%s\",\"annotations\":{%s}},"
	                  "\"spec\":{\"dpuNodeName\":\"one\"}}",
	                  name, annotations);

	world_ok(w, "POST", DPUS, body, 201);
}

START_TEST(of_several_dpus_one_must_be_preferred)
{
	SEEDED(w);

	make_dpu(&w, "second", "");
	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(
		&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled", "Error",
		"multiple DPUs provided but none has storage.nvidia.com/preferred-dpu");
	make_dpu(&w, "third", "\"storage.nvidia.com/preferred-dpu\":\"\"");
	json_free(world_attached(&w, "one-v"));
}
END_TEST

START_TEST(functions_run_out_and_come_back)
{
	SEEDED_WITH(w, "--vfs=1");
	struct json *o AUTO(json_free) = NULL;

	world_make_volume(&w, "a");
	world_make_volume(&w, "b");
	world_make_attachment(&w, "one-a", "one", "a");
	json_free(world_attached(&w, "one-a"));
	world_make_attachment(&w, "one-b", "one", "b");
	world_wait(
		&w, "dpuvolumeattachments/one-b", "status.message",
		"DPUAttach not ready: no free function: all 1 of kind vf on DPUNode one are in use");
	world_make_attachment(&w, "two-b", "two", "b");
	json_free(world_attached(&w, "two-b"));
	world_ok(&w, "DELETE", ATTACHMENTS "/one-a", NULL, 200);
	o = world_attached(&w, "one-b");
	ck_assert_str_eq(json_str(o, "status.dpu.pciAddress"), "0000:26:00.1");
	ck_assert_ptr_null(json_at(o, "status.message"));
}
END_TEST

START_TEST(an_attached_volume_is_not_deleted_before_it_is_detached)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion",
	                     "volume is attached");
	world_wait_condition(&w, "dpuvolumes/v", "Ready", "AwaitingDeletion", "not ready");
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
}
END_TEST

struct expiring {
	struct store *store;
	atomic_bool stop;
};

static void *expire(void *arg)
{
	struct expiring *e = arg;

	while (!atomic_load(&e->stop))
		store_expire(e->store);
	return NULL;
}

static bool is_there(struct sim_world *w, const char *attachment)
{
	struct object_version *v AUTO(version_unref) =
		store_get(w->sim.store, RES(ATTACHMENTS), NS, attachment);

	return v;
}

START_TEST(an_attachment_whose_end_nobody_saw_does_not_keep_its_volume)
{
	SEEDED(w);
	struct expiring e = { .store = w.sim.store };
	pthread_t thread;

	world_make_volume(&w, "v");
	ck_assert_int_eq(pthread_create(&thread, NULL, expire, &e), 0);
	for (int i = 0; i < 50; i++) {
		world_make_attachment(&w, "one-v", "one", "v");
		world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
		while (is_there(&w, "one-v")) /* a watch would expire */
			usleep(1000);
	}
	atomic_store(&e.stop, true);
	pthread_join(thread, NULL);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
}
END_TEST

START_TEST(a_condition_of_an_older_generation_does_not_count)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion", "");
	/* Its condition Bound is still True, but was observed before the deletion. */
	world_make_attachment(&w, "two-v", "two", "v");
	world_wait_condition(&w, "dpuvolumeattachments/two-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume " NS "/v is not ready");
}
END_TEST

/*
 * Each write: two conditions, the message, the fields of the status; a flag is absent until it is
 * true.
 */
START_TEST(an_attachment_is_attached_in_the_steps_of_dpf)
{
	SEEDED(w);
	struct watcher *watcher AUTO(watcher_close) = NULL;
	struct str steps AUTO(str_clear) = STR_INIT(1000);
	struct event e = { 0 };

	world_make_volume(&w, "v");
	json_free(world_bound(&w, "v"));
	ck_assert_int_eq(
		store_watch(w.sim.store, RES(ATTACHMENTS), store_rv(w.sim.store), &watcher), 0);
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	while (watcher_next(watcher, &e) == NEWS_EVENT) {
		struct json *step AUTO(json_free) = version_parse(e.now);
		const char *message = json_str(step, "status.message");

		str_addf(&steps, "%s/%s/%s%s%s%s;", conditions_status(step, "ControllerAttached"),
		         conditions_status(step, "DPUAttached"), message ? message : "",
		         json_at(step, "status.controllerAttached") ? "+c" : "",
		         json_at(step, "status.dpuAttached") ? "+d" : "",
		         json_at(step, "status.dpu") ? "+dpu" : "");
		event_clear(&e);
	}
	ck_assert_str_eq(
		steps.ptr,
		"//;Unknown/Unknown/;Unknown/Unknown/;Unknown/Unknown/;False/Unknown/;"
		"False/Unknown/ControllerAttach not ready: ;True/False/ControllerAttach not ready: ;"
		"True/False/DPUAttach not ready: +c;True/True/DPUAttach not ready: +c;"
		"True/True/+c+d+dpu;");
}
END_TEST

static void collect_messages(struct watcher *watcher, const char *type, struct str *ret)
{
	struct event e = { 0 };

	while (watcher_next(watcher, &e) == NEWS_EVENT) {
		struct json *step AUTO(json_free) = version_parse(e.now);

		json_foreach (c, json_at(step, "status.conditions"))
			if (e.type == EVENT_MODIFIED && str_eq(json_str(c, "type"), type) &&
			    str_eq(json_str(c, "reason"), "AwaitingDeletion") &&
			    !strstr(ret->ptr, json_str(c, "message")))
				str_addf(ret, "%s;", json_str(c, "message"));
		event_clear(&e);
	}
}

START_TEST(deletion_says_what_is_not_removed_yet)
{
	SEEDED(w);
	struct watcher *watcher AUTO(watcher_close) = NULL;
	struct str attachment AUTO(str_clear) = STR_INIT(2000);
	struct watcher *volumes AUTO(watcher_close) = NULL;
	struct str volume AUTO(str_clear) = STR_INIT(2000);
	struct json *o AUTO(json_free) = NULL;
	char *wanted AUTO(free) = NULL;

	world_make_volume(&w, "v");
	o = world_bound(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	ck_assert_int_eq(
		store_watch(w.sim.store, RES(ATTACHMENTS), store_rv(w.sim.store), &watcher), 0);
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	collect_messages(watcher, "DPUVolumeAttachmentReconciled", &attachment);
	ck_assert_str_eq(attachment.ptr,
	                 "DPUCluster " NS "/" DPU_CLUSTER ": VolumeAttachment " NS
	                 "/one-v is marked for removal;DPUCluster " NS "/" DPU_CLUSTER
	                 ": VolumeAttachment " NS "/one-v is not removed yet;");
	ck_assert_int_eq(store_watch(w.sim.store, RES(VOLUMES), store_rv(w.sim.store), &volumes),
	                 0);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
	collect_messages(volumes, "DPUVolumeReconciled", &volume);
	wanted = xasprintf("DPUCluster " NS "/" DPU_CLUSTER ": Volume " NS
	                   "/v is marked for removal;DPUCluster " NS "/" DPU_CLUSTER
	                   ": PersistentVolumeClaim " NS
	                   "/v-pvc is marked for removal;DPUCluster " NS "/" DPU_CLUSTER
	                   ": PersistentVolumeClaim " NS "/v-pvc is not removed yet;DPUCluster " NS
	                   "/" DPU_CLUSTER ": PersistentVolume /%s is not removed yet;",
	                   json_str(o, "status.state.volumeInfo.volumeName"));
	ck_assert_str_eq(volume.ptr, wanted);
}
END_TEST

START_TEST(a_node_without_a_usable_dpu_detaches_nothing)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_make_attachment(&w, "two-v", "two", "v");
	json_free(world_attached(&w, "two-v"));
	make_dpu(&w, "second", "");
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Error", "multiple DPUs provided");
	world_ok(&w, "DELETE", DPUS "/second", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_ok(&w, "DELETE", DPUS "/two-0000-26-00", NULL, 200);
	world_ok(&w, "DELETE", ATTACHMENTS "/two-v", NULL, 200);
	world_wait_condition(&w, "dpuvolumeattachments/two-v", "DPUVolumeAttachmentReconciled",
	                     "Error", "no DPU found for DPUNode two");
	world_ok(&w, "DELETE", DPUNODES "/two", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/two-v", NULL, NULL);
}
END_TEST

START_TEST(what_was_never_attached_waits_for_a_dpu_as_well)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	world_ok(&w, "DELETE", DPUS "/one-0000-26-00", NULL, 200);
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Error", "no DPU found for DPUNode one");
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion",
	                     "volume is attached");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Error", "no DPU found for DPUNode one");
	make_dpu(&w, "new", "");
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
}
END_TEST

START_TEST(an_older_dpf_says_false_where_the_newer_one_says_nothing)
{
	SEEDED_WITH(w, "--dpf=25.7");
	struct json *o AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t nsid = 0;

	make_volume(&w, "waits", "none");
	world_wait_condition(&w, "dpuvolumes/waits", "Scheduled", "Pending",
	                     "volume is not scheduled yet");
	world_make_volume(&w, "u");
	json_free(world_bound(&w, "u"));
	world_make_volume(&w, "v");
	world_fault(&w, "{\"dpf\":\"attachment-never-ready\",\"text\":\"no path\"}");
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUAttached", "Pending",
	                     "volume is not attached to dpu, reason: no path");
	o = world_until(&w, "dpuvolumeattachments/one-v", "status.message", "no path");
	ck_assert_ptr_nonnull(json_at(o, "status.dpuAttached"));
	world_heal(&w);
	json_free(o);
	o = world_attached(&w, "one-v");
	ck_assert_int_eq(json_get_i64(o, "status.dpu.nvmeAttrs.namespaceID", &nsid, &err), 0);
	ck_assert_int_eq(nsid, 2);
}
END_TEST

START_TEST(a_true_of_an_older_generation_counts_for_ready_but_another_does_not_say_why)
{
	static const char *const types[] = { "A", "B", NULL };
	struct json *o AUTO(json_free) = json_object();

	json_set_int(json_sub(o, "metadata"), "generation", 1);
	conditions_ensure(o, types);
	conditions_set(o, "A", "True", REASON_SUCCESS, "");
	conditions_set(o, "B", "False", REASON_PENDING, "");
	json_set_int(json_sub(o, "metadata"), "generation", 2);
	conditions_summarize(o, types);
	ck_assert_str_eq(json_str(o, "status.conditions.0.message"),
	                 "Reconciliation is in progress");
	conditions_set(o, "B", "True", REASON_SUCCESS, "");
	conditions_summarize(o, types);
	ck_assert(conditions_true(o, "Ready") && !conditions_true(o, "A"));
	conditions_set(o, "B", "False", REASON_ERROR, "");
	conditions_summarize(o, types);
	ck_assert_str_eq(json_str(o, "status.conditions.0.reason"), REASON_PENDING);
	ck_assert_str_eq(json_str(o, "status.conditions.0.message"),
	                 "The following conditions are not ready:\n* B");
}
END_TEST

START_TEST(each_attachment_has_a_uuid_of_its_own_and_nsid_1)
{
	SEEDED(w);
	struct json *one AUTO(json_free) = NULL, *two AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t nsid = 0;

	world_make_volume(&w, "u");
	world_make_attachment(&w, "one-u", "one", "u");
	json_free(world_attached(&w, "one-u"));
	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	one = world_attached(&w, "one-v");
	world_make_attachment(&w, "two-v", "two", "v");
	two = world_attached(&w, "two-v");
	ck_assert_str_ne(json_str(one, "status.dpu.nvmeAttrs.namespaceUUID"),
	                 json_str(two, "status.dpu.nvmeAttrs.namespaceUUID"));
	ck_assert_int_eq(json_get_i64(one, "status.dpu.nvmeAttrs.namespaceID", &nsid, &err), 0);
	ck_assert_int_eq(nsid, 1);
}
END_TEST

/* The writes after the burst wait for their turn. */
START_TEST(dpf_writes_no_faster_than_its_rate)
{
	SEEDED_WITH(w, "--dpf-rate=40");
	int64_t start;

	for (int i = 0; i < 12; i++) {
		char *name AUTO(free) = xasprintf("v%d", i);

		world_make_volume(&w, name);
	}
	start = monotonic_ns();
	for (int i = 0; i < 12; i++) {
		char *name AUTO(free) = xasprintf("v%d", i);

		json_free(world_bound(&w, name));
	}
	/* Seven writes each, of which at most 60 are the burst. */
	ck_assert_int_ge(monotonic_ns() - start, (int64_t)(12 * 7 - 60 - 10) * 1000000000 / 40);
}
END_TEST

START_TEST(delays_delay)
{
	SEEDED_WITH(w, "--bind-delay-ms=60", "--attach-delay-ms=60", "--detach-delay-ms=60",
	            "--delete-delay-ms=60");
	int64_t start = monotonic_ns(), now;

	world_make_volume(&w, "v");
	json_free(world_bound(&w, "v"));
	now = monotonic_ns();
	ck_assert_int_ge(now - start, 60000000);
	start = now;
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	now = monotonic_ns();
	ck_assert_int_ge(now - start, 60000000);
	start = now;
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
	ck_assert_int_ge(monotonic_ns() - start, 120000000);
}
END_TEST

START_TEST(every_kind_of_function_has_its_place)
{
	static const struct {
		const char *name, *function;
		bool hotplug;
		const char *pci;
	} rows[] = {
		{ "a", "vf", false, "0000:26:00.1" }, { "b", "vf", false, "0000:26:00.2" },
		{ "c", "pf", false, "0000:26:00.0" }, { "d", "pf", true, "0000:30:00.0" },
		{ "e", "pf", true, "0000:31:00.0" },
	};
	SEEDED_WITH(w, "--hotplug-slots=2");

	world_make_volume(&w, "v");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *body AUTO(free) = attachment_json_text(rows[i].name, "one", "v",
		                                             rows[i].function, rows[i].hotplug);
		struct json *o AUTO(json_free) = NULL;

		world_ok(&w, "POST", ATTACHMENTS, body, 201);
		o = world_attached(&w, rows[i].name);
		ck_assert_str_eq(json_str(o, "status.dpu.pciAddress"), rows[i].pci);
	}
}
END_TEST

START_TEST(a_filesystem_volume_has_a_tag_instead_of_a_namespace)
{
	SEEDED(w);
	struct json *o AUTO(json_free) = NULL;

	world_ok(&w, "POST", VOLUMES,
	         META "\"DPUVolume\",\"metadata\":{\"name\":\"v\"},\"spec\":{"
	              "\"dpuStoragePolicyName\":\"example-policy\","
	              "\"accessModes\":[\"ReadWriteMany\"],\"volumeMode\":\"Filesystem\","
	              "\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}",
	         201);
	world_make_attachment(&w, "one-v", "one", "v");
	o = world_attached(&w, "one-v");
	ck_assert_ptr_null(json_at(o, "status.dpu.nvmeAttrs"));
	ck_assert_ptr_nonnull(strstr(json_str(o, "status.dpu.virtioFSAttrs.filesystemTag"), "tag"));
}
END_TEST

START_TEST(storage_grows_when_told)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	json_free(world_bound(&w, "v"));
	world_ok(&w, "POST", "/sim/resize", "{\"volume\":\"v\",\"bytes\":134217728}", 200);
	world_wait(&w, "dpuvolumes/v", "status.state.volumeInfo.capacity.storage", "134217728");
	world_ok(&w, "POST", "/sim/resize", "{\"volume\":\"v\",\"bytes\":1}", 400);
	world_ok(&w, "POST", "/sim/resize", "{\"volume\":\"x\",\"bytes\":1}", 404);
	world_ok(&w, "POST", "/sim/resize", "{\"volume\":\"v\"}", 400);
}
END_TEST

START_TEST(storage_grows_when_the_crd_lets_a_volume_ask_for_more)
{
	SEEDED_WITH(w, "--growing-volumes", "--bind-delay-ms=50");
	static const char more[] =
		"{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"128Mi\"}}}}";
	static const char less[] =
		"{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"64Mi\"}}}}";

	world_make_volume(&w, "v");
	json_free(world_bound(&w, "v"));
	world_ok(&w, "PATCH", VOLUMES "/v", more, 200);
	world_wait(&w, "dpuvolumes/v", "status.state.volumeInfo.capacity.storage", "134217728");
	world_ok(&w, "PATCH", VOLUMES "/v", less, 422);
}
END_TEST

START_TEST(the_published_schema_says_whether_volumes_can_grow)
{
	static const char *const worlds[] = { "--seed", "--growing-volumes" };
	static const char *const rules[] = { "self.resources == oldSelf.resources", "compareTo(" };

	for (size_t i = 0; i < ARRAY_LEN(worlds); i++) {
		SEEDED_WITH(w, worlds[i]);
		struct api_answer a AUTO(answer_clear) = world_call(
			&w, "GET", "/openapi/v3/apis/storage.dpu.nvidia.com/v1alpha1", NULL);
		const struct json *schema =
			json_member(json_at(a.json, "components.schemas"),
		                    "com.nvidia.dpu.storage.v1alpha1.DPUVolume");
		char *text AUTO(free) = json_print(schema);

		ck_assert_uint_eq(a.code, 200);
		ck_assert_msg(strstr(text, rules[i]), "%s: %s", worlds[i], text);
		ck_assert_msg(!strstr(text, rules[1 - i]), "%s: %s", worlds[i], text);
		world_ok(&w, "GET", "/openapi/v3/apis/apps/v1", NULL, 404);
	}
}
END_TEST

START_TEST(finalizers_taken_by_force_free_what_they_held)
{
	SEEDED_WITH(w, "--vfs=1");

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_fault(&w, "{\"dpf\":\"attachment-finalizer-stuck\"}");
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_ok(&w, "PATCH", ATTACHMENTS "/one-v", "{\"metadata\":{\"finalizers\":null}}", 200);
	world_heal(&w);
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
}
END_TEST

START_TEST(a_volume_taken_by_force_loses_its_storage_and_can_be_detached)
{
	SEEDED(w);
	struct api_answer state AUTO(answer_clear) = { 0 };

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion", "");
	world_ok(&w, "PATCH", VOLUMES "/v", "{\"metadata\":{\"finalizers\":null}}", 200);
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume v not found");
	state = world_call(&w, "GET", "/sim/state", NULL);
	ck_assert_uint_eq(json_count(json_at(state.json, "volumes")), 0);
	ck_assert_uint_eq(json_count(json_at(state.json, "attachments")), 1);
	answer_clear(&state);
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	state = world_call(&w, "GET", "/sim/state", NULL);
	ck_assert_uint_eq(json_count(json_at(state.json, "attachments")), 0);
}
END_TEST

#define MANY 40

static void *many_volumes(void *arg)
{
	struct sim_world *w = ((void **)arg)[0];
	const char *prefix = ((void **)arg)[1];

	for (int i = 0; i < MANY; i++) {
		char *name AUTO(free) = xasprintf("%s%d", prefix, i);
		char *path AUTO(free) = NULL;
		char *object AUTO(free) = NULL;

		world_make_volume(w, name);
		json_free(world_bound(w, name));
		path = xasprintf(VOLUMES "/%s", name);
		object = xasprintf("dpuvolumes/%s", name);
		world_ok(w, "DELETE", path, NULL, 200);
		world_wait(w, object, NULL, NULL);
	}
	return NULL;
}

START_TEST(many_volumes_at_once_all_live_and_die)
{
	SEEDED(w);
	struct api_answer a AUTO(answer_clear) = { 0 };
	void *args[2][2] = { { &w, (void *)"x" }, { &w, (void *)"y" } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, many_volumes, args[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	a = world_call(&w, "GET", "/sim/state", NULL);
	ck_assert_str_eq(a.text, "{\"volumes\":[],\"attachments\":[]}");
}
END_TEST

SUITE("sim dpf", a_volume_is_bound_in_the_steps_of_dpf,
      a_volume_waits_for_its_policy_and_the_policy_for_its_vendors,
      the_vendor_with_the_fewest_volumes_is_taken, random_selection_uses_every_vendor_in_the_end,
      the_volumes_parameters_win_over_the_policys, an_attachment_gets_a_function,
      what_an_attachment_lacks_is_in_its_conditions, of_several_dpus_one_must_be_preferred,
      functions_run_out_and_come_back, an_attached_volume_is_not_deleted_before_it_is_detached,
      an_attachment_whose_end_nobody_saw_does_not_keep_its_volume,
      a_condition_of_an_older_generation_does_not_count, delays_delay,
      every_kind_of_function_has_its_place, a_filesystem_volume_has_a_tag_instead_of_a_namespace,
      storage_grows_when_told, storage_grows_when_the_crd_lets_a_volume_ask_for_more,
      the_published_schema_says_whether_volumes_can_grow,
      an_attachment_is_attached_in_the_steps_of_dpf, deletion_says_what_is_not_removed_yet,
      a_node_without_a_usable_dpu_detaches_nothing, what_was_never_attached_waits_for_a_dpu_as_well,
      an_older_dpf_says_false_where_the_newer_one_says_nothing,
      each_attachment_has_a_uuid_of_its_own_and_nsid_1,
      a_true_of_an_older_generation_counts_for_ready_but_another_does_not_say_why,
      dpf_writes_no_faster_than_its_rate, finalizers_taken_by_force_free_what_they_held,
      a_volume_taken_by_force_loses_its_storage_and_can_be_detached,
      many_volumes_at_once_all_live_and_die);
