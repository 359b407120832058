/* SPDX-License-Identifier: Apache-2.0 */
/* What DPF does with volumes and attachments. */
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
	ck_assert_str_eq(steps.ptr, "0-00 1-00 1Pending00 1Pending00 1Pending10 1Bound11 ");
	ck_assert_str_eq(json_str(o, "status.state.selectedDPUStorageVendorName"),
	                 "example-vendor");
	ck_assert_str_eq(json_str(o, "status.state.volumeInfo.capacity.storage"), "100000000");
	ck_assert_str_eq(json_str(o, "status.state.persistentVolumeClaimRef.name"), "v-pvc");
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
	make_vendor(&w, "acme");
	o = world_bound(&w, "v");
	ck_assert_str_eq(json_str(o, "status.state.storageClassName"), "class-acme");
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

START_TEST(what_an_attachment_lacks_is_its_message)
{
	SEEDED(w);

	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume " NS "/v not found");
	world_fault(&w, "{\"dpf\":\"volume-never-bound\"}");
	world_make_volume(&w, "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPUVolume " NS "/v is not ready");
	world_heal(&w);
	json_free(world_attached(&w, "one-v"));
	world_make_attachment(&w, "three-v", "three", "v");
	world_wait(&w, "dpuvolumeattachments/three-v", "status.message",
	           "DPUNode " NS "/three not found");
	world_ok(&w, "POST",
	         "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/" NS "/dpunodes",
	         "{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUNode\","
	         "\"metadata\":{\"name\":\"three\"}}",
	         201);
	world_wait(&w, "dpuvolumeattachments/three-v", "status.message",
	           "no DPU found for DPUNode " NS "/three");
}
END_TEST

static void make_dpu(struct sim_world *w, const char *name, const char *annotations)
{
	char *body AUTO(free) =
		xasprintf("{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":"
	                  "\"DPU\",\"metadata\":{\"name\":\"%s\",\"annotations\":{%s}},"
	                  "\"spec\":{\"dpuNodeName\":\"one\"}}",
	                  name, annotations);

	world_ok(w, "POST", "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/" NS "/dpus",
	         body, 201);
}

START_TEST(of_several_dpus_one_must_be_preferred)
{
	SEEDED(w);

	make_dpu(&w, "second", "");
	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "has 2 DPUs and 0 of them have the annotation");
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
	static const char *const rules[] = { "self == oldSelf", "compareTo(" };

	for (size_t i = 0; i < ARRAY_LEN(worlds); i++) {
		SEEDED_WITH(w, worlds[i]);
		struct api_answer a AUTO(answer_clear) = world_call(
			&w, "GET", "/openapi/v3/apis/storage.dpu.nvidia.com/v1alpha1", NULL);
		const struct json *schema =
			json_member(json_at(a.json, "components.schemas"),
		                    "com.nvidia.dpu.storage.v1alpha1.DPUVolume");
		const struct json *field = json_at(schema, "properties.spec.properties.resources");
		const char *rule =
			json_str(json_member(field, "x-kubernetes-validations"), "1.rule");

		ck_assert_uint_eq(a.code, 200);
		ck_assert_msg(rule && strstr(rule, rules[i]), "%s: %s", worlds[i], rule);
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

START_TEST(a_volume_taken_by_force_can_still_be_detached)
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
	                     "Pending", "DPUVolume " NS "/v not found");
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
      what_an_attachment_lacks_is_its_message, of_several_dpus_one_must_be_preferred,
      functions_run_out_and_come_back, an_attached_volume_is_not_deleted_before_it_is_detached,
      an_attachment_whose_end_nobody_saw_does_not_keep_its_volume,
      a_condition_of_an_older_generation_does_not_count, delays_delay,
      every_kind_of_function_has_its_place, a_filesystem_volume_has_a_tag_instead_of_a_namespace,
      storage_grows_when_told, storage_grows_when_the_crd_lets_a_volume_ask_for_more,
      the_published_schema_says_whether_volumes_can_grow,
      finalizers_taken_by_force_free_what_they_held, a_volume_taken_by_force_can_still_be_detached,
      many_volumes_at_once_all_live_and_die);
