/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the staged share with the publish context: by the tag, and by the device that has it
 * now. The staged mount must answer, because a pod would start with one that never will. Changes
 * nothing.
 */
#include "node/stage/publish_share.h"

#include "common/cleanup.h"
#include "node/target/share.h"

static int publish_share_check_wanted(const struct node *n, const struct publish_request *r,
                                      const struct mountpoint *p, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(400);
	struct device dev;
	int rc;

	if (!str_eq(p->m->source, r->want->tag))
		return err_set(err, ERR_PRECONDITION,
		               "the virtio-fs tag %s is staged at %s, but the volume is the tag %s",
		               p->m->source, p->path, r->want->tag);
	rc = device_find(&n->o.world, r->want, &dev, &why, err);
	if (rc <= 0)
		return rc;
	return err_set(err, ERR_UNAVAILABLE, "it is staged, but its device has gone: %s", why.ptr);
}

int publish_check_share(const struct node *n, const struct publish_request *r,
                        const struct mountpoint *p, struct err *err)
{
	int rc = share_probe(n, p->disk, p->path, err);

	if (rc < 0)
		return err_wrap(err, "it is staged");
	if (rc == SHARE_DEAD)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its device, or the server behind it, has "
		               "gone: end all pods of the volume on this node, then it is unstaged "
		               "and staged anew",
		               p->path);
	return r->want ? publish_share_check_wanted(n, r, p, err) : 0;
}
