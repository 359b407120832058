/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unstages a disk. Before any change, returns an error if the volume is mounted elsewhere,
 * including other mount namespaces that this process sees. For raw block it also returns an error
 * if a process has the device open exclusively or for writing, or uses a loop device that it backs.
 * The same applies to the disk's partitions.
 *
 * Some holders of a filesystem are detected only after its mount here is removed, because only then
 * can the device be claimed. Such holders are files open in a lazily detached mount, and namespaces
 * of processes that this process cannot see. The filesystem is then not mounted again, because that
 * could replay a journal that a reader-only volume must not touch, and the new mount would lack
 * options of the old one. The volume stays unmounted, the call returns UNAVAILABLE, and because of
 * a record of the disk (disk_record.h) each retry checks again until the disk is free.
 */
#include "node/disk/unstage_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/thread.h"
#include "node/target/busy.h"
#include "node/target/guard.h"
#include "node/work/disk_record.h"
#include "node/work/orphan_tool.h"
#include "node/disk/writers.h"

/* ---- the holders ---- */

/* Prefixes the error with `what` and the names of the device's holders. */
static int name_holders(const struct unstaging *u, const char *what, struct deadline d,
                        struct err *err)
{
	struct str text AUTO(str_clear) = STR_INIT(600);
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q = unstaging_query(u);

	q.mounts = true;
	holders_find(&q, d, &h);
	holders_describe(&h, &q, u->dev.path, &text);
	metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("process"));
	return err_wrap(err, "%s%s", what, text.ptr);
}

/*
 * Called if raw block is claimed: names the mount of a partition, or the process, that has claimed
 * it. A mount of the disk itself was already rejected by unstaging_refuse_published().
 */
static int name_claim(const struct unstaging *u, const struct partitions *partitions,
                      struct deadline d, struct err *err)
{
	const struct mount *m = NULL;

	for (size_t i = 0; !m && i < partitions->n; i++)
		m = mount_of(u->table, partitions->v[i].devno, NULL, NULL);
	if (!m)
		return name_holders(u, "", d, err);
	metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("mount"));
	return err_wrap(err, "its partition %s is mounted at %s: unmount it", m->source, m->target);
}

/*
 * Rejects the unstage while a process writes to raw block, which may be open without being claimed.
 * A reader would lose no data, but a writer would. An idle loop device was left behind by kubelet,
 * so it is only logged.
 */
static int refuse_while_written(const struct unstaging *u, const struct partitions *partitions,
                                struct deadline d, bool *ret_open, struct err *err)
{
	const struct written_disk disk = { u->node, u->table, &u->dev, partitions };
	struct writers w;

	if (writers_refuse(&disk, d, &w, err)) {
		if (w.kind)
			metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS(w.kind));
		return -1;
	}
	if (*w.idle && u->dev.lower) {
		metric_add(METRIC_UNSTAGE_BLOCKED, 1, LABELS("loop device"));
		err_set(err, ERR_PRECONDITION,
		        "an idle loop device keeps its encrypted mapping open (%s); next: detach it "
		        "with losetup -d",
		        w.idle);
		return err_set_kind(err, ERR_KIND_HELD);
	}
	if (*w.idle)
		log_msg(LOG_WARNING,
		        "volume %s is unstaged, but a loop device still uses its disk: %s; "
		        "detach it with losetup -d",
		        u->volume_id, w.idle);
	*ret_open = w.open;
	return 0;
}

/* ---- the device ---- */

/* Waits a moment until no other process has the device open exclusively. Returns 0 if none has. */
FRAME_OF_ITS_OWN static int wait_until_free(const struct unstaging *u, struct deadline d,
                                            struct err *err)
{
	struct deadline end = deadline_clamp(d, u->node->o.tuning.unstaging_ms);

	for (;;) {
		struct err ignored = ERR_INIT;
		int fd AUTO(fd) = -1;

		if (device_open(&u->dev, O_RDONLY | O_EXCL, &fd, NULL, err) == 0)
			return 0;
		if (err->sys != EBUSY || deadline_sleep(end, UNSTAGING_STEP_MS, &ignored, ""))
			return -1;
		err_clear(err);
	}
}

static int write_back_fd(int fd, const char *path, struct err *err)
{
	thread_rest(); /* this may hang */
	return fsync(fd) < 0 ? err_sys(err, errno, "write back %s", path) : 0;
}

/*
 * Writes back a partition. Ignores one that was removed since it was listed, or that has no device
 * node and is not open, because the kernel has already written back its data.
 */
static int write_back_partition(const struct unstaging *u, const struct partition *p, bool open,
                                struct err *err)
{
	int fd AUTO(fd) = -1;

