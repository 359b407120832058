/* SPDX-License-Identifier: Apache-2.0 */
/* DPF's faults, and its recovery after them. */
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/kinds/object.h"
#include "test/sim/test/harness.h"

START_TEST(volumes_fail_as_told_and_heal)
{
	static const struct {
		const char *dpf, *fault, *condition, *reason, *message;
	} rows[] = {
		{ "26", "{\"dpf\":\"volume-never-bound\"}", "DPUVolumeReconciled", "Success", "" },
		{ "26", "{\"dpf\":\"volume-failure\"}", "Ready", "Pending", "Bound" },
		{ "26", "{\"dpf\":\"volume-error\"}", "DPUVolumeReconciled", "Error", "quota" },
		{ "26", "{\"dpf\":\"volume-error\",\"text\":\"x\"}", "Ready", "Pending", "Bound" },
		{ "25.7", "{\"dpf\":\"volume-never-bound\"}", "Bound", "Pending", "not bound yet" },
		{ "25.7", "{\"dpf\":\"volume-failure\"}", "Bound", "Pending", "not bound yet" },
		{ "26", "{\"dpf\":\"volume-failure\",\"value\":\"Failure\"}", "Bound", "Failure",
		  "vendor full" },
		{ "26", "{\"dpf\":\"volume-failure\",\"value\":\"Failure\"}", "Ready", "Failure",
		  "Bound" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *dpf AUTO(free) = xasprintf("--dpf=%s", rows[i].dpf);
		SEEDED_WITH(w, dpf);

		world_fault(&w, rows[i].fault);
		world_make_volume(&w, "v");
		world_wait_condition(&w, "dpuvolumes/v", rows[i].condition, rows[i].reason,
		                     rows[i].message);
		world_heal(&w);
		json_free(world_bound(&w, "v"));
	}
}
END_TEST

/* The Events about the volume with this uid, of this type; the last one's message. */
static size_t count_events(struct sim_world *w, const char *uid, const char *type, char **message)
{
	char *path AUTO(free) = xasprintf("/api/v1/namespaces/" NS
	                                  "/events?fieldSelector=involvedObject.uid=%s,type=%s",
	                                  uid, type);
	struct api_answer a AUTO(answer_clear) = world_call(w, "GET", path, NULL);
	size_t n = 0;

	ck_assert_uint_eq(a.code, 200);
	json_foreach (item, json_at(a.json, "items")) {
		free(*message);
		*message = xstrdup(json_str(item, "message"));
		n++;
	}
	return n;
}

START_TEST(what_a_vendor_refuses_is_said_by_events_alone)
{
	SEEDED(w);
	struct json *full AUTO(json_free) = NULL, *fine AUTO(json_free) = NULL;
	char *message AUTO(free) = NULL;

	world_fault(&w, "{\"dpf\":\"volume-failure\",\"name\":\"full\"}");
	world_make_volume(&w, "full");
	world_make_volume(&w, "fine");
	full = world_until(&w, "dpuvolumes/full", "metadata.name", "full");
	fine = world_bound(&w, "fine");
	while (!count_events(&w, object_uid(full), "Warning", &message))
		usleep(1000); /* it appears without a change of the volume */
	ck_assert_str_eq(
		message,
		"Event from PVC " NS "/full-pvc in cluster " NS "/" DPU_CLUSTER
		": failed to provision volume with StorageClass \"example-storage-class\": rpc error: code = ResourceExhausted desc = no space left on lvstore");
	ck_assert_uint_eq(count_events(&w, object_uid(full), "Normal", &message), 1);
	world_wait_condition(&w, "dpuvolumes/full", "Bound", "Pending", "");
	json_free(full);
	full = world_until(&w, "dpuvolumes/full", "status.phase", "Pending");
	ck_assert_str_eq(conditions_status(full, "Bound"), "Unknown");
	ck_assert_uint_eq(count_events(&w, object_uid(fine), "Warning", &message), 0);
	world_heal(&w);
	json_free(world_bound(&w, "full"));
	ck_assert_uint_eq(count_events(&w, object_uid(full), "Warning", &message), 1);
	world_ok(&w, "GET", "/api/v1/namespaces/" NS "/events?fieldSelector=message=x", NULL, 400);
}
END_TEST

START_TEST(an_attachment_of_a_dpu_that_is_not_ready_stays_attached)
{
	SEEDED(w);
	struct json *o AUTO(json_free) = NULL;

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_fault(&w, "{\"dpf\":\"dpu-not-ready\",\"name\":\"^one$\"}");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "DPU one-0000-26-00 is not ready");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "Ready", "Pending",
	                     "DPUVolumeAttachmentReconciled");
	o = world_attached(&w, "one-v");
	ck_assert_ptr_nonnull(json_at(o, "status.dpu.pciAddress"));
	world_make_attachment(&w, "two-v", "two", "v");
	json_free(world_attached(&w, "two-v"));
	world_heal(&w);
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "Ready", "Success", "");
}
END_TEST

