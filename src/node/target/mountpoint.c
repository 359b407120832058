/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes a mounted filesystem from a bound device node by mountinfo: the root of a
 * filesystem is "/", and that of a device node is its name on devtmpfs. Owns only the resolved
 * path. The callers compare the disk with the expected one.
 */
#include "node/target/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "node/mount/fsprobe.h"

/*
 * Maximum number of stacked mounts that mountpoint_unmount() removes; far more than retries are
 * known to create.
 */
#define MAX_LAYERS 256
#define NO_DISK makedev(0, 0)

void mountpoint_clear(struct mountpoint *p)
{
	free(p->path);
	*p = (struct mountpoint)MOUNTPOINT_INIT;
}

char *mountpoint_block_file(const char *staging_path, const char *volume_id)
{
	return xasprintf("%s/%s", staging_path, volume_id);
}

/*
 * Calls stat(2) for a path from the mount table. After an error, the kind of the mount is unknown,
 * so the caller may retry.
 */
static int stat_path(const char *path, struct stat *ret, struct err *err)
{
	if (stat(path, ret) == 0)
		return 0;
	err_sys(err, errno, "stat %s, which the mount table shows", path);
	return err_recode(err, ERR_UNAVAILABLE);
}

/*
 * Sets the disk of a mounted filesystem. mountinfo has the disk's number, except that for btrfs the
 * number is anonymous, and only the path of the device node identifies the disk
 * (mountpoint_check_same() compares UUIDs). If that node does not exist, the disk was removed, and
 * `disk` is the anonymous number, which no disk has. Sets the kind to MOUNTPOINT_OTHER if it is not
 * a filesystem of a disk.
 */
static int read_filesystem(struct mountpoint *p, struct err *err)
{
	const struct mount *m = p->m;
	struct stat st;

	p->kind = MOUNTPOINT_FILESYSTEM;
	p->shown = p->disk = m->devno;
	if (major(m->devno) != 0)
		return 0;
	p->kind = MOUNTPOINT_OTHER;
	if (!str_eq(m->fs_type, "btrfs"))
		return 0;
	if (stat_path(m->source, &st, err)) {
		if (err->sys != ENOENT)
			return -1;
		err_clear(err);
		p->kind = MOUNTPOINT_FILESYSTEM;
	} else if (S_ISBLK(st.st_mode)) {
		p->kind = MOUNTPOINT_FILESYSTEM;
		p->shown = p->disk = st.st_rdev;
	}
	return 0;
}

/*
 * Returns true if the bound device node was removed; "//deleted" then follows its name
 * (proc_pid_mountinfo(5)). The kernel removes the node together with the disk. The bind mount
 * stays, and leads to the next disk that gets the same device number.
 */
static bool node_is_removed(const struct mount *m)
{
	return str_has_suffix(m->root, "//deleted");
}

/*
 * Reads the UUID in the metadata of a mounted btrfs. If two copies are mounted, the kernel gives
 * the second one a temporary fsid (6.7). A kernel before 5.10 does not return the metadata UUID,
 * but never uses temporary fsids.
 */
