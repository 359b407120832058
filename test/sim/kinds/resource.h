/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that snap-sim serves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct schema;

struct api_resource {
	const char *group; /* "" is the core group */
	const char *version;
	const char *plural, *singular, *kind;
	bool namespaced;
	bool status; /* has a /status subresource */
	/* for field selectors, in addition to metadata's; NULL: none */
	const char *const *fields;
	const struct schema *schema; /* NULL: the body is not validated */
};

enum resource_id {
	RES_NAMESPACES,
	RES_NODES,
	RES_VOLUMES,
	RES_ATTACHMENTS,
	RES_POLICIES,
	RES_VENDORS,
	RES_DPUNODES,
	RES_DPUS,
	RES_DPUCLUSTERS,
	RES_CSINODES,
	RES_PVS,
	RES_PVCS,
	RES_PODS,
	RES_VOLUME_ATTACHMENTS,
	RES_EVENTS,
	RES_COUNT
};

extern const struct api_resource resources[RES_COUNT];

#define RES(id) (&resources[RES_##id])

/* NULL if the resource does not exist. served.h lists the served versions. */
const struct api_resource *resource_find(const char *group, const char *plural);
/* By its plural, which is unique among these kinds. */
const struct api_resource *resource_by_plural(const char *plural);
bool resource_group_served(const char *group);
/* apiVersion: "storage.dpu.nvidia.com/v1alpha1" or "v1"; malloc'ed. */
char *resource_api_version(const struct api_resource *r);
/* Its name in messages: "dpuvolumes.storage.dpu.nvidia.com" or "nodes"; malloc'ed. */
char *resource_qualified(const struct api_resource *r);
