/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerGetVolumeHealth reports DPF's faults, and nothing else. */
#include "controller/volume_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "controller/attachment_index.h"
#include "test/lib/controller_door.h"
#include "test/lib/suite.h"
#include "test/unit/controller/kube_memory.h"

#define V "dpuvolumes"
#define A "dpuvolumeattachments"
#define STATE "\"state\":{\"volumeInfo\":{\"capacity\":{\"storage\":\"1Gi\"}}}"
#define BOUND "\"phase\":\"Bound\"," STATE
#define CONDITION(type, is, reason)                                                \
	"\"conditions\":[{\"type\":\"" type "\",\"status\":\"" is "\",\"reason\":" \
	"\"" reason "\",\"message\":\"text\"}]"
#define DPU                                                                             \
	"\"dpuAttached\":true,\"dpu\":{\"pciAddress\":\"0000:26:00.1\",\"nvmeAttrs\":{" \
	"\"namespaceID\":1}}"

static struct controller c;

static const struct {
	const char *what;
	const char *meta, *status;                /* of the volume; status NULL: absent */
	const char *meta_1, *status_1, *status_2; /* of its attachments to n1, n2; NULL: none */
	const char *want; /* "status reason: message; ..." or the error's text */
	enum err_code code;
} rows[] = {
	{ "well", "", BOUND "," CONDITION("Ready", "True", ""), NULL, NULL, NULL, "", ERR_OK },
	{ "well, and attached", "", BOUND, "", DPU, DPU, "", ERR_OK },
	{ "without a capacity, by hand", "", "\"phase\":\"Bound\"", NULL, NULL, NULL, "", ERR_OK },
	{ "not ready", "", BOUND "," CONDITION("Ready", "False", "Pending"), NULL, NULL, NULL,
	  "1 VolumeNotReady: DPUVolume dpf/v is bound, but not ready: Ready=False (Pending: "
	  "text)|",
	  ERR_OK },
	{ "failed", "", BOUND "," CONDITION("Ready", "False", "Failure"), NULL, NULL, NULL,
	  "1 VolumeNotReady: DPUVolume dpf/v is bound, but not ready: Ready=False (Failure: "
	  "text)|",
	  ERR_OK },
	{ "bound no more", "", "\"phase\":\"Lost\"," STATE, NULL, NULL, NULL,
	  "2 VolumeNotBound: DPUVolume dpf/v is not bound (phase Lost): no conditions yet|",
	  ERR_OK },
	{ "being deleted", ",\"deletionTimestamp\":\"x\"", BOUND, NULL, NULL, NULL,
	  "1 BeingDeleted: DPUVolume dpf/v is being deleted, which ends when its last attachment "
	  "is removed|",
	  ERR_OK },
	{ "being attached", "", BOUND, "", CONDITION("DPUAttached", "False", "Pending"), NULL, "",
	  ERR_OK },
	{ "being detached", "", BOUND, ",\"deletionTimestamp\":\"x\"",
	  DPU "," CONDITION("DPUAttached", "False", "Pending"), NULL, "", ERR_OK },
	{ "not to be attached", "", BOUND, "", CONDITION("DPUAttached", "False", "Failure"), NULL,
	  "1 AttachmentFailed: node n1: DPUVolumeAttachment dpf/n1-v is not attached: "
	  "DPUAttached=False (Failure: text)|",
	  ERR_OK },
	{ "attached to two nodes, and the DPUs have trouble", "", BOUND, "",
	  DPU "," CONDITION("DPUAttached", "False", "Pending"),
	  DPU "," CONDITION("Ready", "Unknown", "Pending"),
	  "1 AttachmentNotReady: node n1: DPUVolumeAttachment dpf/n1-v is not attached: "
	  "DPUAttached=False (Pending: text); node n2: DPUVolumeAttachment dpf/n2-v is attached, "
	  "but not ready: Ready=Unknown (Pending: text)|",
	  ERR_OK },
	{ "all at once", "", BOUND "," CONDITION("Ready", "False", "Pending"), "",
	  DPU "," CONDITION("DPUAttached", "False", "Pending"),
	  CONDITION("DPUAttached", "False", "Failure"),
	  "1 VolumeNotReady: DPUVolume dpf/v is bound, but not ready: Ready=False (Pending: text)|"
	  "1 AttachmentNotReady: node n1: DPUVolumeAttachment dpf/n1-v is not attached: "
	  "DPUAttached=False (Pending: text)|"
	  "1 AttachmentFailed: node n2: DPUVolumeAttachment dpf/n2-v is not attached: "
	  "DPUAttached=False (Failure: text)|",
	  ERR_OK },
	{ "being made", "", CONDITION("Bound", "False", "Pending"), NULL, NULL, NULL,
	  "volume not found: DPUVolume dpf/v is still being created", ERR_NOT_FOUND },
	{ "not there", "", NULL, NULL, NULL, NULL, "volume not found: there is no DPUVolume dpf/v",
	  ERR_NOT_FOUND },
};