/* Creates and deletes stop silently, including those of the other cluster; attaches continue. */
START_TEST(an_unreachable_cluster_silences_creates_and_deletes)
{
	SEEDED(w);
	struct json *o AUTO(json_free) = NULL;

	world_make_volume(&w, "old");
	world_make_attachment(&w, "one-old", "one", "old");
	json_free(world_attached(&w, "one-old"));
	world_ok(&w, "POST",
	         "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/" NS "/dpuclusters",
	         "{\"apiVersion\":\"provisioning.dpu.nvidia.com/v1alpha1\",\"kind\":\"DPUCluster\","
	         "\"metadata\":{\"name\":\"far\"}}",
	         201);
	world_fault(&w, "{\"dpf\":\"cluster-unreachable\",\"name\":\"^far$\"}");
	world_make_volume(&w, "new");
	world_wait_condition(&w, "dpuvolumes/new", "Scheduled", "Success", "");
	world_make_attachment(&w, "two-old", "two", "old");
	json_free(world_attached(&w, "two-old"));
	world_ok(&w, "DELETE", ATTACHMENTS "/one-old", NULL, 200);
	o = world_until(&w, "dpuvolumeattachments/one-old", "metadata.name", "one-old");
	while (!conditions_true(o, "Ready")) { /* Ready is True for the deletion's generation */
		json_free(o);
		usleep(1000);
		o = world_until(&w, "dpuvolumeattachments/one-old", "metadata.name", "one-old");
	}
	ck_assert(object_is_deleting(o));
	json_free(o);
	o = world_until(&w, "dpuvolumes/new", "status.phase", "Pending");
	ck_assert_str_eq(conditions_status(o, "DPUVolumeReconciled"), "Unknown");
	world_heal(&w);
	world_wait(&w, "dpuvolumeattachments/one-old", NULL, NULL);
	json_free(world_bound(&w, "new"));
}
END_TEST

START_TEST(an_attachment_that_moves_is_attached_before_it_says_where)
{
	SEEDED(w);
	struct watcher *watcher AUTO(watcher_close) = NULL;
	struct json *o AUTO(json_free) = NULL;
	struct event e = { 0 };
	bool stale = false;

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_fault(&w, "{\"dpf\":\"attachment-moves\",\"name\":\"^v$\"}");
	world_wait(&w, "dpuvolumeattachments/one-v", "status.message", "DPUAttach not ready: ");
	ck_assert_int_eq(
		store_watch(w.sim.store, RES(ATTACHMENTS), store_rv(w.sim.store), &watcher), 0);
	world_heal(&w);
	o = world_attached(&w, "one-v");
	ck_assert_str_eq(json_str(o, "status.dpu.pciAddress"), "0000:26:00.2");
	while (watcher_next(watcher, &e) == NEWS_EVENT) {
		struct json *step AUTO(json_free) = version_parse(e.now);

		stale |= conditions_true(step, "DPUAttached") && conditions_true(step, "Ready") &&
		         str_eq(json_str(step, "status.dpu.pciAddress"), "0000:26:00.1");
		event_clear(&e);
	}
	ck_assert(stale);
}
END_TEST

