/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines from mountinfo which volume is mounted at a path. Never accesses a mounted filesystem
 * for that, because it may be dead. Only a bound device node is read, which is on devtmpfs.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "node/device/device.h"
#include "node/mount/mount.h"

enum mountpoint_kind {
	MOUNTPOINT_NONE,
	MOUNTPOINT_FILESYSTEM, /* the whole filesystem of a disk */
	MOUNTPOINT_BLOCK,      /* a device node that is bind-mounted over a file */
	MOUNTPOINT_SHARE,      /* a whole virtio-fs share */
	MOUNTPOINT_OTHER,      /* a mount that is not this driver's */
};

struct mountpoint {
	enum mountpoint_kind kind;
	char *path;            /* as in mountinfo; NULL if the path's directory does not exist */
	const struct mount *m; /* the topmost mount at the path, in the table; NULL: none */
	/*
	 * MOUNTPOINT_FILESYSTEM and MOUNTPOINT_BLOCK: the disk's device number. After the disk was
	 * removed, `disk` is an impossible number, because the kernel may reuse the old one, and
	 * `shown` keeps the old number for messages. MOUNTPOINT_SHARE: the device number of its
	 * superblock, which all mounts of one tag share until its device is removed.
	 */
	dev_t disk, shown;
};

#define MOUNTPOINT_INIT                                                                 \
	{                                                                               \
		.kind = MOUNTPOINT_NONE, .path = NULL, .m = NULL, .disk = 0, .shown = 0 \
	}
/*
 * Reads the mountpoint at `path`. FAILED_PRECONDITION: a mount at the path is hidden by a later
 * mount over one of its parent directories; the message names both. UNAVAILABLE: stat(2) of a
 * device node failed, so the kind of the mountpoint is unknown.
 */
int mountpoint_read(const struct mount_table *t, const char *path, struct mountpoint *ret,
                    struct err *err) MUST_CHECK;
/*
 * Returns true if the filesystem type of this mount is possible for a volume: a device node is a
 * file of devtmpfs, or of tmpfs if the host is a container. Do not call mountpoint_read() for any
 * other mount: the path may lead through a filesystem that hangs.
 */
bool mountpoint_may_be_volume(const struct mount *m);
/*
 * Returns true if the mountpoint has a btrfs. mountinfo identifies the disk of a btrfs only by a
 * device path, and paths are reused. For other filesystems it shows the disk's device number, which
 * is not reused while the disk is mounted.
 */
bool mountpoint_is_btrfs(const struct mountpoint *p);
enum { MOUNTPOINT_DISK_GONE = 1, MOUNTPOINT_OTHER_DISK = 2 };
/*
 * Compares the btrfs at the mountpoint with the filesystem on this device. Queries the filesystem
 * and reads the device, which may hang. Returns 0 if they are the same, or the mountpoint has no
 * btrfs. Returns MOUNTPOINT_DISK_GONE if the UUIDs are equal, but the device is not claimed, so the
 * mounted disk was removed. Returns MOUNTPOINT_OTHER_DISK if the UUIDs differ, so the mounted disk
 * was removed; adds both UUIDs to `other`.
 */
int mountpoint_compare(const struct mountpoint *p, const struct device *dev, struct str *other,
                       struct err *err) MUST_CHECK;
/*
 * Like mountpoint_compare(), but returns -1 (FAILED_PRECONDITION) instead of MOUNTPOINT_OTHER_DISK.
 */
int mountpoint_check_same(const struct mountpoint *p, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * Calls mountpoint_read() for the two possible staging paths: the staging path itself, then
 * <staging>/<volume id>, where raw block is bound.
 */
int mountpoint_read_staged(const struct mount_table *t, const char *staging_path,
                           const char *volume_id, struct mountpoint *ret, struct err *err)
	MUST_CHECK;
void mountpoint_clear(struct mountpoint *p);
DEFINE_AUTO_VALUE(struct mountpoint, mountpoint_clear);

/*
 * Returns the next mount, after `after` (NULL: the first), of the disk or share of `p` at a
 * different mountpoint; skips `but` (may be NULL) as well. `p` must not be MOUNTPOINT_NONE or
 * MOUNTPOINT_OTHER. whole: ignores bind mounts of a subdirectory of the filesystem.
 */
const struct mount *mountpoint_elsewhere(const struct mount_table *t, const struct mountpoint *p,
                                         const struct mountpoint *but, bool whole,
                                         const struct mount *after);
/*
 * Returns the path for probing the filesystem of `p` (MOUNTPOINT_FILESYSTEM or MOUNTPOINT_SHARE):
 * its oldest mount, which is the staging path. A target path is not used, because a probe keeps the
 * mount busy, and a target may be unpublished at any time. Points into `t` or `p`.
 */
const char *mountpoint_probe_path(const struct mount_table *t, const struct mountpoint *p);
/* Returns <staging>/<volume id>, malloc'ed: where raw block is staged. */
char *mountpoint_block_file(const char *staging_path, const char *volume_id);
/*
 * Unmounts every mount stacked at the mountpoint; lazily with `lazy`, or if a mount is dead. For a
 * share, also unmounts the submounts that the kernel has created in it. FAILED_PRECONDITION: the
 * kernel does not permit this in this mount namespace, or the mount is certainly not this driver's.
 */
int mountpoint_unmount(const struct mountpoint *p, const char *proc_root, bool lazy,
                       struct err *err) MUST_CHECK;