static void attachment(const char *node, const char *meta, const char *status)
{
	char *text AUTO(free) = NULL;

	if (!status)
		return;
	text = xasprintf("{\"metadata\":{\"name\":\"%s-v\"%s},\"spec\":{\"dpuVolumeName\":\"v\","
	                 "\"dpuNodeName\":\"%s\"},\"status\":{%s}}",
	                 node, meta, node, status);
	fake_put(A, text);
}

static int health(const char *request, char **told, struct err *err)
{
	struct str out AUTO(str_clear) = STR_INIT(10000);
	struct json *q AUTO(json_free) = fake_json(request), *reply AUTO(json_free) = NULL;

	*err = (struct err)ERR_INIT;
	*told = NULL;
	if (door_call(&c, NULL, "ControllerGetVolumeHealth", q, &reply, err))
		return -1;
	ck_assert_str_eq(json_str(reply, "volume_health.volume_id"), "v");
	json_foreach (entry, json_at(reply, "volume_health.health_statuses"))
		str_addf(&out, "%d %s: %s|",
		         str_eq(json_str(entry, "status"), "INACCESSIBLE") ? 2 : 1,
		         json_str(entry, "reason"), json_str(entry, "message"));
	*told = str_take(&out);
	return 0;
}

/* Every second row without the index: attachments are listed. */
START_TEST(what_dpf_finds_wrong_is_told)
{
	for (size_t i = 0; i < ARRAY_LEN(rows) * 2; i++) {
		const char *what = rows[i / 2].what;
		char *text AUTO(free) = NULL, *told AUTO(free) = NULL;
		struct err err;
		int rc;

		fake_reset();
		if (rows[i / 2].status) {
			text = xasprintf("{\"metadata\":{\"name\":\"v\"%s},\"spec\":{"
			                 "\"accessModes\":[\"ReadWriteOnce\"],\"volumeMode\":"
			                 "\"Block\"},\"status\":{%s}}",
			                 rows[i / 2].meta, rows[i / 2].status);
			fake_put(V, text);
		}
		attachment("n1", rows[i / 2].meta_1, rows[i / 2].status_1);
		attachment("n2", "", rows[i / 2].status_2);
		c = (struct controller) { .namespace = FAKE_NS,
			                  .driver_name = "csi.snap.nvidia.com" };
		if (i % 2)
			c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		rc = health("{\"volume_id\":\"v\"}", &told, &err);
		ck_assert_msg(err.code == rows[i / 2].code, "%s: %s", what, err.msg);
		ck_assert_msg(str_eq(rc ? err.msg : told, rows[i / 2].want), "%s: %s", what,
		              rc ? err.msg : told);
		c.attachments = attachment_index_free(c.attachments);
	}
	fake_reset();
}
END_TEST

/* DPF's status.message is a condition's message of any length: `text` repeated. */
static char *long_status(const char *type, const char *text)
{
	struct str out AUTO(str_clear) = STR_INIT(20000);

	str_addf(&out, "%s\"conditions\":[", str_eq(type, "Ready") ? DPU "," : "");
	for (int i = 0; i < 4; i++) {
		str_addf(
			&out,
			"%s{\"type\":\"%s\",\"status\":\"False\",\"reason\":\"Failure\",\"message\":\"",
			i ? "," : "", type);
		for (int n = 0; n < 200; n++)
			str_add(&out, text);
		str_add(&out, "\"}");
	}
	str_add(&out, "]");
	return str_take(&out);
}