static int64_t count_errors(struct sim_world *w)
{
	struct api_answer a AUTO(answer_clear) = world_call(w, "GET", "/sim/faults", NULL);
	struct err err = ERR_INIT;
	int64_t n = 0;

	ck_assert_int_eq(json_get_i64(a.json, "0.applications", &n, &err), 0);
	return n;
}

/* DPF does not notice the end of a fault. */
START_TEST(an_error_is_tried_again_after_a_pause_or_when_something_changes)
{
	SEEDED_WITH(w, "--dpf-back-off-ms=1000000000");
	struct json *o AUTO(json_free) = NULL;

	world_fault(&w, "{\"dpf\":\"volume-error\",\"name\":\"^v$\"}");
	world_make_volume(&w, "v");
	while (count_errors(&w) < 10) /* 5, 10, ... 2560 ms: this pause outlasts the test */
		usleep(1000);
	world_heal(&w);
	world_make_volume(&w, "other");
	json_free(world_bound(&w, "other"));
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "Error", "");
	world_ok(&w, "PATCH", VOLUMES "/v", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200);
	o = world_bound(&w, "v");
}
END_TEST

START_TEST(the_capacity_may_be_another)
{
	SEEDED(w);
	struct json *o AUTO(json_free) = NULL;

	world_fault(&w, "{\"dpf\":\"volume-capacity\",\"value\":\"3Gi\",\"name\":\"^v$\"}");
	world_make_volume(&w, "v");
	o = world_bound(&w, "v");
	ck_assert_str_eq(json_str(o, "status.state.volumeInfo.capacity.storage"), "3221225472");
}
END_TEST

START_TEST(deletion_may_be_stuck)
{
	SEEDED(w);

	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	json_free(world_attached(&w, "one-v"));
	world_fault(
		&w,
		"[{\"dpf\":\"volume-finalizer-stuck\"},{\"dpf\":\"attachment-finalizer-stuck\"}]");
	world_ok(&w, "DELETE", ATTACHMENTS "/one-v", NULL, 200);
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "AwaitingDeletion", "/one-v is not removed yet");
	world_ok(&w, "DELETE", "/sim/faults?id=2", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion",
	                     "PersistentVolumeClaim " NS "/v-pvc is not removed yet");
	world_heal(&w);
	world_wait(&w, "dpuvolumes/v", NULL, NULL);
}
END_TEST

START_TEST(attachments_fail_as_told_and_heal)
{
	static const struct {
		const char *fault, *reason, *message;
	} rows[] = {
		{ "{\"dpf\":\"attachment-never-ready\",\"name\":\"^v$\"}", "Pending",
		  "DPUAttach not ready: " },
		{ "{\"dpf\":\"attachment-never-ready\",\"text\":\"no path\"}", "Pending",
		  "DPUAttach not ready: no path" },
		{ "{\"dpf\":\"attachment-failure\",\"text\":\"broken\"}", "Pending", "broken" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		SEEDED(w);

		world_fault(&w, rows[i].fault);
		world_make_volume(&w, "v");
		world_make_attachment(&w, "one-v", "one", "v");
		world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUAttached",
		                     rows[i].reason, rows[i].message);
		world_heal(&w);
		json_free(world_attached(&w, "one-v"));
	}
}
END_TEST

