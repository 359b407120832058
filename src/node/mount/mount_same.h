/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a mounted filesystem with the mount flags of a call. Ignores a flag that the kernel does
 * not show, or shows ambiguously (a default that the superblock changes, a value that the kernel
 * chooses), so that a retry with the same flags is never rejected. Pure functions, any thread.
 *
 * Sources: the show_options functions of fs/ext4/super.c, fs/xfs/xfs_super.c, fs/btrfs/super.c and
 * fs/proc_namespace.c; mount(2).
 */
#pragma once

#include <stdbool.h>

#include "common/str.h"
#include "node/mount/mount.h"

struct mount_asked {
	const struct strs *flags; /* flags of the volume, one per element */
	/* The driver may have added the flag that prevents a journal replay. */
	bool no_replay;
	/*
	 * ext: the superblock has mount flags. The kernel shows only flags that differ from them.
	 */
	bool superblock_has_flags;
};

/*
 * Returns true if `m` was mounted with other flags; *what is the first flag that differs, "discard"
 * or "commit=". Does not compare read-only and the filesystem's type; the caller does.
 */
bool mount_flags_differ(const struct mount_asked *asked, const struct mount *m, const char **what);
/* Returns true if the superblock of the ext3 or ext4 on fd has mount flags, or cannot be read. */
bool ext_superblock_has_flags(int fd);
