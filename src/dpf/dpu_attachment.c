/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUVolumeAttachment: a table to read it, and a few lines to write it. src/controller decides
 * whether the status suffices for a node.
 */
#include "dpf/dpu_attachment.h"

#include "common/cleanup.h"
#include "dpf/decode.h"

static const char *text_or_empty(const struct json *object, const char *path)
{
	const char *s = json_str(object, path);

	return s ? s : "";
}

static bool flag(const struct json *object, const char *path)
{
	struct err ignored = ERR_INIT;
	bool set = false;

	return !json_get_bool(object, path, &set, &ignored) && set;
}

struct dpu_attachment_key dpu_attachment_key(const struct json *object)
{
	return (struct dpu_attachment_key) {
		.name = text_or_empty(object, "metadata.name"),
		.uid = text_or_empty(object, "metadata.uid"),
		.created = text_or_empty(object, "metadata.creationTimestamp"),
		.node = text_or_empty(object, "spec.dpuNodeName"),
		.volume = text_or_empty(object, "spec.dpuVolumeName"),
		.deleting = json_at(object, "metadata.deletionTimestamp") != NULL,
		.attached = flag(object, "status.dpuAttached"),
	};
}

#define AT(member) offsetof(struct dpu_attachment, member)
static const struct json_field fields[] = {
	{ "spec.functionType", FIELD_TEXT, AT(function_type) },
	{ "spec.hotplugFunction", FIELD_FLAG, AT(hotplug) },
	{ "status.dpuAttached", FIELD_FLAG, AT(attached) },
	{ "status.message", FIELD_TEXT, AT(message) },
	{ "status.attachmentMetadata", FIELD_MAP, AT(metadata) },
	{ "status.dpu", FIELD_PRESENT, AT(has_dpu) },
	{ "status.dpu.pciAddress", FIELD_TEXT, AT(pci_address) },
	{ "status.dpu.funcVUID", FIELD_TEXT, AT(func_vuid) },
	{ "status.dpu.nvmeAttrs", FIELD_PRESENT, AT(has_nvme) },
	{ "status.dpu.nvmeAttrs.namespaceID", FIELD_NUMBER, AT(nvme_nsid) },
	{ "status.dpu.nvmeAttrs.namespaceUUID", FIELD_TEXT, AT(nvme_uuid) },
	{ "status.dpu.virtioFSAttrs", FIELD_PRESENT, AT(has_virtiofs) },
	{ "status.dpu.virtioFSAttrs.filesystemTag", FIELD_TEXT, AT(virtiofs_tag) },
};

/* Fields that this file only writes, or that separate code reads. */
static const struct json_field others[] = {
	{ "spec.dpuNodeName", FIELD_TEXT, 0 },
	{ "spec.dpuVolumeName", FIELD_TEXT, 0 },
	{ "status.conditions", FIELD_LIST, 0 },
};

static bool dpu_attachment_serves(const struct json *schema, struct str *lacks)
{
	bool read = schema_has_fields(schema, fields, ARRAY_LEN(fields), lacks);

	return schema_has_fields(schema, others, ARRAY_LEN(others), lacks) && read;
}

const struct kube_kind dpu_attachment_kind = {
	.group = "storage.dpu.nvidia.com",
	.version = "v1alpha1",
	.plural = "dpuvolumeattachments",
	.kind = "DPUVolumeAttachment",
	.serves = dpu_attachment_serves,
};

int dpu_attachment_decode(const struct json *object, struct dpu_attachment *ret, struct err *err)
{
	struct dpu_attachment a = {
		.key = dpu_attachment_key(object),
		.function_type = "",
		.message = "",
		.pci_address = "",
		.func_vuid = "",
		.nvme_uuid = "",
		.virtiofs_tag = "",
	};

	int rc = decode_fields(object, fields, ARRAY_LEN(fields), &a, err);

	*ret = a;
	return rc;
}

struct json *dpu_attachment_encode(const char *name, const char *node, const char *volume, bool pf,
                                   bool hotplug)
{
	struct json *object = json_object();
	struct json *spec = json_sub(object, "spec");

	json_set_str(json_sub(object, "metadata"), "name", name);
	json_set_str(spec, "dpuNodeName", node);
	json_set_str(spec, "dpuVolumeName", volume);
	json_set_str(spec, "functionType", pf ? "pf" : "vf");
	json_set_bool(spec, "hotplugFunction", hotplug);
	return object;
}
