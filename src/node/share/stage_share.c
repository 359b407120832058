/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages a share. mount(2) identifies a share only by its tag, so the tag is first proven to be
 * that of the volume's function: the kernel or the function shows it (device.h), or the tag could
 * not be mounted before the function was bound to its driver, or no other device is bound to that
 * driver. Then the share is mounted once and verified: mountinfo must show the requested mount, and
 * the share's server must answer. A share is never formatted, checked or grown.
 */
#include "node/share/stage_share.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "node/staged/claim.h"
#include "node/mount/mount_same.h"
#include "node/host/prepare.h"
#include "node/target/share.h"
#include "node/staged/staged.h"

#define SETTLE_STEP_MS 50

static const char *tag_of(const struct staging *s)
{
	return s->r->want.tag;
}

/* ---- proof of the tag ---- */

static int refuse_foreign_tag(const struct staging *s, const char *why, struct err *err)
{
	return err_set(err, ERR_PRECONDITION,
	               "the virtio-fs tag %s can be mounted although the volume's device is "
	               "missing (%s), so another device of this host has the tag; nothing is "
	               "mounted",
	               tag_of(s), why);
}

/*
 * Records that the device was present before this call, so its tag was not probed while the device
 * was absent. Returns 0.
 */
static int mark_present(struct staging *s)
{
	s->was_present = !s->dev.tag_proven;
	return 0;
}

/* Waits for the device, which may have appeared between its probe and the mount of its tag. */
static int await_device(struct staging *s, struct deadline d, struct err *err)
{
	struct deadline end = deadline_clamp(d, s->node->o.tuning.settle_ms);
	struct str why AUTO(str_clear) = STR_INIT(400);

	for (;;) {
		struct err ignored = ERR_INIT;
		int rc = device_find(&s->node->o.world, &s->r->want, &s->dev, &why, err);

		if (rc <= 0)
			return rc ? rc : mark_present(s);
		if (deadline_sleep(end, SETTLE_STEP_MS, &ignored, ""))
			return refuse_foreign_tag(s, why.ptr, err);
	}
}

int stage_share_prepare(struct staging *s, struct deadline d, struct err *err)
{
	dev_t ignored;
	int rc = node_load_virtiofs(s->node, err);

	if (!rc)
		rc = device_shares_answer(&s->node->o.world, err);
	if (!rc)
		rc = device_find(&s->node->o.world, &s->r->want, &s->dev, NULL, err);
	if (rc <= 0)
		return rc ? rc : mark_present(s);
	rc = share_probe_tag(s->node, s->r->volume_id, tag_of(s), &s->flags, &ignored, err);
	if (rc < 0)
		return -1;
	s->tag_was_absent = rc == SHARE_NO_TAG;
	return s->tag_was_absent ? 0 : await_device(s, d, err);
}

static int check_tag(const struct staging *s, struct err *err)
{
	if (s->dev.tag_proven || s->dev.alone || s->tag_was_absent)
		return 0;
	return err_set(
		err, ERR_PRECONDITION,
		"could not verify that the virtio-fs tag %s belongs to PCI function %s: this "
		"kernel shows no tags (6.9 and later do, in /sys/fs/virtiofs), the function's "
		"own configuration cannot be read (kernel lockdown may forbid it), and its "
		"driver was already bound, like those of other virtio-fs devices; unbind it "
		"(echo %s > /sys/bus/pci/drivers/virtio-pci/unbind), and the stage is retried",
		tag_of(s), s->dev.pci, s->dev.pci);
}

/* ---- the mount ---- */

static int mount_tag(struct staging *s, const struct strs *options, struct err *err)
{
	int rc = mount_share(tag_of(s), &s->target, s->node->o.virtiofs_type, options, err);

	if (rc == MOUNT_NO_TAG)
		return err_set(
			err, ERR_UNAVAILABLE,
			"the tag %s of PCI function %s cannot be mounted as %s: the kernel has "
			"no such tag, see dmesg; or the helper of that type refused it, see the "
			"driver's stderr",
			tag_of(s), s->dev.pci, s->node->o.virtiofs_type);
	return rc;
}

/*
 * Checks the flags of the mount. If an earlier mount holds the share, the flags of that mount stay
 * in effect.
 */
static int stage_share_check_flags(const struct staging *s, const struct mount *m, struct err *err)
{
	const struct mount_asked asked = { .flags = &s->flags };
	const char *what;

	if (!mount_flags_differ(&asked, m, &what))
		return 0;
	return err_set(
		err, ERR_UNAVAILABLE,
		"the share %s was mounted with flags other than requested (%s differs): an "
		"earlier mount, whose flags the share keeps, is still in use; end the processes "
		"that use it (grep -l ' %u:%u ' /proc/*/mountinfo), or wait for them to end",
		tag_of(s), what, major(m->devno), minor(m->devno));
}

/* Checks that no other volume uses the share. `staged`: an earlier call has mounted it. */
static int check_claim(const struct staging *s, const struct mount_table *t, dev_t share,
                       bool staged, struct err *err)
{
	const struct claim claim = {
		.node = s->node,
		.volume_id = s->r->volume_id,
		.path = s->path,
		.share = share,
		.staged = staged,
	};

	return claim_check(&claim, t, err);
}

