/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings a mounted filesystem of a test into a state in which it accepts no writes. Needs root. A
 * frozen filesystem is thawed when the test ends, even if it fails: otherwise it would keep its
 * loop device until the machine restarts.
 */
#pragma once

#include "node/target/guard.h"

enum fs_state {
	FS_STATE_FINE,
	FS_STATE_FROZEN,
	FS_STATE_TURNED_READ_ONLY, /* the superblock is read-only, the mount points are not */
	FS_STATE_SHUT_DOWN,        /* ext4 and xfs */
	FS_STATE_ERROR,            /* an error detected by ext4 itself */
	FS_STATES
};

extern const char *const fs_state_names[FS_STATES];

/* `path`: its mount point; `loop`: its device. fs_type: as in mount(2). */
void fs_state_set(enum fs_state state, const char *fs_type, const char *loop, const char *path);
/*
 * With a guard: returns when the guard knows it, since the guard does not probe again while a write
 * is held.
 */
void fs_state_thaw(const char *path, struct guard *g, dev_t devno);
