/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the health of a volume on this node, and of the node's path to its storage (CSI 1.13,
 * volume health). Only reads, never accesses a dead filesystem, and returns within seconds whatever
 * the device does.
 */
#pragma once

#include "node/node.h"

#define HEALTH_FAULTS_MAX 8

/*
 * The numbers that CSI defines for a volume. For the storage, 1 means degraded and 2 means
 * unreachable.
 */
enum health_status {
	HEALTH_DEGRADED = 1,
	HEALTH_INACCESSIBLE = 2,
};

struct health_fault {
	enum health_status status;
	const char *reason; /* CamelCase, static; unique within one answer */
	/* kubelet accepts 1,024 bytes, and prints some bytes as six characters */
	char message[700];
};

struct health {
	struct health_fault v[HEALTH_FAULTS_MAX];
	size_t n; /* 0: no fault, or the state could not be determined */
};

/*
 * Checks the volume at publish_path or, if that is not given, at staging_path; both may be NULL or
 * "". If neither is given, or nothing is mounted at the staging path, the volume is searched for by
 * its ID. If the volume is not mounted, its fault is the last error of its calls
 * (common/failing.h); without such an error, a volume unknown to this node has no faults.
 */
int node_volume_health(struct node *n, const char *volume_id, const char *publish_path,
                       const char *staging_path, struct health *ret, struct err *err) MUST_CHECK;
/*
 * Reports whether the DPU offers functions for volumes to this host, whether their number is known,
 * and whether calls, tools or accesses to sysfs hang.
 */
int node_storage_health(struct node *n, struct health *ret, struct err *err) MUST_CHECK;
