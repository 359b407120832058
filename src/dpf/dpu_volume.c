/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUVolume: a table to read it, and a few lines to write it. src/controller decides what its
 * fields mean for a CSI volume.
 */
#include "dpf/dpu_volume.h"

#include "common/cleanup.h"
#include "dpf/decode.h"
#include "dpf/quantity.h"
#include "common/str.h"

static const struct {
	const char *word;
	unsigned bit;
} access_modes[] = {
	{ "ReadWriteOnce", DPU_READ_WRITE_ONCE },
	{ "ReadOnlyMany", DPU_READ_ONLY_MANY },
	{ "ReadWriteMany", DPU_READ_WRITE_MANY },
};

#define AT(member) offsetof(struct dpu_volume, member)
static const struct json_field fields[] = {
	{ "metadata.name", FIELD_TEXT, AT(name) },
	{ "metadata.uid", FIELD_TEXT, AT(uid) },
	{ "metadata.deletionTimestamp", FIELD_PRESENT, AT(deleting) },
	{ "metadata.labels", FIELD_MAP, AT(labels) },
	{ "metadata.annotations", FIELD_MAP, AT(annotations) },
	{ "spec.dpuStoragePolicyName", FIELD_TEXT, AT(policy) },
	{ "spec.parameters", FIELD_MAP, AT(parameters) },
	{ "spec.resources.requests.storage", FIELD_QUANTITY, AT(requested) },
	{ "spec.resources.limits.storage", FIELD_QUANTITY, AT(limit) },
	{ "status.phase", FIELD_TEXT, AT(phase) },
	{ "status.state.selectedDPUStorageVendorName", FIELD_TEXT, AT(vendor) },
	{ "status.state.storageVendorPluginName", FIELD_TEXT, AT(vendor_plugin) },
	{ "status.state.volumeInfo.capacity.storage", FIELD_QUANTITY, AT(capacity) },
};

/* Fields that this file only writes, or that separate code reads. */
static const struct json_field others[] = {
	{ "spec.accessModes", FIELD_LIST, 0 },
	{ "spec.volumeMode", FIELD_TEXT, 0 },
	{ "status.conditions", FIELD_LIST, 0 },
};

static bool dpu_volume_serves(const struct json *schema, struct str *lacks)
{
	bool read = schema_has_fields(schema, fields, ARRAY_LEN(fields), lacks);

	return schema_has_fields(schema, others, ARRAY_LEN(others), lacks) && read;
}

const struct kube_kind dpu_volume_kind = {
	.group = "storage.dpu.nvidia.com",
	.version = "v1alpha1",
	.plural = "dpuvolumes",
	.kind = "DPUVolume",
	.serves = dpu_volume_serves,
};

int dpu_volume_decode(const struct json *object, struct dpu_volume *ret, struct err *err)
{
	struct dpu_volume v = {
		.name = "",
		.uid = "",
		.policy = "",
		.phase = "",
		.vendor = "",
		.vendor_plugin = "",
	};
	const char *mode = json_str(object, "spec.volumeMode");
	int rc = decode_fields(object, fields, ARRAY_LEN(fields), &v, err);

	json_foreach (item, json_at(object, "spec.accessModes"))
		v.access_modes |= dpu_access_mode(json_text(item));
	v.block = str_eq(mode, "Block"); /* the CRD's default is Filesystem */
	*ret = v;
	return rc;
}

bool dpu_volume_is_bound(const struct dpu_volume *v)
{
	return str_eq(v->phase, "Bound");
}

bool dpu_volume_was_bound(const struct dpu_volume *v)
{
	return dpu_volume_is_bound(v) || v->capacity;
}

static struct json *encode_access_modes(unsigned modes)
{
	struct json *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(access_modes); i++)
		if (modes & access_modes[i].bit)
			json_append(list, json_string(access_modes[i].word));
	return list;
}

static void set_storage(struct json *resources, const char *which, int64_t bytes)
{
	char buf[32];

	json_set_str(json_sub(resources, which), "storage", quantity_text(bytes, buf));
}

void dpu_volume_set_size(struct json *object, int64_t requested, int64_t limit)
{
	struct json *resources = json_sub(json_sub(object, "spec"), "resources");

	set_storage(resources, "requests", requested);
	if (limit)
		set_storage(resources, "limits", limit);
}

struct json *dpu_volume_encode(const char *name, const struct dpu_volume_spec *spec)
{
	struct json *object = json_object();
	struct json *out = json_sub(object, "spec");
	struct json *parameters = json_sub(out, "parameters");

	json_set_str(json_sub(object, "metadata"), "name", name);
	json_set_str(out, "dpuStoragePolicyName", spec->policy);
	for (size_t i = 0; i < spec->parameters.n; i++)
		json_set_str(parameters, spec->parameters.v[i].key, spec->parameters.v[i].value);
	json_set(out, "accessModes", encode_access_modes(spec->access_modes));
	dpu_volume_set_size(object, spec->requested, spec->limit);
	json_set_str(out, "volumeMode", spec->block ? "Block" : "Filesystem");
	return object;
}

unsigned dpu_access_mode(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(access_modes); i++)
		if (str_eq(access_modes[i].word, word))
			return access_modes[i].bit;
	return 0;
}

const char *dpu_access_modes_text(unsigned modes, char buf[64])
{
	struct str text AUTO(str_clear) = STR_INIT(63);

	for (size_t i = 0; i < ARRAY_LEN(access_modes); i++)
		if (modes & access_modes[i].bit)
			str_addf(&text, "%s%s", text.len ? ", " : "", access_modes[i].word);
	snprintf(buf, 64, "%s", text.ptr);
	return buf;
}
