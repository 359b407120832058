/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks each loop device in <sysfs>/block which device it is over. It is opened without O_EXCL for
 * that; only one that is over this disk is opened with O_EXCL for a moment, to see whether somebody
 * has claimed it. A loop device over a file of a file server is not asked: the answer would need
 * that server.
 */
#include "node/loops.h"

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

/* A device number as lo_rdevice has it: the kernel's huge_encode_dev(). */
static uint64_t encode(dev_t d)
{
	uint64_t ma = major(d), mi = minor(d);

	return (mi & 0xff) | (ma << 8) | ((mi & ~(uint64_t)0xff) << 12);
}

static bool is_over(int fd, dev_t disk)
{
	struct loop_info64 info;

	return ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_rdevice == encode(disk);
}

static bool is_claimed(const char *node)
{
	int fd AUTO(fd) = open(node, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 && errno == EBUSY;
}

/* The device node of a volume is never on a file server. */
static bool is_on_file_server(const struct mount_table *t, const char *file)
{
	static const char *const remote[] = { "nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs" };
	const struct mount *m = mount_containing(t, file);

	for (size_t i = 0; m && i < ARRAY_LEN(remote); i++)
		if (str_has_prefix(m->fs_type, remote[i]))
			return true;
	return false;
}

static void look_at(const struct device_world *w, const struct mount_table *t, const char *name,
                    dev_t disk, struct strs *used, struct strs *idle)
{
	char *attr AUTO(free) = xasprintf("%s/block/%s/loop/backing_file", w->sysfs, name);
	char *node AUTO(free) = xasprintf("%s/%s", w->dev, name);
	char *file AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	int fd AUTO(fd) = -1;

	if (file_read_line(attr, 8192, &file, &ignored) || is_on_file_server(t, file))
		return;
	fd = open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || !is_over(fd, disk))
		return;
	close(TAKE_FD(fd));
	strs_addf(is_claimed(node) ? used : idle, "%s (over %.200s)", name, file);
}

void loops_over(const struct device_world *w, const struct mount_table *t, dev_t disk,
                struct strs *used, struct strs *idle)
{
	char *dir AUTO(free) = xasprintf("%s/block", w->sysfs);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(dir, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n; i++)
		if (str_has_prefix(names.v[i], "loop"))
			look_at(w, t, names.v[i], disk, used, idle);
}
