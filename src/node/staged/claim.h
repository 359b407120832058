/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ensures that only one volume of the node uses a disk or share, and at only one staging path. Only
 * this file compares a volume with the other volumes of the node. No state, any thread.
 *
 * Other mountpoints of a disk are found in mountinfo by the device number of the disk or of a
 * partition, and bind mounts of a device node by the number of the node. Published targets of the same volume are not conflicts. If
 * the disk was unmounted by an unstage of another volume and still has a holder, it belongs to that
 * volume.
 */
#pragma once

#include "node/mount/mount.h"
#include "node/node.h"

/* A disk or share that a volume uses or is about to use. All pointers are borrowed. */
struct claim {
	struct node *node;
	const char *volume_id;
	const char *path;         /* the staging path, before or after the mount */
	const struct device *dev; /* the disk; NULL: a share */
	dev_t share;              /* device number of the share's superblock */
	/*
	 * An earlier call has staged the volume at `path`. If true, a mount outside kubelet's
	 * directory is taken for one of this volume, because the target paths of another
	 * orchestrator are unknown.
	 */
	bool staged;
};

/*
 * Checks that no other volume uses the disk or share. `t`: all mounts of this process.
 * FAILED_PRECONDITION: the disk or share has another mountpoint; the message names the mountpoint
 * and, if known, its volume. UNAVAILABLE: the check could not be completed.
 *
 * When two callers stage one disk, the second one sees the mount of the first, because each caller
 * holds the disk's lock (orphan_tool.h) from before it reads the table until it has mounted. When
 * two callers stage one share, each sees the other's mount, because each checks after it has
 * mounted.
 */
int claim_check(const struct claim *c, const struct mount_table *t, struct err *err) MUST_CHECK;
