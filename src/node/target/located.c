/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a volume by a path. struct located owns the mount table into which its mountpoint points.
 * The disk is looked up by the mount's device number. Only located_open() opens it, because
 * opening a device that hangs may block.
 */
#include "node/target/located.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"

void located_clear(struct located *l)
{
	mountpoint_clear(&l->mountpoint);
	mount_table_clear(&l->table);
}

int locate(struct node *n, const char *volume_id, const char *path, struct located *ret,
           struct err *err)
{
	int rc;

	if (mount_table_read(n->o.proc_root, &ret->table, err) ||
	    mountpoint_read_staged(&ret->table, path, volume_id, &ret->mountpoint, err))
		return -1;
	if (ret->mountpoint.kind == MOUNTPOINT_NONE || ret->mountpoint.kind == MOUNTPOINT_OTHER)
		return err_set(err, ERR_NOT_FOUND, "no volume is staged or published at %s", path);
	if (ret->mountpoint.kind == MOUNTPOINT_SHARE) {
		ret->dev = (struct device) { .kind = NULL };
		return 0;
	}
	rc = device_by_number(&n->o.world, ret->mountpoint.disk, &ret->dev, err);
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE,
		               "the device %u:%u of %s no longer exists: it was detached while "
		               "in use",
		               major(ret->mountpoint.shown), minor(ret->mountpoint.shown),
		               ret->mountpoint.path);
	return rc;
}

int located_open(const struct located *l, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(&l->dev, O_RDONLY, &fd, NULL, err);
}
