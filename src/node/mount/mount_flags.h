/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount flags of a volume: which of them may reach the kernel, and which are added for the host's
 * safety. An allow-list by filesystem: what the kernel's documentation does not have, or what
 * reaches outside the volume, is refused. No state, any thread.
 *
 * How mountinfo shows them (struct mount of mount.h), for comparing a mount with its flags:
 *
 *   options      ro, nosuid, nodev, noexec, noatime, nodiratime, relatime, nosymfollow, under these
 *                names. Their opposites, defaults and strictatime show nothing; relatime stands
 *                there unless noatime or strictatime was asked for.
 *   fs_options   ro, sync, dirsync, lazytime, *context=, under these names, and the filesystem's
 *                own. The kernel shows an own flag only where it differs from the superblock's or
 *                the kernel's default, and some under another name (noload as norecovery, barrier=0
 *                as nobarrier, uquota as usrquota, compress as compress=zlib:3).
 *   nowhere      async, silent, loud, iversion, mand, auto, nofail, _netdev, x-...
 *
 * What mount_flags_add_safe() adds: ext shows "errors=remount-ro" in fs_options, except where the
 * superblock says remount-ro itself; btrfs shows "subvolid=5,subvol=/" whatever was asked.
 *
 * Sources: mount(8); Documentation/admin-guide/ext4.rst, ext4(5);
 * Documentation/admin-guide/xfs.rst, xfs(5); btrfs(5); Documentation/filesystems/virtiofs.rst.
 */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"

/*
 * Splits lists of flags at their commas (those of a context="..." are part of it) and adds them to
 * `ret`. fs_type "": not known yet, a flag may be of any filesystem of a disk. INVALID_ARGUMENT:
 * one is refused; the text names it and says why.
 */
int mount_flags_check(const char *const *flags, size_t n, const char *fs_type, struct strs *ret,
                      struct err *err) MUST_CHECK;
/* The same for flags that are split already, once the filesystem is known. */
int mount_flags_check_for(const struct strs *flags, const char *fs_type, struct err *err)
	MUST_CHECK;
/*
 * Adds what keeps a damaged or hostile filesystem from harming the host. ext3 and ext4:
 * errors=remount-ro, unless the flags have an errors= of their own; else a superblock could ask for
 * a panic. btrfs: subvolid=5, the whole of it, whichever subvolume is its default. xfs has no such
 * flag: it shuts itself down, and only the host's fs.xfs.panic_mask can make that a panic.
 */
void mount_flags_add_safe(const char *fs_type, struct strs *flags);
/*
 * What the list has for this filesystem alone, "": for all of them. Names between spaces; one that
 * ends in '=' takes a value, one that ends in '-' is a prefix. Not for "ext3": see "ext4".
 */
const char *mount_flags_listed(const char *fs_type);