/* After mount(2), verifies that this tag is mounted there as requested. */
static int stage_share_check_result(const struct staging *s, const struct strs *options,
                                    struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	int rc;

	if (mount_table_read(s->node->o.proc_root, &t, err) ||
	    mountpoint_read(&t, s->path, &p, err))
		return -1;
	if (p.kind != MOUNTPOINT_SHARE || !str_eq(p.m->source, tag_of(s)))
		return err_set(err, ERR_UNAVAILABLE,
		               "the tag %s was mounted on %s, but the path shows %s (%s)",
		               tag_of(s), s->path, p.m ? p.m->fs_type : "nothing",
		               p.m ? p.m->source : "");
	/*
	 * Checked first, because a mount of another volume determines the properties of this one.
	 */
	if (check_claim(s, &t, p.disk, false, err))
		return -1;
	if (p.m->read_only != s->read_only)
		return err_set(
			err, ERR_UNAVAILABLE,
			"the tag %s is mounted on %s read-%s, not read-%s: an earlier mount of "
			"it is still in use",
			tag_of(s), s->path, p.m->read_only ? "only" : "write",
			s->read_only ? "only" : "write");
	if (staged_check_context(options, p.m, err) || stage_share_check_flags(s, p.m, err))
		return -1;
	rc = share_probe(s->node, p.disk, p.path, err);
	if (rc == SHARE_DEAD)
		return err_set(
			err, ERR_UNAVAILABLE,
			"the tag %s was mounted on %s, but its device or server no longer exists",
			tag_of(s), s->path);
	return rc;
}

static int mount_and_verify(struct staging *s, struct err *err)
{
	struct strs options AUTO(strs_clear) = STRS_INIT;

	for (size_t i = 0; i < s->flags.n; i++)
		strs_add(&options, s->flags.v[i]);
	/* repeated, because the last option takes effect and the flags may have "rw" */
	if (s->read_only)
		strs_add(&options, "ro");
	if (staging_make_point(s, err) || mount_tag(s, &options, err))
		return -1;
	s->mounted = true;
	kill_point("stage: share mounted");
	if (stage_share_check_result(s, &options, err))
		return -1;
	kill_point("stage: share verified");
	return 0;
}

/* ---- a share that is already staged ---- */

static int refuse_foreign_share(const struct staged_want *w, const struct mountpoint *p,
                                struct err *err)
{
	char wanted[80];

	snprintf(wanted, sizeof(wanted), "the virtio-fs tag %s", w->r->want.tag);
	return staged_refuse_foreign(w, p, wanted, err);
}

/*
 * Checks that the mount is of the volume's device. The device may have been removed and its tag
 * taken over by another device, while a mount of the first still exists.
 */
static int staged_share_check_same(const struct staged_want *w, const struct mountpoint *p,
                                   struct err *err)
{
	dev_t now = 0;
	int rc = share_probe_tag(w->node, w->r->volume_id, w->r->want.tag, w->flags, &now, err);

	if (rc < 0)
		return -1;
	if (rc == SHARE_NO_TAG)
		return err_set(
			err, ERR_UNAVAILABLE,
			"%s shows the virtio-fs tag %s, but no device of this host has the tag "
			"any more",
			p->path, w->r->want.tag);
	if (now == p->disk)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s shows a share other than the one that the virtio-fs tag %s leads to now "
	               "(superblocks %u:%u and %u:%u): unpublish and unstage the volume first",
	               p->path, w->r->want.tag, major(p->disk), minor(p->disk), major(now),
	               minor(now));
}

/*
 * Checks a mounted share. Returns 0 if it is mounted as requested, or MOUNTPOINT_DISK_GONE if its
 * device was removed.
 */
static int staged_share_check_mounted(const struct staged_want *w, const struct mountpoint *p,
                                      struct err *err)
{
	const struct mount_asked asked = { .flags = w->flags };
	int rc = share_probe(w->node, p->disk, p->path, err);

	if (rc == SHARE_DEAD)
		return MOUNTPOINT_DISK_GONE;
	if (rc)
		return err_wrap(err, "volume is staged, but its share cannot be checked");
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

/*
 * Returns 0 if the volume is staged as requested. Returns STAGED_ABSENT if nothing is mounted (any
 * more: a stale mount of a removed device has been unmounted). -1 FAILED_PRECONDITION: the path has
 * a different mount; ALREADY_EXISTS: the share is staged with different options; UNAVAILABLE: the
 * share may be staged, but cannot be checked now.
 */
static int staged_share_check(const struct staged_want *w, struct err *err)
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

/*
 * Checks whether the share is already staged, and not mounted elsewhere. Returns STAGED_ABSENT if
 * it is not staged.
 */
static int stage_share_check(const struct staging *s, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	const struct staged_want want = {
		.node = s->node,
		.r = s->r,
		.dev = &s->dev,
		.mounts = &t,
		.flags = &s->flags,
		.read_only = s->read_only,
	};
	int rc;

	if (mount_table_read(s->node->o.proc_root, &t, err))
		return -1;
	rc = staged_share_check(&want, err);
	if (rc)
		return rc;
	if (mountpoint_read(&t, s->path, &p, err))
		return -1;
	return check_claim(s, &t, p.disk, true, err);
}

int stage_share(struct staging *s, struct err *err)
{
	int rc = stage_share_check(s, err);

	/*
	 * The tag of a staged share was proven when it was staged, so the superblock is the
	 * device's.
	 */
	if (rc != STAGED_ABSENT)
		return rc;
	if (staging_check_gate(s, err))
		return -1;
	rc = check_tag(s, err) ? -1 : mount_and_verify(s, err);
	if (rc)
		staging_undo(s);
	return rc;
}
