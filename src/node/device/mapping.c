/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads dm/name, dm/uuid and slaves of block devices. The mapping is removed by its number, through
 * the control device, without libdevmapper: libcryptsetup retries for seconds if the mapping is in
 * use, and its caller would have to load the library.
 */
#include "node/device/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/block.h"
#include "node/device/sysfs.h"
#include "volume/luks_name.h"

#define DM_UUID_PREFIX "CRYPT-LUKS2-" /* of libcryptsetup */

/*
 * Opens the control device of device-mapper, and prepares a request about the mapping of `size`
 * bytes. Returns -1 with errno.
 */
static int open_control(const struct device_world *w, const char *mapping, struct dm_ioctl *dm,
                        size_t size)
{
	char *path AUTO(free) = xasprintf("%s/mapper/control", w->dev);

	*dm = (struct dm_ioctl) { .version = { DM_VERSION_MAJOR, 0, 0 },
		                  .data_size = (uint32_t)size,
		                  .data_start = sizeof(*dm) };
	snprintf(dm->name, sizeof(dm->name), "%s", mapping);
	return open(path, O_RDWR | O_CLOEXEC);
}

/*
 * Returns 1 if the mapping's disk was removed, 0 if it exists, or -1. sysfs keeps only the name of
 * the disk below a mapping, and the kernel may have given that name to a new disk. It does not give
 * its number to another disk while the mapping has it open.
 */
static int disk_was_removed(const struct device_world *w, const char *mapping, const char *disk,
                            struct err *err)
{
	struct {
		struct dm_ioctl dm;
		uint32_t count, padding; /* struct dm_target_deps, of one device */
		uint64_t dev;
	} q = { .count = 0 };
	int fd AUTO(fd) = open_control(w, mapping, &q.dm, sizeof(q));
	struct device now;
	int rc = block_read(w, disk, &now, err);

	if (rc)
		return rc < 0 ? -1 : 1;
	if (fd < 0 || ioctl(fd, DM_TABLE_DEPS, &q) < 0)
		return 0;
	return q.count == 1 && (dev_t)q.dev != now.devno;
}

int mapping_disk(const struct device_world *w, const char *block, char name[LUKS_MAPPING_SIZE],
                 char **ret, struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/class/block/%s", w->sysfs, block);
	char *slaves_dir AUTO(free) = xasprintf("%s/slaves", dir);
	char *mapping AUTO(free) = NULL, *uuid AUTO(free) = NULL;
	struct strs slaves AUTO(strs_clear) = STRS_INIT;
	int rc;

	if (!str_has_prefix(block, "dm-"))
		return DEVICE_ABSENT;
	if (sysfs_attr(dir, "dm/name", &mapping, err) < 0 ||
	    sysfs_attr(dir, "dm/uuid", &uuid, err) < 0 || sysfs_list(slaves_dir, &slaves, err) < 0)
		return -1;
	if (!mapping || !str_has_prefix(mapping, LUKS_MAPPING_PREFIX) || !uuid ||
	    !str_has_prefix(uuid, DM_UUID_PREFIX) || slaves.n > 1)
		return DEVICE_ABSENT;
	snprintf(name, LUKS_MAPPING_SIZE, "%s", mapping);
	rc = slaves.n ? disk_was_removed(w, name, slaves.v[0], err) : 1;
	if (rc < 0)
		return -1;
	*ret = rc ? NULL : xstrdup(slaves.v[0]);
	return 0;
}

/* Calls fn for each mapping until it returns a value other than 0, which is then the result. */
static int mapping_each(const struct device_world *w,
                        int (*fn)(const char *block, const char *mapping, void *arg), void *arg,
                        struct err *err)
{
	char *dir AUTO(free) = xasprintf("%s/class/block", w->sysfs);
	struct strs blocks AUTO(strs_clear) = STRS_INIT;
	int rc = 0;

	if (sysfs_list(dir, &blocks, err) < 0)
		return -1;
	for (size_t i = 0; i < blocks.n && !rc; i++) {
		char *disk AUTO(free) = NULL;
		char mapping[LUKS_MAPPING_SIZE];

		rc = mapping_disk(w, blocks.v[i], mapping, &disk, err);
		if (rc < 0)
			return -1;
		rc = rc ? 0 : fn(blocks.v[i], mapping, arg);
	}
	return rc;
}

struct mapping_search {
	const char *mapping;
	char *block;
};

static int mapping_is(const char *block, const char *mapping, void *arg)
{
	struct mapping_search *s = arg;

	if (!str_eq(mapping, s->mapping))
		return 0;
	s->block = xstrdup(block);
	return 1;
}

int mapping_block(const struct device_world *w, const char *mapping, char **ret, struct err *err)
{
	struct mapping_search s = { .mapping = mapping };
	int rc = mapping_each(w, mapping_is, &s, err);

	*ret = s.block;
	return rc < 0 ? -1 : rc ? 0 : DEVICE_ABSENT;
}

static int mapping_add(const char *block, const char *mapping, void *arg)
{
	(void)block;
	strs_add(arg, mapping);
	return 0;
}

int mapping_list(const struct device_world *w, struct strs *ret, struct err *err)
{
	return mapping_each(w, mapping_add, ret, err);
}

/*
 * libdevmapper creates the node in /dev/mapper itself if udev has not created a link there, and only
 * libdevmapper or udev removes it.
 */
static void remove_node(const struct device_world *w, const struct device *mapping)
{
	char *path AUTO(free) = xasprintf("%s/mapper/%s", w->dev, mapping->mapping);
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == mapping->devno)
		unlink(path);
}

int mapping_remove(const struct device_world *w, const struct device *mapping, struct err *err)
{
	struct dm_ioctl dm;
	/* By name, because the kernel may have given the number to another mapping. */
	int fd AUTO(fd) = open_control(w, mapping->mapping, &dm, sizeof(dm));

	if (fd < 0)
		return err_sys(err, errno, "open %s/mapper/control", w->dev);
	if (ioctl(fd, DM_DEV_REMOVE, &dm) < 0 && errno != ENXIO) {
		int e = errno;

		err_sys(err, e, "close the encrypted mapping %s (%s)", mapping->mapping,
		        mapping->path);
		err->sys = e;
		return -1;
	}
	remove_node(w, mapping);
	return 0;
}
