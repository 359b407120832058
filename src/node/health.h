/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a volume on this node, or with the node's way to its storage (CSI 1.13, volume
 * health). Reads only, touches no dead filesystem, answers within seconds whatever the device does.
 */
#pragma once

#include "node/node.h"

#define HEALTH_FAULTS_MAX 8

/* CSI's numbers for a volume; for the storage they mean 1 degraded and 2 unreachable. */
enum health_status {
	HEALTH_DEGRADED = 1,
	HEALTH_INACCESSIBLE = 2,
};

struct health_fault {
	enum health_status status;
	const char *reason; /* CamelCase, static; unique within one answer */
	char message[400];
};

struct health {
	struct health_fault v[HEALTH_FAULTS_MAX];
	size_t n; /* 0: nothing wrong, or nothing known */
};

/*
 * publish_path and staging_path may be NULL or "": the first that is given is looked at; without
 * both the volume is searched for by its id. A volume that this node does not know has no faults.
 */
int node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                       const char *staging_path, struct health *ret, struct err *err) MUST_CHECK;
/*
 * Does the DPU offer functions for volumes to this host, is their number known, and do calls, tools
 * and accesses to sysfs come back?
 */
int node_storage_health(struct node *n, struct health *ret, struct err *err) MUST_CHECK;
