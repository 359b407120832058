/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the fault that keeps a disk's mounted filesystem from being read or written, for stage,
 * publish, expand and health. No state, any thread. Returns within guard_ms, twice that for a
 * write, whatever the device does.
 */
#pragma once

#include "node/target/guard.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

enum fs_fault {
	FS_FINE,
	FS_SHUT_DOWN, /* after an error; ext4 reads nothing then, xfs neither */
	FS_READ_ONLY, /* the kernel made it read-only after an error; it can be read */
	FS_DEAD,      /* it answers with an errno of mount_errno_is_dead() */
	FS_HANGS,     /* it does not answer reads */
	FS_FROZEN,    /* it answers reads and holds writes */
	FS_FAULTS
};
/*
 * `p` is MOUNTPOINT_FILESYSTEM. ask: GUARD_READ, or one of the writes, which is for mounts that are
 * to be written. Returns an enum fs_fault. Above 0, *err has the fault and its code:
 * FAILED_PRECONDITION for FS_SHUT_DOWN and FS_READ_ONLY, which stay until the filesystem is mounted
 * again, else UNAVAILABLE. -1: the filesystem could not be asked (UNAVAILABLE).
 */
int fs_fault_probe(struct node *n, const struct mount_table *t, const struct mountpoint *p,
                   enum guard_ask ask, struct err *err) MUST_CHECK;
/* Does only a new mount end the fault? */
bool fs_fault_needs_mount(enum fs_fault fault);
