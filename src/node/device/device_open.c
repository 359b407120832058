/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a device node and verifies that it is the disk described by sysfs. Checks the node through
 * an O_PATH descriptor first, so that it never opens another device. No state, any thread.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "node/device/device.h"
#include "node/device/partitions.h"

#define BUSY_TRIES 6 /* attempts of device_check_unused() */
#define BUSY_PAUSE_MS 50

/* ---- the node ---- */

static int device_open_check_mount(const struct device *dev, int fd, struct err *err)
{
	struct statvfs vfs;

	if (fstatvfs(fd, &vfs))
		return err_sys(err, errno, "statvfs of %s", dev->path);
	if (!(vfs.f_flag & ST_NODEV))
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s: its filesystem is mounted nodev, so device nodes on it cannot be "
	               "opened: findmnt -T %s names the mount; the driver's pod needs the host's "
	               "/dev",
	               dev->path, dev->path);
}

static int refuse_open(const struct device *dev, int errnum, struct err *err)
{
	if (errnum == ENOENT) {
		err_sys(err, errnum,
		        "open %s, which sysfs shows as a disk (the driver's pod needs the host's /dev)",
		        dev->path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	if (errnum == EBUSY) {
		err_set(err, ERR_PRECONDITION,
		        "device %s is in use: mounted, or part of a RAID, LVM or multipath "
		        "device (see lsblk %s)",
		        dev->path, dev->path);
		err->sys = errnum; /* EBUSY: unstage waits for the holder */
		return err_set_kind(err, ERR_KIND_HELD);
	}
	return err_sys(err, errnum, "open %s", dev->path);
}

/* Checks that the descriptor is open on the node of this device. */
static int check_node(const struct device *dev, int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_sys(err, errno, "stat %s", dev->path);
	if (!S_ISBLK(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s is not a block device node", dev->path);
	if (st.st_rdev != dev->devno)
		return err_set(err, ERR_PRECONDITION,
		               "%s is the node of device %u:%u, but in sysfs %s is %u:%u",
		               dev->path, major(st.st_rdev), minor(st.st_rdev), dev->name,
		               major(dev->devno), minor(dev->devno));
	return 0;
}

int device_check_character(const struct device *dev, struct err *err)
{
	int node AUTO(fd) = open(dev->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (node < 0)
		return refuse_open(dev, errno, err);
	if (device_open_check_mount(dev, node, err))
		return -1;
	if (fstat(node, &st))
		return err_sys(err, errno, "stat %s", dev->path);
	if (S_ISCHR(st.st_mode) && st.st_rdev == dev->devno)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s is not the node of character device %u:%u, which %s is in sysfs",
	               dev->path, major(dev->devno), minor(dev->devno), dev->name);
}

/* ---- the disk ---- */

static int check_size(const struct device *dev, int fd, struct err *err)
{
	char is[64], was[64];
	uint64_t size;

	if (ioctl(fd, BLKGETSIZE64, &size))
		return err_sys(err, errno, "get the size of %s", dev->path);
	if (size == dev->size)
		return 0;
	return err_set(err, ERR_PRECONDITION, "%s has %s (expected %s, from sysfs)", dev->path,
	               str_bytes(size, is), str_bytes(dev->size, was));
}

/*
 * Reads and checks the disk sequence number. *ret is 0 on kernels before 5.15, which do not have
 * this number. A layer between the program and the kernel (QEMU's user mode) returns ENOSYS for an
 * unknown ioctl.
 */
static int check_diskseq(const struct device *dev, int fd, uint64_t *ret, struct err *err)
{
	*ret = 0;
	if (ioctl(fd, BLKGETDISKSEQ, ret)) {
		*ret = 0;
		return errno == ENOTTY || errno == EINVAL || errno == ENOSYS
		               ? 0
		               : err_sys(err, errno, "get the sequence number of %s", dev->path);
	}
	if (!dev->diskseq || !*ret || *ret == dev->diskseq)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s is disk number %ju since boot (expected %ju): the name now belongs to "
	               "another disk",
	               dev->path, (uintmax_t)*ret, (uintmax_t)dev->diskseq);
}

static int open_node(const struct device *dev, int flags, int *ret_fd, struct err *err)
{
	int node AUTO(fd) = open(dev->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int fd AUTO(fd) = -1;
	char self[64];

	if (node < 0)
		return refuse_open(dev, errno, err);
	if (check_node(dev, node, err) || device_open_check_mount(dev, node, err))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", node);
	fd = open(self, flags | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return refuse_open(dev, errno, err);
	if (check_node(dev, fd, err))
		return -1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int device_open(const struct device *dev, int flags, int *ret_fd, uint64_t *ret_diskseq,
                struct err *err)
{
	int fd AUTO(fd) = -1;
	uint64_t diskseq;

	if (open_node(dev, flags, &fd, err) || check_size(dev, fd, err) ||
	    check_diskseq(dev, fd, &diskseq, err))
		return -1;
	if (ret_diskseq)
		*ret_diskseq = diskseq;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool device_errno_is_gone(int errnum)
{
	return errnum == ENXIO || errnum == ENODEV;
}

int device_open_partition(const struct device *disk, const struct partition *p, int *ret_fd,
                          struct err *err)
{
	int fd AUTO(fd) = -1, dir = (int)(strlen(disk->path) - strlen(disk->name));
	struct device part = *disk;
	uint64_t diskseq;

	assert(dir >= 0);
	part.devno = p->devno;
	snprintf(part.name, sizeof(part.name), "%s", p->name);
	snprintf(part.path, sizeof(part.path), "%.*s%s", dir, disk->path, p->name);
	if (open_node(&part, O_RDONLY, &fd, err) || check_diskseq(&part, fd, &diskseq, err))
		return -1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int device_check_unused(const struct device *dev, struct err *err)
{
	for (int tries = BUSY_TRIES;; tries--) {
		struct err never = ERR_INIT;
		int fd AUTO(fd) = -1;

		if (device_open(dev, O_RDONLY | O_EXCL, &fd, NULL, err) == 0)
			return 0;
		if (err->sys != EBUSY || tries == 1)
			return -1;
		err_clear(err);
		IGNORE_RESULT(deadline_sleep(deadline_never(), BUSY_PAUSE_MS, &never, ""));
	}
}
