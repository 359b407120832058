/* SPDX-License-Identifier: Apache-2.0 */
/* When a volume or an attachment is ready, state by state. */
#include "test/lib/suite.h"

#include <string.h>

#include "controller/readiness.h"
#include "kube_memory.h"

#define BOUND "\"phase\":\"Bound\",\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}"
#define READY(word) "\"conditions\":[{\"type\":\"Ready\",\"status\":\"" word "\"}]"
#define DPU \
	"\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:3b:00.4\",\"nvmeAttrs\":{\"namespaceID\":1}}"
#define DELETING "\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},"

/* says: a part of `why`, or of the error. */
static const struct {
	const char *what, *json;
	int rc;
	const char *says;
} volumes[] = {
	{ "bound with a capacity", "{\"status\":{" BOUND "}}", 0, "" },
	{ "ready", "{\"status\":{" BOUND "," READY("True") "}}", 0, "" },
	{ "not ready", "{\"status\":{" BOUND "," READY("False") "}}", AWAIT_NOT_YET, "not ready" },
	{ "no capacity", "{\"status\":{\"phase\":\"Bound\"}}", AWAIT_NOT_YET, "capacity is 0" },
	{ "pending", "{\"status\":{\"phase\":\"Pending\"}}", AWAIT_NOT_YET, "phase Pending" },
	{ "new", "{}", AWAIT_NOT_YET, "phase not set" },
	{ "being deleted", "{" DELETING "\"status\":{" BOUND "}}", -1, "is being deleted" },
	{ "of another shape", "{\"status\":{\"phase\":7}}", -1, "status.phase" },
}, attachments[] = {
	{ "attached", "{\"status\":{" DPU "}}", 0, "" },
	{ "ready", "{\"status\":{" DPU "," READY("True") "}}", 0, "" },
	{ "not ready", "{\"status\":{" DPU "," READY("False") "}}", AWAIT_NOT_YET, "not ready" },
	{ "no status", "{}", AWAIT_NOT_YET, "is not attached" },
	{ "no device", "{\"status\":{\"dpuAttached\":true}}", AWAIT_NOT_YET, "status.dpu is missing" },
	{ "being deleted", "{" DELETING "\"status\":{" DPU "}}", -1, "is being deleted" },
	{ "attached once more, and the address is that of before",
	  "{\"status\":{\"message\":\"DPUAttach not ready: \"," DPU ",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"}]}}",
	  AWAIT_NOT_YET, "is not attached: DPUAttach not ready; status.dpu is from before DPUAttached was True" },
	{ "the same of the controller's part",
	  "{\"status\":{\"message\":\"ControllerAttach not ready: busy\"," DPU ",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"}]}}",
	  AWAIT_NOT_YET, "status.dpu is from before DPUAttached was True" },
	{ "attached once more, and the status is written",
	  "{\"status\":{\"message\":\"\"," DPU ",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"}]}}",
	  0, "" },
	{ "another message",
	  "{\"status\":{\"message\":\"Success\"," DPU ",\"conditions\":[{\"type\":\"DPUAttached\",\"status\":\"True\"}]}}",
	  0, "" },
};

static void check(const char *what, int rc, int want, const char *says, const char *why,
                  const char *error)
{
	ck_assert_msg(rc == want, "%s: %d", what, rc);
	ck_assert_msg(strstr(rc < 0 ? error : why, says) != NULL, "%s: %s%s", what, why, error);
}

START_TEST(a_volume_is_ready_when_all_that_a_call_needs_is_there)
{
	struct json *object AUTO(json_free) = fake_json(volumes[_i].json);
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct err err = ERR_INIT;
	struct dpu_volume v;
	int rc = volume_readiness(object, &v, &why, &err);

	check(volumes[_i].what, rc, volumes[_i].rc, volumes[_i].says, why.ptr, err.msg);
}
END_TEST

START_TEST(an_attachment_is_ready_when_a_node_can_find_its_device)
{
	struct json *object AUTO(json_free) = fake_json(attachments[_i].json);
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct err err = ERR_INIT;
	struct dpu_attachment a;
	int rc = attachment_readiness(object, EMULATION_NVME, &a, &why, &err);

	check(attachments[_i].what, rc, attachments[_i].rc, attachments[_i].says, why.ptr, err.msg);
}
END_TEST

SUITE("readiness", LOOP(a_volume_is_ready_when_all_that_a_call_needs_is_there, ARRAY_LEN(volumes)),
      LOOP(an_attachment_is_ready_when_a_node_can_find_its_device, ARRAY_LEN(attachments)));
