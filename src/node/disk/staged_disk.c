/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the mount at the staging path with the request. Unmounts a removed disk, unstages a
 * filesystem that only a new mount can make usable, and changes nothing else.
 */
#include "node/disk/staged_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "node/disk/fs_fault.h"
#include "node/work/disk_record.h"
#include "node/mount/mount_same.h"
#include "node/disk/unstage_disk.h"

static int refuse_foreign_disk(const struct staged_want *w, const struct mountpoint *p,
                               struct err *err)
{
	struct str wanted AUTO(str_clear) = STR_INIT(400);

	staged_describe_disk(w->node, w->dev->devno, &wanted);
	return staged_refuse_foreign(w, p, wanted.ptr, err);
}

static int staged_disk_check_flags(const struct staged_want *w, const struct mountpoint *p,
                                   struct err *err)
{
	struct mount_asked asked = { .flags = w->flags, .no_replay = w->no_replay };
	int fd AUTO(fd) = -1;

	if (str_has_prefix(p->m->fs_type, "ext")) {
		if (device_open(w->dev, O_RDONLY, &fd, NULL, err))
			return err->sys ? err_recode(err, ERR_UNAVAILABLE) : -1;
		asked.superblock_has_flags = ext_superblock_has_flags(fd);
	}
	return staged_check_flags(&asked, p, err);
}

/*
 * Unstages a filesystem that has shut down (*err has the reason), so that it is checked and mounted
 * again. -1: it is in use elsewhere.
 */
static int unstage_stopped(const struct staged_want *w, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct unstaging u = {
		.node = w->node,
		.volume_id = w->r->volume_id,
		.table = &t,
		.mountpoint = MOUNTPOINT_INIT,
	};
	struct err why = *err;
	int rc;

	err_clear(err);
	rc = mount_table_read(w->node->o.proc_root, &t, err) ||
	                     mountpoint_read_staged(&t, w->r->staging_path, w->r->volume_id,
	                                            &u.mountpoint, err) ||
	                     unstage_disk(&u, w->deadline, err) ||
	                     disk_record_remove_unstage(w->node, w->r->volume_id, err)
	             ? -1
	             : 0;
	mountpoint_clear(&u.mountpoint);
	if (rc)
		return err_wrap(err, "its filesystem shut down (%s) and could not be unstaged",
		                why.msg);
	log_msg(LOG_WARNING, "volume %s was unmounted and will be mounted again: %s",
	        w->r->volume_id, why.msg);
	return STAGED_ABSENT;
}

/*
 * Checks a mounted filesystem that has the disk's device number. Returns 0 if it is mounted as
 * requested, or MOUNTPOINT_DISK_GONE.
 */
static int staged_disk_check_same(const struct staged_want *w, const struct mountpoint *p,
                                  struct err *err)
{
	if (staged_check_read_only(w, p, err) || staged_check_context(w->flags, p->m, err) ||
	    staged_disk_check_flags(w, p, err))
		return -1;
	return mountpoint_check_same(p, w->dev, err);
}

/*
 * First checks whether the filesystem is usable, because the mount options of one that has shut
 * down do not matter. A filesystem that was mounted read-only cannot be probed by a write.
 */
static int staged_disk_check_mounted(const struct staged_want *w, const struct mount_table *t,
                                     const struct mountpoint *p, bool *ret_stopped, struct err *err)
{
	bool write = !w->read_only && (!p->m->read_only || mount_turned_read_only(p->m));
	int rc;

	if (!str_empty(w->r->cap.fs_type) && !str_eq(p->m->fs_type, w->r->cap.fs_type))
		return err_set(err, ERR_EXISTS, "%s is already staged as %s, not as %s", p->path,
		               p->m->fs_type, w->r->cap.fs_type);
	rc = fs_fault_probe(w->node, t, p, write ? GUARD_COMMIT : GUARD_READ, err);
	if (rc == FS_FINE)
		return staged_disk_check_same(w, p, err);
	*ret_stopped = rc > 0 && fs_fault_needs_mount((enum fs_fault)rc);
	return *ret_stopped ? -1 : err_wrap(err, "volume is staged, but cannot be used");
}

/*
 * The bound device node has the right device number, but the kernel may have given that number to
 * another disk, so the disks are compared.
 */
int staged_check_block(const struct staged_want *w, const char *path, struct err *err)
{
	uint64_t seq = 0;
	int ro = 0;
	int fd AUTO(fd) = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, errno, "open the staged device %s", path);
	if (w->diskseq && ioctl(fd, BLKGETDISKSEQ, &seq) == 0 && seq != w->diskseq)
		return err_set(err, ERR_PRECONDITION,
		               "%s shows disk number %llu of this boot (expected %llu, the "
		               "volume's disk)",
		               path, (unsigned long long)seq, (unsigned long long)w->diskseq);
	if (ioctl(fd, BLKROGET, &ro) == 0 && (ro != 0) != w->read_only)
		return err_set(err, ERR_EXISTS, "%s is already staged read-%s, not read-%s", path,
		               ro ? "only" : "write", w->read_only ? "only" : "write");
	return 0;
}

int staged_disk_check(const struct staged_want *w, struct err *err)
{
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	bool block = w->r->cap.type == ACCESS_BLOCK, stopped = false;
	int rc = MOUNTPOINT_DISK_GONE;

	if (mountpoint_read_staged(w->mounts, w->r->staging_path, w->r->volume_id, &p, err))
		return -1;
	if (p.kind == MOUNTPOINT_NONE)
		return STAGED_ABSENT;
	if (p.kind == MOUNTPOINT_OTHER || p.kind == MOUNTPOINT_SHARE)
		return refuse_foreign_disk(w, &p, err);
	if (p.disk != w->dev->devno) {
		struct device other;
		int gone = device_by_number(&w->node->o.world, p.disk, &other, err);

		if (gone < 0)
			err_clear(err);
		if (gone != DEVICE_ABSENT)
			return refuse_foreign_disk(w, &p, err);
	} else if (block != (p.kind == MOUNTPOINT_BLOCK)) {
		return err_set(err, ERR_EXISTS,
		               "the volume is already staged at %s as %s, not as %s", p.path,
		               block ? "a filesystem" : "raw block",
		               block ? "raw block" : "a filesystem");
	} else {
		rc = block ? staged_check_block(w, p.path, err)
		           : staged_disk_check_mounted(w, w->mounts, &p, &stopped, err);
	}
	if (stopped)
		return unstage_stopped(w, err);
	if (rc != MOUNTPOINT_DISK_GONE)
		return rc;
	return mountpoint_unmount(&p, w->node->o.proc_root, true, err) ? -1 : STAGED_ABSENT;
}