static const struct {
	const char *type, *text;
	unsigned nodes;
	const char *ends; /* NULL: no count */
} outages[] = {
	{ "Ready", "text ", 1, NULL },
	{ "Ready", "text ", 10, " more of 10 nodes|" },
	{ "DPUAttached", "text ", 10, " more of 10 nodes|" },
	{ "DPUAttached", "text ", 50, " more of 50 nodes|" },
	{ "DPUAttached", "\\u202e", 10, " more of 10 nodes|" },
	{ "DPUAttached", "\\u00e9\\ud83d\\ude00", 10, " more of 10 nodes|" },
};

START_TEST(a_message_fits_into_kubernetes_and_counts_the_nodes)
{
	char *status AUTO(free) = long_status(outages[_i].type, outages[_i].text);
	char *told AUTO(free) = NULL;
	const char *message;
	struct err err;

	fake_reset();
	fake_put(V, "{\"metadata\":{\"name\":\"v\"},\"spec\":{\"volumeMode\":\"Block\"},"
	            "\"status\":{" BOUND "}}");
	for (unsigned i = 0; i < outages[_i].nodes; i++) {
		char node[16];

		snprintf(node, sizeof(node), "n%u", i);
		attachment(node, "", status);
	}
	c = (struct controller) { .namespace = FAKE_NS, .driver_name = "csi.snap.nvidia.com" };
	ck_assert_msg(health("{\"volume_id\":\"v\"}", &told, &err) == 0, "%s", err.msg);
	message = strstr(told, ": ") + 2;
	ck_assert_msg(strlen(message) - 1 <= 1024, "%zu bytes", strlen(message) - 1);
	ck_assert_msg(str_has_prefix(message, "node n"), "%s", message);
	ck_assert_msg(utf8_valid(message, strlen(message)), "%s", message);
	ck_assert_msg(!outages[_i].ends == !str_has_suffix(told, " nodes|") &&
	                      (!outages[_i].ends || str_has_suffix(told, outages[_i].ends)),
	              "%s", message);
	fake_reset();
}
END_TEST

START_TEST(what_cannot_be_read_is_an_error)
{
	static const struct {
		const char *what, *request, *plural;
		enum err_code code;
		const char *text;
	} cases[] = {
		{ "no id", "{}", NULL, ERR_INVALID, "VolumeId: field is required" },
		{ "no object's name", "{\"volume_id\":\"V v\"}", NULL, ERR_NOT_FOUND,
		  "volume not found: there is no DPUVolume dpf/V v" },
		{ "the volume", "{\"volume_id\":\"v\"}", V, ERR_UNAVAILABLE,
		  "DPUVolume dpf/v: away" },
		{ "its attachment", "{\"volume_id\":\"v\"}", A, ERR_UNAVAILABLE,
		  "reading the attachments of volume v: DPUVolumeAttachment dpf/n1-v: away" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *told AUTO(free) = NULL;
		struct err err;

		fake_reset();
		fake_put(V, "{\"metadata\":{\"name\":\"v\"},\"status\":{" BOUND "}}");
		attachment("n1", "", DPU);
		c = (struct controller) { .namespace = FAKE_NS,
			                  .driver_name = "csi.snap.nvidia.com" };
		c.attachments = attachment_index_new(NULL, FAKE_NS, c.driver_name);
		if (cases[i].plural)
			fake_refuse("get", cases[i].plural, ERR_UNAVAILABLE, "away");
		ck_assert_int_eq(health(cases[i].request, &told, &err), -1);
		ck_assert_msg(err.code == cases[i].code && str_eq(err.msg, cases[i].text),
		              "%s: %d %s", cases[i].what, err.code, err.msg);
		c.attachments = attachment_index_free(c.attachments);
	}
	fake_reset();
}
END_TEST

SUITE("volume_health", what_dpf_finds_wrong_is_told,
      LOOP(a_message_fits_into_kubernetes_and_counts_the_nodes, ARRAY_LEN(outages)),
      what_cannot_be_read_is_an_error);
