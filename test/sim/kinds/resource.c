/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the kinds. A new kind is a row here and, if its body has to be validated, a schema
 * in schema.c. Constant; any thread.
 */
#include "test/sim/kinds/resource.h"

#include "common/mem.h"
#include "common/str.h"
#include "test/sim/kinds/schema.h"

#define STORAGE "storage.dpu.nvidia.com"
#define PROVISIONING "provisioning.dpu.nvidia.com"

/* Those of the API server. */
static const char *const event_fields[] = { "involvedObject.kind",
	                                    "involvedObject.namespace",
	                                    "involvedObject.name",
	                                    "involvedObject.uid",
	                                    "involvedObject.apiVersion",
	                                    "involvedObject.resourceVersion",
	                                    "involvedObject.fieldPath",
	                                    "reason",
	                                    "reportingComponent",
	                                    "source",
	                                    "type",
	                                    NULL };

const struct api_resource resources[RES_COUNT] = {
	[RES_NAMESPACES] = { .group = "",
	                     .version = "v1",
	                     .plural = "namespaces",
	                     .singular = "namespace",
	                     .kind = "Namespace",
	                     .status = true },
	[RES_NODES] = { .group = "",
	                .version = "v1",
	                .plural = "nodes",
	                .singular = "node",
	                .kind = "Node",
	                .status = true },
	[RES_VOLUMES] = { .group = STORAGE,
	                  .version = "v1alpha1",
	                  .plural = "dpuvolumes",
	                  .singular = "dpuvolume",
	                  .kind = "DPUVolume",
	                  .namespaced = true,
	                  .status = true,
	                  .schema = &schema_volume },
	[RES_ATTACHMENTS] = { .group = STORAGE,
	                      .version = "v1alpha1",
	                      .plural = "dpuvolumeattachments",
	                      .singular = "dpuvolumeattachment",
	                      .kind = "DPUVolumeAttachment",
	                      .namespaced = true,
	                      .status = true,
	                      .schema = &schema_attachment },
	[RES_POLICIES] = { .group = STORAGE,
	                   .version = "v1alpha1",
	                   .plural = "dpustoragepolicies",
	                   .singular = "dpustoragepolicy",
	                   .kind = "DPUStoragePolicy",
	                   .namespaced = true,
	                   .status = true,
	                   .schema = &schema_policy },
	[RES_VENDORS] = { .group = STORAGE,
	                  .version = "v1alpha1",
	                  .plural = "dpustoragevendors",
	                  .singular = "dpustoragevendor",
	                  .kind = "DPUStorageVendor",
	                  .namespaced = true,
	                  .status = true,
	                  .schema = &schema_vendor },
	[RES_DPUNODES] = { .group = PROVISIONING,
	                   .version = "v1alpha1",
	                   .plural = "dpunodes",
	                   .singular = "dpunode",
	                   .kind = "DPUNode",
	                   .namespaced = true,
	                   .status = true },
	[RES_DPUS] = { .group = PROVISIONING,
	               .version = "v1alpha1",
	               .plural = "dpus",
	               .singular = "dpu",
	               .kind = "DPU",
	               .namespaced = true,
	               .status = true },
	[RES_DPUCLUSTERS] = { .group = PROVISIONING,
	                      .version = "v1alpha1",
	                      .plural = "dpuclusters",
	                      .singular = "dpucluster",
	                      .kind = "DPUCluster",
	                      .namespaced = true,
	                      .status = true },
	[RES_CSINODES] = { .group = "storage.k8s.io",
	                   .version = "v1",
	                   .plural = "csinodes",
	                   .singular = "csinode",
	                   .kind = "CSINode" },
	[RES_PVS] = { .group = "",
	              .version = "v1",
	              .plural = "persistentvolumes",
	              .singular = "persistentvolume",
	              .kind = "PersistentVolume" },
	[RES_PVCS] = { .group = "",
	               .version = "v1",
	               .plural = "persistentvolumeclaims",
	               .singular = "persistentvolumeclaim",
	               .kind = "PersistentVolumeClaim",
	               .namespaced = true },
	[RES_PODS] = { .group = "",
	               .version = "v1",
	               .plural = "pods",
	               .singular = "pod",
	               .kind = "Pod",
	               .namespaced = true },
	[RES_VOLUME_ATTACHMENTS] = { .group = "storage.k8s.io",
	                             .version = "v1",
	                             .plural = "volumeattachments",
	                             .singular = "volumeattachment",
	                             .kind = "VolumeAttachment" },
	[RES_EVENTS] = { .group = "",
	                 .version = "v1",
	                 .plural = "events",
	                 .singular = "event",
	                 .kind = "Event",
	                 .namespaced = true,
	                 .fields = event_fields },
};

const struct api_resource *resource_find(const char *group, const char *plural)
{
	for (size_t i = 0; i < RES_COUNT; i++)
		if (str_eq(resources[i].group, group) && str_eq(resources[i].plural, plural))
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
