/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a volume and its disk by a path where the volume is staged or published. This is the first
 * step of stats and expand.
 */
#pragma once

#include "common/cleanup.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

struct located {
	struct mount_table table;
	struct mountpoint mountpoint; /* neither MOUNTPOINT_NONE nor MOUNTPOINT_OTHER */
	struct device dev;            /* the disk, from sysfs; empty for a share */
};

#define LOCATED_INIT                                                     \
	{                                                                \
		.table = MOUNT_TABLE_INIT, .mountpoint = MOUNTPOINT_INIT \
	}
/*
 * Finds the volume at `path`: the staging path (for raw block: the directory or the file in it) or
 * a target path. NOT_FOUND: no volume is mounted there. UNAVAILABLE: its device was removed.
 */
int locate(struct node *n, const char *volume_id, const char *path, struct located *ret,
           struct err *err) MUST_CHECK;
/* Opens the device of the disk, and verifies that it is still this disk and has this size. */
int located_open(const struct located *l, struct err *err) MUST_CHECK;
void located_clear(struct located *l);
DEFINE_AUTO_VALUE(struct located, located_clear);
