/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison of what is at the staging path with the share that is wanted there: the tag, how
 * it is mounted, and whether it is the superblock to which the tag leads now. Takes away what a
 * device that has gone has left, and changes nothing else.
 */
#include "node/share/staged_share.h"

#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "node/mount/mount_same.h"
#include "node/target/share.h"

static int refuse_foreign_share(const struct staged_want *w, const struct mountpoint *p,
                                struct err *err)
{
	char wanted[80];

	snprintf(wanted, sizeof(wanted), "the virtio-fs tag %s", w->r->want.tag);
	return staged_refuse_foreign(w, p, wanted, err);
}

/*
 * A device may have gone and another one have taken its tag, while a mount of the first is still
 * there.
 */
int staged_share_check_same(const struct staged_want *w, const struct mountpoint *p,
                            struct err *err)
{
	dev_t now = 0;
	int rc = share_probe_tag(w->node, w->r->volume_id, w->r->want.tag, w->flags, &now, err);

	if (rc < 0)
		return -1;
	if (rc == SHARE_NO_TAG)
		return err_set(
			err, ERR_UNAVAILABLE,
			"%s shows the virtio-fs tag %s, but no device of this host has it any "
			"more",
			p->path, w->r->want.tag);
	if (now == p->disk)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s shows another share than the one that the virtio-fs tag %s leads to now "
	               "(superblocks %u:%u and %u:%u): unpublish and unstage the volume first",
	               p->path, w->r->want.tag, major(p->disk), minor(p->disk), major(now),
	               minor(now));
}

/* A share is mounted there. 0: as wanted; MOUNTPOINT_DISK_GONE: its device has gone. */
static int staged_share_check_mounted(const struct staged_want *w, const struct mountpoint *p,
                                      struct err *err)
{
	const struct mount_asked asked = { .flags = w->flags };
	int rc = share_probe(w->node, p->disk, p->path, err);

	if (rc == SHARE_DEAD)
		return MOUNTPOINT_DISK_GONE;
	if (rc)
		return err_wrap(err, "volume is staged, but its share cannot be looked at");
	if (!str_eq(p->m->source, w->r->want.tag))
		return refuse_foreign_share(w, p, err);
	if (staged_check_read_only(w, p, err) || staged_check_context(w->flags, p->m, err) ||
	    staged_check_flags(&asked, p, err))
		return -1;
	return staged_share_check_same(w, p, err);
}

static int staged_share_check_disk(const struct staged_want *w, const struct mountpoint *p,
                                   struct err *err)
{
	struct err ignored = ERR_INIT;
	struct device dev;

	return device_by_number(&w->node->o.world, p->disk, &dev, &ignored) == DEVICE_ABSENT
	               ? MOUNTPOINT_DISK_GONE
	               : refuse_foreign_share(w, p, err);
}

int staged_share_check(const struct staged_want *w, struct err *err)
{
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	int rc;

	if (mountpoint_read_staged(w->mounts, w->r->staging_path, w->r->volume_id, &p, err))
		return -1;
	switch (p.kind) {
	case MOUNTPOINT_NONE:
		return STAGED_ABSENT;
	case MOUNTPOINT_SHARE:
		rc = staged_share_check_mounted(w, &p, err);
		break;
	case MOUNTPOINT_FILESYSTEM:
	case MOUNTPOINT_BLOCK:
		rc = staged_share_check_disk(w, &p, err);
		break;
	case MOUNTPOINT_OTHER:
	default:
		return refuse_foreign_share(w, &p, err);
	}
	if (rc != MOUNTPOINT_DISK_GONE)
		return rc;
	return mountpoint_unmount(&p, w->node->o.proc_root, true, err) ? -1 : STAGED_ABSENT;
}
