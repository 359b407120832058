/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the staged disk with the publish context: by its number, and where numbers may have been
 * reused by what proves a disk. Changes nothing.
 */
#include "node/stage/publish_disk.h"

#include <sys/sysmacros.h>

#include "common/cleanup.h"

/* Is the disk that is staged the one that the publish context leads to? */
static int publish_disk_check_wanted(const struct node *n, const struct publish_request *r,
                                     const struct mountpoint *p, struct device *dev,
                                     struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(400);
	int rc = device_find(&n->o.world, r->want, dev, &why, err);

	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE, "it is staged, but its device has gone: %s",
		               why.ptr);
	if (dev->devno == p->disk)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "device %u:%u is staged at %s, but the volume is on %s (%u:%u, function "
	               "%s, namespace %u)",
	               major(p->disk), minor(p->disk), p->path, dev->path, major(dev->devno),
	               minor(dev->devno), dev->pci, dev->nsid);
}

int publish_check_disk(const struct node *n, const struct publish_request *r,
                       const struct mountpoint *p, struct device *ret, struct err *err)
{
	int rc = device_by_number(&n->o.world, p->disk, ret, err);

	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its device %u:%u has gone: "
		               "it was detached while in use",
		               p->path, major(p->shown), minor(p->shown));
	if (r->want && !device_is_surely(&n->o.world, ret, r->want) &&
	    publish_disk_check_wanted(n, r, p, ret, err))
		return -1;
	rc = mountpoint_check_same(p, ret, err);
	if (rc == MOUNTPOINT_DISK_GONE)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its disk has gone: %s is another one",
		               p->path, ret->path);
	return rc;
}