	if (device_open_partition(&u->dev, p, &fd, err) == 0)
		return write_back_fd(fd, p->name, err);
	if (!device_errno_is_gone(err->sys) && (err->sys != ENOENT || open))
		return -1;
	err_clear(err);
	return 0;
}

/*
 * Writes back the disk's data now; data that are written back later would be lost with the
 * function. The kernel reports a write error only once.
 */
static int write_back(const struct unstaging *u, const struct partitions *partitions, bool open,
                      struct err *err)
{
	int fd AUTO(fd) = -1;

	for (size_t i = 0; i < partitions->n; i++)
		if (write_back_partition(u, &partitions->v[i], open, err))
			return -1;
	return device_open(&u->dev, O_RDONLY, &fd, NULL, err) ? -1
	                                                      : write_back_fd(fd, u->dev.path, err);
}

FRAME_OF_ITS_OWN static void make_writable(const struct unstaging *u)
{
	struct err ignored = ERR_INIT;
	int fd AUTO(fd) = -1, off = 0;

	if (device_open(&u->dev, O_RDONLY, &fd, NULL, &ignored) == 0)
		ioctl(fd, BLKROSET, &off);
}

/*
 * Waits until the disk is free. The filesystem is not mounted in this namespace any more, so a
 * remaining holder is not a mount of this driver.
 */
static int wait_for_release(const struct unstaging *u, struct deadline d, struct err *err)
{
	if (wait_until_free(u, d, err) == 0)
		return 0;
	if (device_errno_is_gone(err->sys)) { /* it was removed after identify() */
		err_clear(err);
		return 0;
	}
	if (err->sys == EBUSY) {
		kill_point("unstage: unmounted, device still held");
		name_holders(u,
		             "its staging path is unmounted, but its filesystem is still in use "
		             "by a process or frozen (fsfreeze -f), or another holder has the "
		             "device open; ",
		             d, err);
	}
	return err_recode(err, ERR_UNAVAILABLE);
}

FRAME_OF_ITS_OWN static int write_record(const struct unstaging *u, struct err *err)
{
	const struct disk_record r = {
		.volume_id = u->volume_id, .dev = &u->dev, .diskseq = u->dev.diskseq, .fs = u->fs
	};

	return disk_record_put_unstage(u->node, &r, err);
}

/*
 * Thaws a frozen filesystem before the unmount. A freeze holds the superblock, and with it the
 * disk, even after the last mount is removed; after that, the freeze can no longer be ended. A
 * filesystem that returns the errno of a dead disk cannot be thawed, and one whose disk was removed
 * is detached in any case.
 */
static int thaw(const struct unstaging *u, struct err *err)
{
	if (guard_ask(u->node->guard, GUARD_THAW, u->mountpoint.disk, u->mountpoint.path, err) == 0)
		return 0;
	if (u->gone || mount_errno_is_dead(err->sys)) {
		err_clear(err);
		return 0;
	}
	err_recode(err, ERR_UNAVAILABLE);
	return err_wrap(err,
	                "its filesystem may be frozen (fsfreeze -f) and stays mounted; next: "
	                "fsfreeze -u %s",
	                u->mountpoint.path);
}

static int unstage_filesystem(struct unstaging *u, struct deadline d, struct err *err)
{
	if (u->ours && (unstaging_refuse_captured(u, d, err) || write_record(u, err)))
		return -1;
	if (u->ours)
		kill_point("unstage: record of the disk written");
	if (thaw(u, err))
		return -1;
	kill_point("unstage: filesystem not frozen");
	mount_table_keep(u->table, &u->mountpoint.m);
	if (busy_unmount(u->node, &u->mountpoint, u->gone, d, err))
		return -1;
	if (!u->ours)
		return 0;
	if (wait_for_release(u, d, err))
		return -1;
	make_writable(u); /* stage has made the device of a read-only volume read-only */
	return 0;
}

