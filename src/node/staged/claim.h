/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk or a share belongs to one volume on a node, which has it at one staging path. This is the
 * one place that compares a volume with all other volumes of the node. No state, any thread.
 *
 * Other mountpoints of a disk are found in mountinfo, by its number, the numbers of its partitions,
 * or the number of a bound device node. Published targets of the same volume do not count. A disk
 * that another volume's unstage has unmounted, and that is still held, belongs to that volume.
 */
#pragma once

#include "node/mount/mount.h"
#include "node/node.h"

/* A disk or share that a volume has or is about to get. All pointers are borrowed. */
struct claim {
	struct node *node;
	const char *volume_id;
	const char *path;         /* where the volume has it, or will have it */
	const struct device *dev; /* the disk; NULL: a share */
	dev_t share;              /* number of the share's superblock */
	/*
	 * An earlier call has staged it at `path`. Then a mount outside kubelet's directory counts
	 * as one of this volume: nothing tells which paths of another orchestrator are targets.
	 */
	bool staged;
};

/*
 * `t`: all mounts of this process. FAILED_PRECONDITION: the disk or share is at another mountpoint;
 * the text names the mountpoint and, if known, its volume. UNAVAILABLE: the check could not be
 * completed.
 *
 * When two callers stage one disk, the second one sees the mount of the first, because each holds
 * the disk's lock (orphan_tool.h) from before it reads the table until it has mounted. When two
 * callers stage one share, each sees the other's mount, because the check follows the mount.
 */
int claim_check(const struct claim *c, const struct mount_table *t, struct err *err) MUST_CHECK;