static int read_btrfs_uuid(const char *path, uint8_t ret[16], struct err *err)
{
	struct btrfs_ioctl_fs_info_args info = { .flags = BTRFS_FS_INFO_FLAG_METADATA_UUID };
	int fd AUTO(fd) = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool told;

	if (fd < 0 || ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return err_sys(err, errno, "read the UUID of the btrfs at %s", path);
	told = info.flags & BTRFS_FS_INFO_FLAG_METADATA_UUID;
	memcpy(ret, told ? info.metadata_uuid : info.fsid, 16);
	return 0;
}

/* Formats a UUID as blkid does. */
static void add_uuid(struct str *text, const uint8_t uuid[16])
{
	for (unsigned i = 0; i < 16; i++)
		str_addf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/*
 * Checks whether a mounted filesystem has the device open, which makes another exclusive open fail.
 * Returns 0 if the device is claimed, or MOUNTPOINT_DISK_GONE if it is not.
 */
static int check_claimed(const struct device *dev, struct err *err)
{
	int fd AUTO(fd) = -1;

	if (device_open(dev, O_RDONLY | O_EXCL, &fd, NULL, err) == 0)
		return MOUNTPOINT_DISK_GONE;
	if (err->sys != EBUSY)
		return -1;
	err_clear(err);
	return 0;
}

bool mountpoint_is_btrfs(const struct mountpoint *p)
{
	return p->kind == MOUNTPOINT_FILESYSTEM && str_eq(p->m->fs_type, "btrfs");
}

int mountpoint_compare(const struct mountpoint *p, const struct device *dev, struct str *other,
                       struct err *err)
{
	struct fsprobe fs;
	uint8_t uuid[16];
	int fd AUTO(fd) = -1;

	if (!mountpoint_is_btrfs(p))
		return 0;
	if (read_btrfs_uuid(p->path, uuid, err) || device_open(dev, O_RDONLY, &fd, NULL, err) ||
	    fsprobe_fd(fd, dev->path, &fs, err))
		return -1;
	if (str_eq(fs.type, "btrfs") && memcmp(fs.metadata_uuid, uuid, sizeof(uuid)) == 0)
		return check_claimed(dev, err);
	str_addf(other, "%s shows the btrfs ", p->path);
	add_uuid(other, uuid);
	str_addf(other,
	         ", but %s has %s with UUID %s: its disk no longer exists, and its name now "
	         "belongs to another disk",
	         dev->path, fs.found, *fs.uuid ? fs.uuid : "none");
	return MOUNTPOINT_OTHER_DISK;
}

int mountpoint_check_same(const struct mountpoint *p, const struct device *dev, struct err *err)
{
	struct str other AUTO(str_clear) = STR_INIT(400);
	int rc = mountpoint_compare(p, dev, &other, err);

	return rc == MOUNTPOINT_OTHER_DISK ? err_set(err, ERR_PRECONDITION, "%s", other.ptr) : rc;
}

/*
 * Sets the error for a hidden mount, which can be neither used nor unmounted. Its volume must not
 * be treated as absent, because it is still mounted.
 */
static int refuse_hidden(const struct mount_table *t, const char *path, struct err *err)
{
	const struct mount *hidden = mount_hidden_at(t, path), *cover;

	if (!hidden)
		return 0;
	cover = mount_containing(t, path);
	return err_set(err, ERR_PRECONDITION,
	               "%s of device %u:%u is mounted at %s, but %s (%s) was mounted over it at "
	               "%s: unmount %s to make it visible again",
	               hidden->fs_type, major(hidden->devno), minor(hidden->devno), path,
	               cover ? cover->fs_type : "something", cover ? cover->source : "unknown",
	               cover ? cover->target : "/", cover ? cover->target : "that");
}

/*
 * Determines the kind of a mount that is not a filesystem: a device node, or a mount that is not
 * this driver's.
 */
static int read_device_node(struct mountpoint *p, struct err *err)
{
	struct stat st;

	p->kind = MOUNTPOINT_OTHER;
	if (stat_path(p->path, &st, err))
		return -1;
	if (S_ISBLK(st.st_mode)) {
		p->kind = MOUNTPOINT_BLOCK;
		p->shown = st.st_rdev;
		p->disk = node_is_removed(p->m) ? NO_DISK : st.st_rdev;
	}
	return 0;
}

int mountpoint_read(const struct mount_table *t, const char *path, struct mountpoint *ret,
                    struct err *err)
{
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	int rc = mount_resolve_path(path, &p.path, err);

	if (rc < 0 || refuse_hidden(t, p.path ? p.path : path, err))
		return -1;
	p.m = rc == 0 ? mount_at(t, p.path) : NULL;
	/* a share is never accessed, because its server may hang */
	if (p.m && mount_is_share(p.m)) {
		p.kind = str_eq(p.m->root, "/") ? MOUNTPOINT_SHARE : MOUNTPOINT_OTHER;
		p.shown = p.disk = p.m->devno;
	} else if (p.m && (str_eq(p.m->root, "/") ? read_filesystem(&p, err)
	                                          : read_device_node(&p, err))) {
		return -1;
	}
	*ret = p;
	p = (struct mountpoint)MOUNTPOINT_INIT;
	return 0;
}

bool mountpoint_may_be_volume(const struct mount *m)
{
	static const char *const types[] = {
		"ext4", "ext3", "xfs", "btrfs", "devtmpfs", "virtiofs"
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eq(m->fs_type, types[i]))
			return true;
	return str_has_prefix(m->fs_type, "fuse.virtiofs") ||
	       (str_eq(m->fs_type, "tmpfs") && !str_eq(m->root, "/"));
}

int mountpoint_read_staged(const struct mount_table *t, const char *staging_path,
                           const char *volume_id, struct mountpoint *ret, struct err *err)
{
	char *file AUTO(free) = mountpoint_block_file(staging_path, volume_id);
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

	if (mountpoint_read(t, staging_path, ret, err))
		return -1;
	if (ret->kind != MOUNTPOINT_NONE)
		return 0;
	if (mountpoint_read(t, file, &p, err)) {
		mountpoint_clear(ret);
		return -1;
	}
	if (p.kind != MOUNTPOINT_NONE) {
		mountpoint_clear(ret);
		*ret = p;
		p = (struct mountpoint)MOUNTPOINT_INIT;
	}
	return 0;
}

/*
 * Returns true if the mount shows another device node. Names of removed nodes are reused for other
 * nodes, which may be removed as well. So an equal name does not prove that two mounts show the
 * same node, but an equal inode does. A node that cannot be read may be the same one.
 */
static bool is_other_node(const struct mountpoint *p, const struct mount *m)
{
	struct stat ours, theirs;

	return p->kind == MOUNTPOINT_BLOCK && node_is_removed(m) && stat(p->path, &ours) == 0 &&
	       stat(m->target, &theirs) == 0 && ours.st_ino != theirs.st_ino;
}

const struct mount *mountpoint_elsewhere(const struct mount_table *t, const struct mountpoint *p,
                                         const struct mountpoint *but, bool whole,
                                         const struct mount *after)
{
	const char *root = p->kind == MOUNTPOINT_BLOCK || whole ? p->m->root : NULL;
	const struct mount *m = after;

	assert(p->kind != MOUNTPOINT_NONE && p->kind != MOUNTPOINT_OTHER);
	while ((m = mount_of(t, p->m->devno, root, m))) {
		if (mount_same_mountpoint(t, m, p->m) || is_other_node(p, m))
			continue;
		if (but && but->path &&
		    (str_eq(m->target, but->path) ||
		     (but->m && mount_same_mountpoint(t, m, but->m))))
			continue;
		return m;
	}
	return NULL;
}

const char *mountpoint_probe_path(const struct mount_table *t, const struct mountpoint *p)
{
	const struct mount *m = NULL;

	assert(p->kind == MOUNTPOINT_FILESYSTEM || p->kind == MOUNTPOINT_SHARE);
	while ((m = mount_of(t, p->m->devno, "/", m)))
		if (mount_at(t, m->target) == m)
			return m->target;
	return p->path;
}

/*
 * Rejects a mount that certainly has another owner, such as the tmpfs of an emptyDir or a Secret.
 * Other types that this driver does not mount are accepted, because its predecessor mounted more
 * types.
 */
static int refuse_foreign(const struct mountpoint *p, struct err *err)
{
	static const char *const memory[] = { "tmpfs", "ramfs", "devtmpfs", "overlay",
		                              "proc",  "sysfs", NULL };

	for (const char *const *type = memory; p->kind == MOUNTPOINT_OTHER && p->m && *type; type++)
		if (str_eq(p->m->fs_type, *type) && str_eq(p->m->root, "/"))
			return err_set(err, ERR_PRECONDITION,
			               "%s shows %s (%s), which this driver does not mount: it is "
			               "left alone; unmount it by hand if it is a leftover",
			               p->path, *type, p->m->source);
	return 0;
}

static int unmount_layer(const char *path, bool lazy, struct err *err)
{
	int rc = mount_remove(path, lazy, err);

	if (rc < 0 && !lazy && mount_errno_is_dead(err->sys)) {
		err_clear(err);
		rc = mount_remove(path, true, err);
	}
	return rc;
}

/*
 * Called if umount(2) has found nothing to unmount. Usually no mount is left; but a mount namespace
 * may not unmount a mount that it got from the namespace that created it.
 */
static int check_gone(const char *path, const char *proc_root, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	if (mount_table_read(proc_root, &t, err))
		return -1;
	if (!mount_at(&t, path))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s cannot be unmounted in this mount namespace: the kernel has locked the "
	               "mount, which came from the host; unmount it there",
	               path);
}

/*
 * Unmounts the submounts of a share. If its server marks a directory as a separate mount point, the
 * kernel mounts it at the first access (fuse_dentry_automount() of fs/fuse/dir.c; the source is
 * "none"), and that keeps the share's mount busy. A submount that is in use stays.
 */
static void unmount_within_share(const struct mountpoint *p, const char *proc_root)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	char *below AUTO(free) = xasprintf("%s/", p->path);
	struct err ignored = ERR_INIT;

	if (mount_table_read(proc_root, &t, &ignored))
		return;
	for (size_t i = t.n; i > 0; i--) {
		const struct mount *m = &t.v[i - 1];
		struct err in_use = ERR_INIT;

		if (str_has_prefix(m->target, below) && mount_is_share(m) &&
		    str_eq(m->source, "none"))
			IGNORE_RESULT(mount_remove(m->target, false, &in_use));
	}
}

int mountpoint_unmount(const struct mountpoint *p, const char *proc_root, bool lazy,
                       struct err *err)
{
	if (refuse_foreign(p, err))
		return -1;
	if (p->kind == MOUNTPOINT_SHARE && !lazy)
		unmount_within_share(p, proc_root);
	for (unsigned i = 0; i < MAX_LAYERS; i++) {
		int rc = unmount_layer(p->path, lazy, err);

		if (rc == MOUNT_ABSENT)
			return i ? 0 : check_gone(p->path, proc_root, err);
		if (rc)
			return -1;
		kill_point("unmount: one layer removed");
	}
	return err_set(err, ERR_INTERNAL, "unmount %s: still mounted after %d unmounts", p->path,
	               MAX_LAYERS);
}