int unstage_disk_finish(struct unstaging *u, struct deadline d, struct err *err)
{
	struct err ignored = ERR_INIT;
	struct device dev;
	dev_t fs;
	int rc = orphan_tool_check(u->node, u->volume_id, d, err);

	if (!rc)
		rc = disk_record_read(u->node, u->volume_id, DISK_RECORD_UNSTAGE, &dev, &fs, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	u->dev = dev;
	u->fs = fs;
	u->mountpoint.disk = dev.devno;
	if (wait_for_release(u, d, err))
		return -1;
	make_writable(u);
	IGNORE_RESULT(device_release(&u->node->o.world, &u->dev, &ignored));
	return 0;
}

/*
 * Returns 0 if no process uses the disk or one of these partitions, and all written data is on the
 * disk.
 */
static int settle_with(const struct unstaging *u, const struct partitions *partitions,
                       struct deadline d, struct err *err)
{
	bool open = false;

	if (wait_until_free(u, d, err))
		return err->sys == EBUSY ? name_claim(u, partitions, d, err) : -1;
	if (refuse_while_written(u, partitions, d, &open, err))
		return -1;
	return write_back(u, partitions, open, err);
}

/*
 * Repeats the check if a partition has appeared during it, because that partition was not checked.
 */
static int settle(const struct unstaging *u, struct deadline d, struct err *err)
{
	struct partitions now AUTO(partitions_clear) = PARTITIONS_INIT;

	if (partitions_read(u->node->o.proc_root, u->mountpoint.disk, &now, err))
		return -1;
	for (;;) {
		struct partitions seen AUTO(partitions_clear) = now;

		now = (struct partitions)PARTITIONS_INIT;
		if (settle_with(u, &seen, d, err) ||
		    partitions_read(u->node->o.proc_root, u->mountpoint.disk, &now, err))
			return -1;
		if (partitions_equal(&now, &seen))
			return 0;
		if (deadline_check(d, err, "its partitions changed during the check"))
			return -1;
	}
}

static int unstage_block(struct unstaging *u, struct deadline d, struct err *err)
{
	if (u->ours && settle(u, d, err))
		return -1;
	kill_point("unstage: device written back");
	mount_table_keep(u->table, &u->mountpoint.m);
	if (busy_unmount(u->node, &u->mountpoint, u->gone, d, err))
		return -1;
	if (u->ours)
		make_writable(u);
	kill_point("unstage: device made writable");
	return 0;
}

/*
 * Checks that the opened disk is the btrfs's disk. If that disk was removed, another disk may have
 * been opened, which does not belong to this volume. Probes through the guard first, so that a
 * filesystem that hangs does not block this thread.
 */
static int recheck_btrfs(struct unstaging *u, struct err *err)
{
	struct str ignored AUTO(str_clear) = STR_INIT(400);
	struct statvfs fs;
	int rc;

	if (!mountpoint_is_btrfs(&u->mountpoint))
		return 0;
	if (guard_statvfs(u->node->guard, u->mountpoint.disk, u->mountpoint.path, &fs, err) &&
	    !mount_errno_is_dead(err->sys))
		return -1;
	err_clear(err);
	rc = mountpoint_compare(&u->mountpoint, &u->dev, &ignored, err);
	if (rc == 0 || (rc < 0 && !mount_errno_is_dead(err->sys)))
		return rc;
	err_clear(err); /* a dead disk that cannot be read is treated as removed */
	u->gone = rc > 0;
	u->ours = false;
	u->dev = (struct device) { .kind = NULL };
	u->mountpoint.disk = 0;
	return 0;
}

/*
 * Identifies the disk, and checks whether this host still has it. A disk that is dead, or not an
 * NVMe namespace, is only unmounted, because no data can be lost there. A disk that cannot be
 * opened for another reason (out of descriptors, /dev is not the host's) may be in use, which is an
 * error.
 */
static int identify(struct unstaging *u, struct err *err)
{
	int fd AUTO(fd) = -1;
	int rc = device_by_number(&u->node->o.world, u->mountpoint.disk, &u->dev, err);

	u->gone = rc == DEVICE_ABSENT;
	if (rc == 0 && u->dev.nsid != 0) {
		rc = device_open(&u->dev, O_RDONLY, &fd, NULL, err);
		u->ours = rc == 0;
		if (rc == 0) {
			rc = recheck_btrfs(u, err);
		} else if (device_errno_is_gone(err->sys)) {
			err_clear(err);
			rc = 0;
		}
	}
	if (rc >= 0)
		return 0;
	err_wrap(err, "could not determine whether the disk that is mounted at %s is in use",
	         u->mountpoint.path);
	return err_recode(err, ERR_UNAVAILABLE);
}

FRAME_OF_ITS_OWN static void let_go(const struct unstaging *u)
{
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(device_release(&u->node->o.world, &u->dev, &ignored));
}

int unstage_disk(struct unstaging *u, struct deadline d, struct err *err)
{
	int rc;

	u->fs = u->mountpoint.kind == MOUNTPOINT_FILESYSTEM ? u->mountpoint.m->devno : 0;
	if (identify(u, err) || unstaging_refuse_published(u, err))
		return -1;
	kill_point("unstage: no other mount shows it");
	rc = u->mountpoint.kind == MOUNTPOINT_BLOCK ? unstage_block(u, d, err)
	                                            : unstage_filesystem(u, d, err);
	if (rc)
		return -1;
	kill_point("unstage: device released");
	if (u->ours)
		let_go(u);
	return 0;
}
