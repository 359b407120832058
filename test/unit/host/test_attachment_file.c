/* SPDX-License-Identifier: Apache-2.0 */
/* Files of an attachment: as kubectl prints them, and malicious ones. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/mem.h"
#include "host/attachment_file.h"

static const char yaml[] =
	"apiVersion: storage.dpu.nvidia.com/v1alpha1\n"
	"kind: DPUVolumeAttachment\n"
	"metadata:\n"
	"  annotations:\n"
	"    kubectl.kubernetes.io/last-applied-configuration: |\n"
	"      {\"kind\":\"DPUVolumeAttachment\",\"metadata\":{\"name\":\"other\"}}\n"
	"  creationTimestamp: \"2026-01-02T03:04:05Z\"\n"
	"  finalizers:\n"
	"  - storage.dpu.nvidia.com/dpuvolumeattachment\n"
	"  generation: 1\n"
	"  name: node-data-1\n"
	"  namespace: dpf-operator-system\n"
	"  uid: 11111111-2222-4333-8444-555555555555\n"
	"spec:\n"
	"  dpuNodeName: node\n"
	"  dpuVolumeName: data-1\n"
	"  functionType: vf\n"
	"  hotplugFunction: false\n"
	"status:\n"
	"  attachmentMetadata: {}\n"
	"  conditions:\n"
	"  - lastTransitionTime: \"2026-01-02T03:04:06Z\"\n"
	"    message: \"\"\n"
	"    observedGeneration: 1\n"
	"    reason: Success\n"
	"    status: \"True\"\n"
	"    type: DPUAttached\n"
	"  - message: >-\n"
	"      all conditions\n"
	"      hold\n"
	"    observedGeneration: 1\n"
	"    reason: Success\n"
	"    status: \"True\"\n"
	"    type: Ready\n"
	"  dpuAttached: true\n"
	"  dpu:\n"
	"    deviceName: nvme0\n"
	"    funcVUID: MT2328XZ17DFNVMES0D0F2\n"
	"    nvmeAttrs:\n"
	"      namespaceID: 3\n"
	"      namespaceUUID: 11111111-aaaa-4bbb-8ccc-000000000001\n"
	"    pciAddress: 26:00.1\n";

static void read_good(struct attachment_file *ret)
{
	struct err err = ERR_INIT;

	ck_assert_msg(attachment_parse("it", yaml, strlen(yaml), ret, &err) == 0, "%s", err.msg);
}

static void check_good(const struct attachment_file *f)
{
	struct str why AUTO(str_clear) = STR_INIT(1000);

	ck_assert_msg(attachment_is_ready(f, &why), "%s", why.ptr);
	ck_assert_str_eq(f->is.key.name, "node-data-1");
	ck_assert_str_eq(f->is.key.volume, "data-1");
	ck_assert_str_eq(f->is.pci_address, "26:00.1");
	ck_assert_int_eq(f->is.nvme_nsid, 3);
	ck_assert_int_eq(f->kind, EMULATION_NVME);
}

START_TEST(yaml_and_json_of_kubectl_say_the_same)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct attachment_file again AUTO(attachment_file_clear) = { .tree = NULL };
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	read_good(&f);
	check_good(&f);
	text = json_print_pretty(f.tree);
	ck_assert_msg(attachment_parse("it", text, strlen(text), &again, &err) == 0, "%s", err.msg);
	check_good(&again);
	ck_assert(json_equal(f.tree, again.tree));
}
END_TEST

/* A merge patch on the valid object, and the error, or the missing item. */
struct row {
	const char *what, *patch, *text;
};

