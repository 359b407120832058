/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a volume by a path. struct located owns the mount table into which its place points. The
 * disk is looked up by the mount's device number; only located_open() opens it, because opening a
 * device that hangs may block.
 */
#include "node/target/located.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"

void located_clear(struct located *l)
{
	place_clear(&l->place);
	mount_table_clear(&l->table);
}

int locate(struct node *n, const char *volume_id, const char *path, struct located *ret,
           struct err *err)
{
	int rc;

	if (mount_table_read(n->o.proc_root, &ret->table, err) ||
	    place_look_staged(&ret->table, path, volume_id, &ret->place, err))
		return -1;
	if (ret->place.kind == PLACE_NOTHING || ret->place.kind == PLACE_OTHER)
		return err_set(err, ERR_NOT_FOUND, "no volume is staged or published at %s", path);
	if (ret->place.kind == PLACE_SHARE) {
		ret->dev = (struct device) { .kind = NULL };
		return 0;
	}
	rc = device_by_number(&n->o.world, ret->place.disk, &ret->dev, err);
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE,
		               "the device %u:%u of %s has gone: it was detached while in use",
		               major(ret->place.shown), minor(ret->place.shown), ret->place.path);
	return rc;
}

int located_open(const struct located *l, struct err *err)
{
	int fd AUTO(fd) = -1;

	return device_open(&l->dev, O_RDONLY, &fd, NULL, err);
}
