/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of served kinds. A new kind is a row here and, when its body is to be checked, a
 * schema in validate.c. Constant; any thread.
 */
#include "test/sim/kinds/resource.h"

#include "common/mem.h"
#include "common/str.h"
#include "test/sim/kinds/schema.h"

#define STORAGE "storage.dpu.nvidia.com"
#define PROVISIONING "provisioning.dpu.nvidia.com"

const struct api_resource resources[RES_COUNT] = {
	[RES_NAMESPACES] = { "", "v1", "namespaces", "namespace", "Namespace", false, true, NULL },
	[RES_NODES] = { "", "v1", "nodes", "node", "Node", false, true, NULL },
	[RES_VOLUMES] = { STORAGE, "v1alpha1", "dpuvolumes", "dpuvolume", "DPUVolume", true, true,
	                  &schema_volume },
	[RES_ATTACHMENTS] = { STORAGE, "v1alpha1", "dpuvolumeattachments", "dpuvolumeattachment",
	                      "DPUVolumeAttachment", true, true, &schema_attachment },
	[RES_POLICIES] = { STORAGE, "v1alpha1", "dpustoragepolicies", "dpustoragepolicy",
	                   "DPUStoragePolicy", true, true, &schema_policy },
	[RES_VENDORS] = { STORAGE, "v1alpha1", "dpustoragevendors", "dpustoragevendor",
	                  "DPUStorageVendor", true, true, &schema_vendor },
	[RES_DPUNODES] = { PROVISIONING, "v1alpha1", "dpunodes", "dpunode", "DPUNode", true, true,
	                   NULL },
	[RES_DPUS] = { PROVISIONING, "v1alpha1", "dpus", "dpu", "DPU", true, true, NULL },
	[RES_CSINODES] = { "storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", false, false,
	                   NULL },
};

const struct api_resource *resource_find(const char *group, const char *version, const char *plural)
{
	for (size_t i = 0; i < RES_COUNT; i++)
		if (str_eq(resources[i].group, group) && str_eq(resources[i].version, version) &&
		    str_eq(resources[i].plural, plural))
			return &resources[i];
	return NULL;
}

const struct api_resource *resource_by_plural(const char *plural)
{
	for (size_t i = 0; i < RES_COUNT; i++)
		if (str_eq(resources[i].plural, plural))
			return &resources[i];
	return NULL;
}

bool resource_group_served(const char *group)
{
	for (size_t i = 0; i < RES_COUNT; i++)
		if (str_eq(resources[i].group, group))
			return true;
	return false;
}

char *resource_api_version(const struct api_resource *r)
{
	return *r->group ? xasprintf("%s/%s", r->group, r->version) : xstrdup(r->version);
}

char *resource_qualified(const struct api_resource *r)
{
	return *r->group ? xasprintf("%s.%s", r->plural, r->group) : xstrdup(r->plural);
}
