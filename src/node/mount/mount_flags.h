/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the mount flags of a volume against an allow-list for each filesystem, and adds flags that
 * protect the host. The allow-lists omit flags that the kernel's documentation does not describe,
 * and flags with effects outside the volume. No state, any thread.
 *
 * To compare a mount with its flags, note how mountinfo shows them (struct mount of mount.h):
 *
 *   options      ro, nosuid, nodev, noexec, noatime, nodiratime, relatime, nosymfollow, under these
 *                names. Their opposites, defaults and strictatime show nothing; relatime is shown
 *                unless noatime or strictatime was requested.
 *   fs_options   ro, sync, dirsync, lazytime, *context=, under these names, and the filesystem's
 *                own flags. The kernel shows one of these only if it differs from the superblock's
 *                or the kernel's default, and some under another name (noload as norecovery,
 *                barrier=0 as nobarrier, uquota as usrquota, compress as compress=zlib:3).
 *   nowhere      async, silent, loud, iversion, mand, auto, nofail, _netdev, x-...
 *
 * For the flags of mount_flags_add_safe(), ext shows "errors=remount-ro" in fs_options unless the
 * superblock has remount-ro itself; btrfs always shows "subvolid=5,subvol=/".
 *
 * Sources: mount(8); Documentation/admin-guide/ext4.rst, ext4(5);
 * Documentation/admin-guide/xfs.rst, xfs(5); btrfs(5); Documentation/filesystems/virtiofs.rst.
 */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/str.h"

/*
 * Splits lists of flags at their commas (but not at those inside context="...") and adds the flags
 * to `ret`. If fs_type is "", the filesystem is not known yet, and a flag of any disk filesystem is
 * accepted. INVALID_ARGUMENT: a flag is rejected; the message has the flag and the reason.
 */
int mount_flags_check(const char *const *flags, size_t n, const char *fs_type, struct strs *ret,
                      struct err *err) MUST_CHECK;
/* Like mount_flags_check(), for flags that are already split, once the filesystem is known. */
int mount_flags_check_for(const struct strs *flags, const char *fs_type, struct err *err)
	MUST_CHECK;
/*
 * Adds flags that prevent a damaged or hostile filesystem from harming the host. For ext3 and ext4:
 * errors=remount-ro, unless the flags have errors= already; otherwise a superblock could request a
 * panic. For btrfs: subvolid=5, the top-level subvolume, whichever subvolume is the default. xfs
 * has no such flag: after an error it shuts itself down, and only the host's fs.xfs.panic_mask can
 * make that a panic.
 */
void mount_flags_add_safe(const char *fs_type, struct strs *flags);
/*
 * Returns the allowed flags that are specific to this filesystem; "": the flags allowed for all.
 * They are words separated by spaces; a word that ends in '=' takes a value, one that ends in '-'
 * is a prefix. Do not call it for "ext3": use "ext4".
 */
const char *mount_flags_listed(const char *fs_type);
