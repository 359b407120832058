/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was a filesystem that is mounted already mounted with these flags? A flag that the kernel does
 * not show, or shows in a way that does not tell (a default that the superblock changes, a value
 * that the kernel chooses), is not compared: a repeated call must never be told that it is another
 * one. Pure functions, any thread.
 *
 * Sources: the show_options functions of fs/ext4/super.c, fs/xfs/xfs_super.c, fs/btrfs/super.c and
 * fs/proc_namespace.c; mount(2).
 */
#pragma once

#include <stdbool.h>

#include "common/str.h"
#include "node/mount/mount.h"

struct mount_asked {
	const struct strs *flags; /* of the volume, one each */
	/* The driver itself may have added what keeps the journal from being replayed. */
	bool no_replay;
	/* The kernel shows flags of ext only where they differ from what the superblock says. */
	bool superblock_has_flags;
};

/*
 * True: `m` was mounted with other flags; *what has the flag, "discard" or "commit=". read-only and
 * the filesystem's type are the caller's.
 */
bool mount_flags_differ(const struct mount_asked *asked, const struct mount *m, const char **what);
/*
 * Does the superblock of this ext3 or ext4, which is open, bring mount flags of its own? True, too,
 * when it cannot be read.
 */
bool ext_superblock_has_flags(int fd);
