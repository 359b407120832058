/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is staged or published at a path, decided from mountinfo. A mounted filesystem is never
 * touched to find out: it may be dead. Only a bound device node is looked at, which lies on
 * devtmpfs.
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"
#include "node/device/device.h"
#include "node/mount/mount.h"

enum place_kind {
	PLACE_NOTHING,
	PLACE_FILESYSTEM, /* the whole of a filesystem on a disk */
	PLACE_BLOCK,      /* a device node, bound over a file */
	PLACE_SHARE,      /* the whole of a virtio-fs share */
	PLACE_OTHER,      /* something that this driver does not mount */
};

struct place {
	enum place_kind kind;
	char *path;            /* as mountinfo has it; NULL when its directory does not exist */
	const struct mount *m; /* the topmost mount there, of the table; NULL: nothing */
	/*
	 * PLACE_FILESYSTEM and PLACE_BLOCK: the disk's number; an impossible number once the disk
	 * is gone, because the kernel may reuse its dev_t. `shown` keeps the old one for messages.
	 * PLACE_SHARE: the number of its superblock, which all mounts of one tag share until its
	 * device goes.
	 */
	dev_t disk, shown;
};

#define PLACE_INIT                                                                    \
	{                                                                             \
		.kind = PLACE_NOTHING, .path = NULL, .m = NULL, .disk = 0, .shown = 0 \
	}
/*
 * FAILED_PRECONDITION: a mount at the path is hidden by a later one over a directory above it; the
 * text names both. UNAVAILABLE: stat(2) of a device node failed, so the kind of the place is
 * unknown.
 */
int place_look(const struct mount_table *t, const char *path, struct place *ret, struct err *err)
	MUST_CHECK;
/*
 * May this mount be a volume's, by the type of its filesystem? place_look() at others may hang: the
 * way to another filesystem's mount may lead through one that does.
 */
bool place_may_be_volume(const struct mount *m);
/*
 * Is there a btrfs? mountinfo names its disk by a device path alone, and paths are reused. Of any
 * other filesystem it has the disk's number, which nobody else gets while it is mounted.
 */
bool place_is_known_by_name(const struct place *p);
enum { PLACE_DISK_GONE = 1, PLACE_OTHER_DISK = 2 };
/*
 * Is the btrfs mounted at the place the one on this device? Asks the filesystem and reads the
 * device, which may hang. 0: yes, or the place shows no btrfs. PLACE_DISK_GONE: the UUID is the
 * same, but nobody has the device claimed, so the mount is of a disk that has gone.
 * PLACE_OTHER_DISK: something else is on the device, so the same; adds both UUIDs to `other`.
 */
int place_compare(const struct place *p, const struct device *dev, struct str *other,
                  struct err *err) MUST_CHECK;
/* The same, but FAILED_PRECONDITION for PLACE_OTHER_DISK. */
int place_check_same(const struct place *p, const struct device *dev, struct err *err) MUST_CHECK;
/*
 * place_look() at the two paths where a volume may be staged: the staging path, then
 * <staging>/<volume id>, where raw block is bound.
 */
int place_look_staged(const struct mount_table *t, const char *staging_path, const char *volume_id,
                      struct place *ret, struct err *err) MUST_CHECK;
void place_clear(struct place *p);
DEFINE_AUTO_VALUE(struct place, place_clear);

/*
 * The next mount, after `after` (NULL: the first), that shows the disk or share of `p` somewhere
 * else; `but` (may be NULL) is left out, too. `p` is none of PLACE_NOTHING and PLACE_OTHER. whole:
 * a subdirectory of the filesystem that is bound elsewhere does not count.
 */
const struct mount *place_elsewhere(const struct mount_table *t, const struct place *p,
                                    const struct place *but, bool whole, const struct mount *after);
/*
 * Where to look at the filesystem of `p` (PLACE_FILESYSTEM or PLACE_SHARE): through the oldest
 * mount of it, which is where it is staged. A look keeps the mount that it goes through busy, and a
 * target may be unpublished at any moment. Points into `t` or `p`.
 */
const char *place_to_look_through(const struct mount_table *t, const struct place *p);
/* <staging>/<volume id>, malloc'ed: where raw block is staged. */
char *place_block_file(const char *staging_path, const char *volume_id);
/*
 * Unmounts every layer at the place; lazily when `lazy`, or when a layer is dead. Of a share also
 * what the kernel has mounted within it by itself. FAILED_PRECONDITION: the kernel does not let
 * this mount namespace do that, or what is there is certainly not this driver's.
 */
int place_unmount(const struct place *p, const char *proc_root, bool lazy, struct err *err)
	MUST_CHECK;