START_TEST(parts_of_the_status_may_be_missing)
{
	static const struct {
		const char *fault, *absent, *present;
	} rows[] = {
		{ "{\"dpf\":\"missing\",\"value\":\"dpu\"}", "status.dpu", "status.dpuAttached" },
		{ "{\"dpf\":\"missing\",\"value\":\"dpu.pciAddress\"}", "status.dpu.pciAddress",
		  "status.dpu.nvmeAttrs" },
		{ "{\"dpf\":\"missing\",\"value\":\"dpu.nvmeAttrs\"}", "status.dpu.nvmeAttrs",
		  "status.dpu.pciAddress" },
		{ "{\"dpf\":\"missing\",\"value\":\"dpu.nvmeAttrs.namespaceID\"}",
		  "status.dpu.nvmeAttrs.namespaceID", "status.dpu.nvmeAttrs.namespaceUUID" },
		{ "[{\"dpf\":\"missing\",\"value\":\"dpu.funcVUID\"},"
		  "{\"dpf\":\"missing\",\"value\":\"dpu.nvmeAttrs.namespaceUUID\"}]",
		  "status.dpu.nvmeAttrs.namespaceUUID", "status.dpu.nvmeAttrs.namespaceID" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		SEEDED(w);
		struct json *o AUTO(json_free) = NULL;

		world_fault(&w, rows[i].fault);
		world_make_volume(&w, "v");
		world_make_attachment(&w, "one-v", "one", "v");
		o = world_attached(&w, "one-v");
		ck_assert_msg(!json_at(o, rows[i].absent), "%s", rows[i].fault);
		ck_assert_msg(json_at(o, rows[i].present) != NULL, "%s", rows[i].fault);
		world_heal(&w);
		world_wait(&w, "dpuvolumeattachments/one-v", "status.dpu.pciAddress",
		           "0000:26:00.1");
	}
}
END_TEST

START_TEST(the_status_may_be_late_or_wrong)
{
	SEEDED_WITH(w, "--short-pci-address");
	struct json *first AUTO(json_free) = NULL;
	struct json *o AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t nsid = 0;
	struct api_answer state AUTO(answer_clear) = { 0 };

	world_fault(&w, "[{\"dpf\":\"pci-zero-first\",\"ms\":50},"
	                "{\"dpf\":\"late\",\"value\":\"dpu.funcVUID\",\"ms\":80},"
	                "{\"dpf\":\"wrong-uuid\"},{\"dpf\":\"wrong-nsid\"}]");
	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	first = world_until(&w, "dpuvolumeattachments/one-v", "status.dpu.pciAddress", "00:00.0");
	ck_assert_ptr_null(json_at(first, "status.dpu.funcVUID"));
	o = world_until(&w, "dpuvolumeattachments/one-v", "status.dpu.pciAddress", "26:00.1");
	ck_assert_int_eq(json_get_i64(o, "status.dpu.nvmeAttrs.namespaceID", &nsid, &err), 0);
	ck_assert_int_eq(nsid, 1001);
	ck_assert_ptr_nonnull(strstr(json_str(o, "status.dpu.nvmeAttrs.namespaceUUID"), "dead"));
	state = world_call(&w, "GET", "/sim/state", NULL);
	world_wait(&w, "dpuvolumeattachments/one-v", "status.dpu.funcVUID",
	           json_str(state.json, "attachments.0.funcVUID"));
}
END_TEST

START_TEST(ready_may_be_false_or_missing_while_the_dpu_is_attached)
{
	SEEDED(w);
	struct json *o AUTO(json_free) = NULL;

	world_fault(&w, "{\"dpf\":\"attachment-unready\",\"text\":\"it restarts\"}");
	world_make_volume(&w, "v");
	world_make_attachment(&w, "one-v", "one", "v");
	o = world_attached(&w, "one-v");
	ck_assert(json_at(o, "status.dpu.pciAddress"));
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "DPUVolumeAttachmentReconciled",
	                     "Pending", "it restarts");
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "Ready", "Pending",
	                     "DPUVolumeAttachmentReconciled");
	world_heal(&w);
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "Ready", "Success", "");
	world_fault(&w, "{\"dpf\":\"attachment-without-ready\"}");
	json_free(o);
	o = world_until(&w, "dpuvolumeattachments/one-v", "status.conditions.0.type",
	                "DPUVolumeAttachmentReconciled");
	ck_assert_int_eq(json_count(json_at(o, "status.conditions")), 3);
}
END_TEST

SUITE("sim dpf faults", ready_may_be_false_or_missing_while_the_dpu_is_attached,
      what_a_vendor_refuses_is_said_by_events_alone,
      an_attachment_of_a_dpu_that_is_not_ready_stays_attached,
      an_unreachable_cluster_silences_creates_and_deletes,
      an_attachment_that_moves_is_attached_before_it_says_where,
      an_error_is_tried_again_after_a_pause_or_when_something_changes,
      volumes_fail_as_told_and_heal, the_capacity_may_be_another, deletion_may_be_stuck,
      attachments_fail_as_told_and_heal, parts_of_the_status_may_be_missing,
      the_status_may_be_late_or_wrong);
