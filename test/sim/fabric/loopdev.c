/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctls of the loop driver. If /dev has no node for a device, a temporary one is created, so
 * that more than the machine's static /dev/loop0 to 7 can be used. No state.
 */
#include "test/sim/fabric/loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

#define LOOP_MAJOR_NUMBER 7
#define LOOPS_MAX 256 /* numbers that a search covers */

/* -1 and errno. Creates a temporary node if it is missing in /dev. */
static int open_loop(unsigned number, int flags)
{
	char *path AUTO(free) = xasprintf("/dev/loop%u", number);
	char *own AUTO(free) = NULL;
	int fd = open(path, flags | O_CLOEXEC), why;

	if (fd >= 0 || errno != ENOENT)
		return fd;
	own = xasprintf("/dev/.snap-sim-%d-loop%u", (int)getpid(), number);
	if (mknod(own, S_IFBLK | 0600, makedev(LOOP_MAJOR_NUMBER, number)))
		return -1;
	fd = open(own, flags | O_CLOEXEC);
	why = errno;
	unlink(own);
	errno = why;
	return fd;
}

static int free_number(unsigned *ret, struct err *err)
{
	int control AUTO(fd) = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int n;

	if (control < 0)
		return err_sys(err, errno, "open /dev/loop-control");
	n = ioctl(control, LOOP_CTL_GET_FREE);
	if (n < 0)
		return err_set(err, ERR_EXHAUSTED,
		               "no loop device is free (losetup -a lists them)");
	*ret = (unsigned)n;
	return 0;
}

/* configure(): another process was faster. */
enum { LOOP_TAKEN = 1 };

/* 0, LOOP_TAKEN, -1. */
static int configure(unsigned number, int image, unsigned sector_size, uint64_t *diskseq,
                     struct err *err)
{
	int fd AUTO(fd) = open_loop(number, O_RDWR);
	struct loop_config config = { .fd = (unsigned)image, .block_size = sector_size };

	if (fd < 0)
		return err_sys(err, errno, "open /dev/loop%u", number);
	/*
	 * mkfs.btrfs treats two loop devices with the same file name as one device, even if both
	 * names are empty.
	 */
	snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name), "/dev/loop%u",
	         number);
	if (ioctl(fd, LOOP_CONFIGURE, &config))
		return errno == EBUSY ? LOOP_TAKEN
		                      : err_sys(err, errno, "configure /dev/loop%u", number);
	/* An earlier user may have made the device read-only, which outlives its image. */
	if (ioctl(fd, BLKROSET, &(int) { 0 }))
		return err_sys(err, errno, "make /dev/loop%u writable", number);
	*diskseq = 0;
#ifdef BLKGETDISKSEQ
	if (ioctl(fd, BLKGETDISKSEQ, diskseq))
		*diskseq = 0;
#endif
	return 0;
}

int loopdev_attach(const char *image, unsigned sector_size, struct loopdev *ret, struct err *err)
{
	int fd AUTO(fd) = open(image, O_RDWR | O_CLOEXEC);
	struct loopdev l = { 0 };
	int rc = LOOP_TAKEN;

	if (fd < 0)
		return err_sys(err, errno, "open %s", image);
	/* Other programs search for a free one at the same time. */
	for (int tries = 0; rc == LOOP_TAKEN && tries < 100; tries++) {
		if (free_number(&l.number, err))
			return -1;
		rc = configure(l.number, fd, sector_size, &l.diskseq, err);
	}
	if (rc == LOOP_TAKEN)
		return err_set(err, ERR_EXHAUSTED, "every free loop device was taken by others");
	if (rc < 0)
		return -1;
	l.devno = makedev(LOOP_MAJOR_NUMBER, l.number);
	*ret = l;
	return 0;
}

int loopdev_detach(const struct loopdev *l, bool *ret_busy, struct err *err)
{
	int fd AUTO(fd) = open_loop(l->number, O_RDONLY);
	struct loop_info64 now;

	if (fd < 0)
		return err_sys(err, errno, "open /dev/loop%u", l->number);
	if (ioctl(fd, LOOP_CLR_FD) && errno != ENXIO)
		return err_sys(err, errno, "detach /dev/loop%u", l->number);
	/*
	 * While another process has it open, LOOP_CLR_FD only marks the device, which stays. On
	 * newer kernels our own open counts, too, so a caller that needs to know calls
	 * loopdev_is_over().
	 */
	*ret_busy = ioctl(fd, LOOP_GET_STATUS64, &now) == 0;
	return 0;
}

int loopdev_grow(const struct loopdev *l, struct err *err)
{
	int fd AUTO(fd) = open_loop(l->number, O_RDONLY);

	if (fd < 0)
		return err_sys(err, errno, "open /dev/loop%u", l->number);
	if (ioctl(fd, LOOP_SET_CAPACITY))
		return err_sys(err, errno, "grow /dev/loop%u", l->number);
	return 0;
}

/* Opened without O_EXCL and closed at once, which has no effect. */
static bool is_over(unsigned number, const struct stat *image)
{
	char *path AUTO(free) = xasprintf("/sys/dev/block/%d:%u/loop", LOOP_MAJOR_NUMBER, number);
	int fd AUTO(fd) = -1;
	struct loop_info64 info;

	/* The directory exists only while the device has a file. */
	if (access(path, F_OK))
		return false;
	fd = open_loop(number, O_RDONLY);
	return fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 &&
	       info.lo_device == image->st_dev && info.lo_inode == image->st_ino;
}

bool loopdev_is_over(const char *image)
{
	struct stat st;

	if (stat(image, &st))
		return false;
	for (unsigned n = 0; n < LOOPS_MAX; n++)
		if (is_over(n, &st))
			return true;
	return false;
}

void loopdev_detach_all(const char *image)
{
	struct stat st;

	if (stat(image, &st))
		return;
	for (unsigned n = 0; n < LOOPS_MAX; n++) {
		int fd AUTO(fd) = -1;

		if (!is_over(n, &st))
			continue;
		fd = open_loop(n, O_RDONLY);
		if (fd >= 0)
			ioctl(fd, LOOP_CLR_FD);
	}
}
