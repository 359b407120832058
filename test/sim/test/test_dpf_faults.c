/* SPDX-License-Identifier: Apache-2.0 */
/* How DPF fails when it is told to, and that it heals. */
#include <string.h>

#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/test/harness.h"

START_TEST(volumes_fail_as_told_and_heal)
{
	static const struct {
		const char *fault, *condition, *reason, *message;
	} rows[] = {
		{ "{\"dpf\":\"volume-never-bound\"}", "Bound", "Pending", "not bound yet" },
		{ "{\"dpf\":\"volume-failure\"}", "Bound", "Failure", "vendor full" },
		{ "{\"dpf\":\"volume-failure\",\"text\":\"quota\"}", "Ready", "Failure", "Bound" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		SEEDED(w);

		world_fault(&w, rows[i].fault);
		world_make_volume(&w, "v");
		world_wait_condition(&w, "dpuvolumes/v", rows[i].condition, rows[i].reason,
		                     rows[i].message);
		world_heal(&w);
		json_free(world_bound(&w, "v"));
	}
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
	                     "AwaitingDeletion", "waiting for the DPU");
	world_ok(&w, "DELETE", "/sim/faults?id=2", NULL, 200);
	world_wait(&w, "dpuvolumeattachments/one-v", NULL, NULL);
	world_ok(&w, "DELETE", VOLUMES "/v", NULL, 200);
	world_wait_condition(&w, "dpuvolumes/v", "DPUVolumeReconciled", "AwaitingDeletion",
	                     "persistent volume");
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
		  "DPUAttach not ready: waiting" },
		{ "{\"dpf\":\"attachment-never-ready\",\"text\":\"no path\"}", "Pending",
		  "DPUAttach not ready: no path" },
		{ "{\"dpf\":\"attachment-failure\",\"text\":\"broken\"}", "Failure", "broken" },
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
	world_wait_condition(&w, "dpuvolumeattachments/one-v", "Ready", "Pending", "it restarts");
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
      volumes_fail_as_told_and_heal, the_capacity_may_be_another, deletion_may_be_stuck,
      attachments_fail_as_told_and_heal, parts_of_the_status_may_be_missing,
      the_status_may_be_late_or_wrong);
