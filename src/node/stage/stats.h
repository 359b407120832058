/* SPDX-License-Identifier: Apache-2.0 */
/* NodeGetVolumeStats. */
#pragma once

#include "node/node.h"

struct volume_stats {
	bool block; /* raw block: only total_bytes is valid */
	uint64_t total_bytes, available_bytes, used_bytes;
	uint64_t total_inodes, free_inodes, used_inodes;
};
/*
 * Reads the usage of the volume at `path`, its staging path or a target path. NOT_FOUND: nothing is
 * mounted there. Returns within 3 s, whatever the device does.
 */
int node_stats(struct node *n, const char *volume_id, const char *path, struct volume_stats *ret,
               struct err *err) MUST_CHECK;