static const struct row refused[] = {
	{ "a list", "{\"kind\":\"List\",\"items\":[{},{}]}",
	  "it: is a List of 2 objects; write one DPUVolumeAttachment: kubectl get "
	  "dpuvolumeattachments NAME" },
	{ "a list of its kind", "{\"kind\":\"DPUVolumeAttachmentList\",\"items\":[{}]}",
	  "it: is a DPUVolumeAttachmentList of 1 objects" },
	{ "another kind", "{\"kind\":\"DPUVolume\"}", "it: is DPUVolume of" },
	{ "the same kind of another group", "{\"apiVersion\":\"v1\"}",
	  "it: is DPUVolumeAttachment of v1, not" },
	{ "no kind", "{\"kind\":null}", "it: is an object without kind of" },
	{ "no name", "{\"metadata\":{\"name\":null}}", "it: metadata.name is missing" },
	{ "no volume", "{\"spec\":{\"dpuVolumeName\":null}}", "it: spec.dpuVolumeName is missing" },
	{ "no spec", "{\"spec\":null}", "it: spec.dpuVolumeName is missing" },
	{ "a volume that is a number", "{\"spec\":{\"dpuVolumeName\":7}}",
	  "it: spec.dpuVolumeName is missing" },
	{ "a volume above", "{\"spec\":{\"dpuVolumeName\":\"..\"}}",
	  "it: spec.dpuVolumeName is \"..\", which is not a valid object name" },
	{ "a volume that is a path", "{\"spec\":{\"dpuVolumeName\":\"../../etc/x\"}}",
	  "which is not a valid object name" },
	{ "a volume that hides", "{\"spec\":{\"dpuVolumeName\":\".x\"}}",
	  "which is not a valid object name" },
	{ "a volume with a blank", "{\"spec\":{\"dpuVolumeName\":\"a b\"}}",
	  "which is not a valid object name" },
	{ "a volume that a terminal obeys", "{\"spec\":{\"dpuVolumeName\":\"a\\u001b[2J\"}}",
	  "which is not a valid object name" },
	{ "a name that is a path", "{\"metadata\":{\"name\":\"a/b\"}}",
	  "it: metadata.name is \"a/b\", which is not a valid object name" },
	{ "no function", "{\"spec\":{\"functionType\":null}}", "it: spec.functionType is missing" },
	{ "an address that is a list", "{\"status\":{\"dpu\":{\"pciAddress\":[1]}}}",
	  "it: status.dpu.pciAddress" },
	{ "a namespace that is text",
	  "{\"status\":{\"dpu\":{\"nvmeAttrs\":{\"namespaceID\":\"1\"}}}}",
	  "it: status.dpu.nvmeAttrs.namespaceID" },
	{ "both kinds", "{\"status\":{\"dpu\":{\"virtioFSAttrs\":{\"filesystemTag\":\"t\"}}}}",
	  "it: status.dpu has both nvmeAttrs and virtioFSAttrs" },
};

/* The patched object as text. */
static char *patched(const struct row *row)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct json *patch AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	read_good(&f);
	ck_assert_msg(json_parse(row->what, row->patch, strlen(row->patch), &patch, &err) == 0,
	              "%s", err.msg);
	json_merge_patch(f.tree, patch);
	return json_print(f.tree);
}

START_TEST(what_is_no_attachment_is_refused)
{
	const struct row *row = &refused[_i];
	char *text AUTO(free) = patched(row);
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	ck_assert_msg(attachment_parse("it", text, strlen(text), &f, &err) == -1, "%s", row->what);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_msg(strstr(err.msg, row->text) != NULL, "%s: %s", row->what, err.msg);
}
END_TEST

