/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is staged or published at a path, decided from mountinfo. A mounted filesystem is never
 * touched to find out: it may be dead. Only a bound device node is read, which lies on
 * devtmpfs.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "node/device/device.h"
#include "node/mount/mount.h"

enum mountpoint_kind {
	MOUNTPOINT_NONE,
	MOUNTPOINT_FILESYSTEM, /* the whole of a filesystem on a disk */
	MOUNTPOINT_BLOCK,      /* a device node, bound over a file */
	MOUNTPOINT_SHARE,      /* the whole of a virtio-fs share */
	MOUNTPOINT_OTHER,      /* something that this driver does not mount */
};

struct mountpoint {
	enum mountpoint_kind kind;
	char *path;            /* as mountinfo has it; NULL when its directory does not exist */
	const struct mount *m; /* the topmost mount there, of the table; NULL: nothing */
	/*
	 * MOUNTPOINT_FILESYSTEM and MOUNTPOINT_BLOCK: the disk's number; an impossible number once
	 * the disk is gone, because the kernel may reuse its dev_t. `shown` keeps the old one for
	 * messages. MOUNTPOINT_SHARE: the number of its superblock, which all mounts of one tag
	 * share until its device goes.
	 */
	dev_t disk, shown;
};

#define MOUNTPOINT_INIT                                                                 \
	{                                                                               \
		.kind = MOUNTPOINT_NONE, .path = NULL, .m = NULL, .disk = 0, .shown = 0 \
	}
/*
 * FAILED_PRECONDITION: a mount at the path is hidden by a later one over a directory above it; the
 * text names both. UNAVAILABLE: stat(2) of a device node failed, so the kind of the mountpoint is
 * unknown.
 */
int mountpoint_read(const struct mount_table *t, const char *path, struct mountpoint *ret,
                    struct err *err) MUST_CHECK;
/*
 * May this mount be a volume's, by the type of its filesystem? mountpoint_read() at others may
 * hang: the way to another filesystem's mount may lead through one that does. A device node is a
 * file of devtmpfs, or of tmpfs where the host is a container.
 */
bool mountpoint_may_be_volume(const struct mount *m);
/*
 * Is there a btrfs? mountinfo names its disk by a device path alone, and paths are reused. Of any
 * other filesystem it has the disk's number, which nobody else gets while it is mounted.
 */
bool mountpoint_is_btrfs(const struct mountpoint *p);
enum { MOUNTPOINT_DISK_GONE = 1, MOUNTPOINT_OTHER_DISK = 2 };
/*
 * Is the btrfs at the mountpoint the one on this device? Asks the filesystem and reads the device,
 * which may hang. 0: yes, or the mountpoint shows no btrfs. MOUNTPOINT_DISK_GONE: the UUID is the
 * same, but nobody has the device claimed, so the mount is of a disk that has gone.
 * MOUNTPOINT_OTHER_DISK: something else is on the device, so the same; adds both UUIDs to `other`.
 */
int mountpoint_compare(const struct mountpoint *p, const struct device *dev, struct str *other,
                       struct err *err) MUST_CHECK;
/* The same, but FAILED_PRECONDITION for MOUNTPOINT_OTHER_DISK. */
int mountpoint_check_same(const struct mountpoint *p, const struct device *dev, struct err *err)
	MUST_CHECK;
/*
 * mountpoint_read() at the two paths where a volume may be staged: the staging path, then
 * <staging>/<volume id>, where raw block is bound.
 */
int mountpoint_read_staged(const struct mount_table *t, const char *staging_path,
                           const char *volume_id, struct mountpoint *ret, struct err *err)
	MUST_CHECK;
void mountpoint_clear(struct mountpoint *p);
DEFINE_AUTO_VALUE(struct mountpoint, mountpoint_clear);

/*
 * The next mount, after `after` (NULL: the first), that shows the disk or share of `p` somewhere
 * else; `but` (may be NULL) is left out, too. `p` is none of MOUNTPOINT_NONE and MOUNTPOINT_OTHER.
 * whole: a subdirectory of the filesystem that is bound elsewhere does not count.
 */
const struct mount *mountpoint_elsewhere(const struct mount_table *t, const struct mountpoint *p,
                                         const struct mountpoint *but, bool whole,
                                         const struct mount *after);
/*
 * Where to probe the filesystem of `p` (MOUNTPOINT_FILESYSTEM or MOUNTPOINT_SHARE): through the
 * oldest mount of it, which is where it is staged. A probe keeps the mount that it goes through
 * busy, and a target may be unpublished at any moment. Points into `t` or `p`.
 */
const char *mountpoint_probe_path(const struct mount_table *t, const struct mountpoint *p);
/* <staging>/<volume id>, malloc'ed: where raw block is staged. */
char *mountpoint_block_file(const char *staging_path, const char *volume_id);
/*
 * Unmounts every layer at the mountpoint; lazily when `lazy`, or when a layer is dead. Of a share
 * also what the kernel has mounted within it by itself. FAILED_PRECONDITION: the kernel does not
 * let this mount namespace do that, or what is there is certainly not this driver's.
 */
int mountpoint_unmount(const struct mountpoint *p, const char *proc_root, bool lazy,
                       struct err *err) MUST_CHECK;
