/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the backing device or file of each loop device in <sysfs>/block. Opens each loop device
 * without O_EXCL for that. Only a loop device that is backed by this disk is opened with O_EXCL for
 * a moment, to detect a claim. Skips a loop device whose backing file is on a file server, because
 * the query would need that server.
 */
#include "node/holders/loops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

/* Converts a device number to the format of lo_rdevice: the kernel's huge_encode_dev(). */
static uint64_t encode(dev_t d)
{
	uint64_t ma = major(d), mi = minor(d);

	return (mi & 0xff) | (ma << 8) | ((mi & ~(uint64_t)0xff) << 12);
}

/*
 * Sets *ret to true if this open loop device is backed by the disk or a partition of it, or by a
 * file of the filesystem with that number. Returns 0 or -1.
 */
static int loop_match_disk(const char *node, int fd, dev_t disk,
                           const struct partitions *partitions, bool *ret, struct err *err)
{
	struct loop_info64 info;
	int rc = ioctl(fd, LOOP_GET_STATUS64, &info);

	*ret = rc == 0 && (info.lo_rdevice == encode(disk) || info.lo_device == encode(disk));
	for (size_t i = 0; rc == 0 && i < partitions->n; i++)
		*ret |= info.lo_rdevice == encode(partitions->v[i].devno);
	/* ENXIO: the loop device has no backing device any more. */
	return rc < 0 && errno != ENXIO ? err_sys(err, errno, "get the status of %s", node) : 0;
}

/* Sets *ret to true if the loop device is claimed. Returns 0 or -1. */
static int loop_read_claim(const char *node, bool *ret, struct err *err)
{
	int fd AUTO(fd) = open(node, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);

	*ret = fd < 0;
	return fd < 0 && errno != EBUSY ? err_sys(err, errno, "open %s exclusively", node) : 0;
}

/* Returns true if the file is on a file server, where the device node of a volume never is. */
static bool is_on_file_server(const struct mount_table *t, const char *file)
{
	static const char *const remote[] = { "nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs" };
	const struct mount *m = mount_containing(t, file);

	for (size_t i = 0; m && i < ARRAY_LEN(remote); i++)
		if (str_has_prefix(m->fs_type, remote[i]))
			return true;
	return false;
}

/*
 * Returns true if the file is on the filesystem with this number. Uses the mount table, because
 * only that has the number of a btrfs.
 */
static bool is_on_filesystem(const struct mount_table *t, const char *file, dev_t number)
{
	const struct mount *m = mount_containing(t, file);

	return m && m->devno == number && !str_eq(m->fs_type, "devtmpfs");
}

static int scan_loop(const struct device_world *w, const struct mount_table *t, const char *name,
                     dev_t disk, const struct partitions *partitions, struct strs *used,
                     struct strs *idle, struct err *err)
{
	char *attr AUTO(free) = xasprintf("%s/block/%s/loop/backing_file", w->sysfs, name);
	char *node AUTO(free) = xasprintf("%s/%s", w->dev, name);
	char *file AUTO(free) = NULL;
	bool over, claimed;
	int fd AUTO(fd) = -1;

	if (file_read_line(attr, 8192, &file, err)) {
		if (err->code != ERR_NOT_FOUND && err->sys != ENXIO && err->sys != ENODEV)
			return -1;
		/* the loop device has no backing file, or was removed in the meantime */
		err_clear(err);
		return 0;
	}
	if (is_on_file_server(t, file))
		return 0;
	fd = open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENXIO || errno == ENODEV ? 0 : err_sys(err, errno, "open %s", node);
	if (loop_match_disk(node, fd, disk, partitions, &over, err))
		return -1;
	close(TAKE_FD(fd));
	if (!over && !is_on_filesystem(t, file, disk))
		return 0;
	if (loop_read_claim(node, &claimed, err))
		return -1;
	strs_addf(claimed ? used : idle, "%s (over %.200s)", name, file);
	return 0;
}

int loops_over(const struct device_world *w, const struct mount_table *t, dev_t disk,
               const struct partitions *partitions, struct strs *used, struct strs *idle,
               struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/block", w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err first = ERR_INIT;

	if (dir_list(dir, &names, err)) {
		if (err->code != ERR_NOT_FOUND)
			return -1;
		err_clear(err);
		return 0;
	}
	for (size_t i = 0; i < names.n; i++) {
		struct err failed = ERR_INIT;

		if (str_has_prefix(names.v[i], "loop") &&
		    scan_loop(w, t, names.v[i], disk, partitions, used, idle, &failed) &&
		    !first.code)
			first = failed;
	}
	if (!first.code)
		return 0;
	*err = first;
	return -1;
}