static const struct row unready[] = {
	{ "being deleted", "{\"metadata\":{\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"}}",
	  "is being deleted" },
	{ "no status", "{\"status\":null}", "status.dpuAttached is not True: no conditions yet" },
	{ "not attached",
	  "{\"status\":{\"dpuAttached\":false,\"message\":\"DPUAttach not ready\"}}",
	  "status.dpuAttached is not True: DPUAttach not ready" },
	{ "no conditions", "{\"status\":{\"conditions\":[]}}", "its condition Ready is not True" },
	{ "the DPU attaches once more", "{\"status\":{\"message\":\"DPUAttach not ready: \"}}",
	  "is not complete: status.dpu is from before DPUAttached was True" },
	{ "not ready",
	  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	  "\"Pending\",\"message\":\"the DPU reboots\"}]}}",
	  "its condition Ready is not True: Ready=False (Pending: the DPU reboots)" },
	{ "ready in an older generation", "{\"metadata\":{\"generation\":2}}",
	  "its condition Ready is not True" },
	{ "no device", "{\"status\":{\"dpu\":null}}", "is not complete: status.dpu is missing" },
	{ "neither kind", "{\"status\":{\"dpu\":{\"nvmeAttrs\":null}}}",
	  "is not complete: status.dpu has neither nvmeAttrs nor virtioFSAttrs" },
	{ "no namespace", "{\"status\":{\"dpu\":{\"nvmeAttrs\":{\"namespaceID\":0}}}}",
	  "is not complete: status.dpu.nvmeAttrs.namespaceID is missing" },
	{ "no tag", "{\"status\":{\"dpu\":{\"nvmeAttrs\":null,\"virtioFSAttrs\":{}}}}",
	  "is not complete: status.dpu.virtioFSAttrs.filesystemTag is missing" },
	{ "no address", "{\"status\":{\"dpu\":{\"pciAddress\":null}}}",
	  "is not complete: status.dpu.pciAddress is missing" },
	{ "the address of a booting host", "{\"status\":{\"dpu\":{\"pciAddress\":\"00:00.0\"}}}",
	  "is not complete: status.dpu.pciAddress is 00:00.0" },
};

START_TEST(what_is_not_ready_says_what_is_missing)
{
	const struct row *row = &unready[_i];
	char *text AUTO(free) = patched(row);
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct str why AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;

	ck_assert_msg(attachment_parse("it", text, strlen(text), &f, &err) == 0, "%s: %s",
	              row->what, err.msg);
	ck_assert_msg(!attachment_is_ready(&f, &why), "%s", row->what);
	ck_assert_msg(strstr(why.ptr, row->text) != NULL, "%s: %s", row->what, why.ptr);
}
END_TEST

static const struct {
	const char *what, *text, *error;
} noise[] = {
	{ "nothing", "", "it: is empty" },
	{ "blanks", " \n\t", "it" },
	{ "a text", "hello", "it: is not a Kubernetes object" },
	{ "an array", "[]", "it: is not a Kubernetes object" },
	{ "half of JSON", "{\"kind\":", "it" },
	{ "two documents", "{}\n---\n{}\n", "it" },
	{ "two documents of YAML", "kind: a\n---\nkind: b\n", "several documents" },
	{ "what kubectl prints when there is none", "Error from server (NotFound): x\n",
	  "it: is an object without kind of no apiVersion" },
};

START_TEST(what_is_no_object_is_refused)
{
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	ck_assert_msg(attachment_parse("it", noise[_i].text, strlen(noise[_i].text), &f, &err) ==
	                      -1,
	              "%s", noise[_i].what);
	ck_assert_msg(strstr(err.msg, noise[_i].error) != NULL, "%s: %s", noise[_i].what, err.msg);
}
END_TEST

START_TEST(a_file_that_is_too_large_or_missing_is_refused)
{
	static char byte[1];
	char path[] = "/tmp/test_attachment_file.XXXXXX";
	struct attachment_file f AUTO(attachment_file_clear) = { .tree = NULL };
	struct err err = ERR_INIT;
	int fd AUTO(fd) = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, byte, 1, 2 << 20), 1);
	ck_assert_int_eq(attachment_file_read(path, &f, &err), -1);
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
	unlink(path);
	err_clear(&err);
	ck_assert_int_eq(attachment_file_read(path, &f, &err), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
}
END_TEST

SUITE("attachment_file", yaml_and_json_of_kubectl_say_the_same,
      LOOP(what_is_no_attachment_is_refused, ARRAY_LEN(refused)),
      LOOP(what_is_not_ready_says_what_is_missing, ARRAY_LEN(unready)),
      LOOP(what_is_no_object_is_refused, ARRAY_LEN(noise)),
      a_file_that_is_too_large_or_missing_is_refused);
