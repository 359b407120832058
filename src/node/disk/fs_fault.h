/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects a fault that prevents reads or writes of a mounted filesystem, for stage, publish, expand
 * and health. No state, any thread. Each function returns within guard_ms (a write probe: twice
 * guard_ms), whatever the device does.
 */
#pragma once

#include "node/target/guard.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

enum fs_fault {
	FS_FINE,
	FS_SHUT_DOWN, /* it has shut down after an error; neither ext4 nor xfs can be read then */
	FS_READ_ONLY, /* the kernel has made it read-only after an error; it can be read */
	FS_DEAD,      /* the probe fails, and mount_errno_is_dead() is true for the errno */
	FS_HANGS,     /* reads do not return */
	FS_FROZEN,    /* reads work, writes block */
	FS_FAULTS
};
/*
 * Probes the filesystem at `p`, which is MOUNTPOINT_FILESYSTEM. ask: GUARD_READ, or a write probe
 * if the mount is to be written. Returns an enum fs_fault. If it is above 0, *err describes the
 * fault: FAILED_PRECONDITION for FS_SHUT_DOWN and FS_READ_ONLY, which last until the filesystem is
 * mounted again; UNAVAILABLE for the other faults. Returns -1 (UNAVAILABLE) if the filesystem could
 * not be probed.
 */
int fs_fault_probe(struct node *n, const struct mount_table *t, const struct mountpoint *p,
                   enum guard_ask ask, struct err *err) MUST_CHECK;
/* Returns true if the fault lasts until the filesystem is mounted again. */
bool fs_fault_needs_mount(enum fs_fault fault);
