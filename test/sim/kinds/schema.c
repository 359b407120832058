/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schemas of DPF's custom resources, as their CRDs have them. Constant except for one rule; any
 * thread.
 */
#include "test/sim/kinds/schema.h"

#include "common/cleanup.h"
#include "common/str.h"

static const char *const volume_modes[] = { "Filesystem", "Block", NULL };
static const char *const access_modes[] = { "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany",
	                                    NULL };
static const char *const function_types[] = { "pf", "vf", NULL };
static const char *const algorithms[] = { "Random", "NumberVolumes", NULL };

static struct schema_field volume_fields[] = {
	{ .name = "dpuStoragePolicyName",
	  .required = true,
	  .min = 1,
	  .immutable = "dpuStoragePolicy field is immutable" },
	{ .name = "parameters",
	  .type = T_STRING_MAP,
	  .fallback = "{}",
	  .immutable = "parameters field is immutable" },
	{ .name = "accessModes",
	  .type = T_STRING_LIST,
	  .required = true,
	  .min = 1,
	  .max = 3,
	  .allowed = access_modes,
	  .immutable = "accessModes field is immutable" },
	{ .name = "resources",
	  .type = T_RESOURCES,
	  .required = true,
	  .immutable = "resources field is immutable" },
	{ .name = "volumeMode",
	  .fallback = "\"Filesystem\"",
	  .allowed = volume_modes,
	  .immutable = "volumeMode field is immutable" },
};

static const struct schema_field attachment_fields[] = {
	{ .name = "dpuNodeName",
	  .required = true,
	  .min = 1,
	  .immutable = "dpuNode field is immutable" },
	{ .name = "dpuVolumeName",
	  .required = true,
	  .min = 1,
	  .immutable = "dpuVolume field is immutable" },
	{ .name = "functionType",
	  .required = true,
	  .allowed = function_types,
	  .immutable = "functionType field is immutable" },
	{ .name = "hotplugFunction",
	  .type = T_BOOLEAN,
	  .required = true,
	  .immutable = "hotplugFunction field is immutable" },
};

static const struct schema_field policy_fields[] = {
	{ .name = "dpuStorageVendors", .type = T_STRING_LIST, .required = true, .min = 1 },
	{ .name = "parameters", .type = T_STRING_MAP, .fallback = "{}" },
	{ .name = "selectionAlgorithm", .fallback = "\"NumberVolumes\"", .allowed = algorithms },
};

static const struct schema_field vendor_fields[] = {
	{ .name = "storageClassName", .required = true, .min = 1 },
	{ .name = "pluginName", .required = true, .min = 1 },
};

/* A hot-plugged function must be a PF. */
static void attachment_rule(const struct json *spec, struct invalid *ret)
{
	struct err err = ERR_INIT;
	bool hotplug = false;

	if (json_get_bool(spec, "hotplugFunction", &hotplug, &err) || !hotplug)
		return;
	if (!str_eq(json_str(spec, "functionType"), "pf"))
		invalid_add(
			ret, "FieldValueInvalid", "spec",
			"Invalid value: hotplugFunction can only be true when functionType is 'pf'");
}

const struct schema schema_volume = { volume_fields, ARRAY_LEN(volume_fields), NULL };
const struct schema schema_attachment = { attachment_fields, ARRAY_LEN(attachment_fields),
	                                  attachment_rule };
const struct schema schema_policy = { policy_fields, ARRAY_LEN(policy_fields), NULL };
const struct schema schema_vendor = { vendor_fields, ARRAY_LEN(vendor_fields), NULL };

void schema_let_volumes_grow(bool grow)
{
	for (size_t i = 0; i < ARRAY_LEN(volume_fields); i++) {
		struct schema_field *f = &volume_fields[i];

		if (f->type != T_RESOURCES)
			continue;
		f->immutable = grow ? NULL : "resources field is immutable";
		f->grows = grow ? "resources may only grow" : NULL;
	}
}
