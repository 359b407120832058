/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes a volume: makes the staged volume visible at one pod's path, by one bind mount.
 *
 * The staged mount determines what can be published: its type must be the requested one, and its
 * disk must still be the one in the publish context. A volume is already published if the whole of
 * the same disk is mounted with the same read-only state. The source column of mountinfo is never
 * compared, because its text differs between distributions. A read-only publish is a read-only bind
 * mount. That does not protect a raw-block device, because writes to a device node ignore it.
 * Instead, kubelet's device cgroup protects the device, and the stage has made the device of a
 * reader-only volume read-only.
 */
#include "node/stage/publish.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "node/target/busy.h"
#include "node/disk/fs_fault.h"
#include "node/staged/claim.h"
#include "node/work/disk_record.h"
#include "node/target/kubelet.h"
#include "node/target/mountpoint.h"
#include "node/target/paths.h"
#include "node/target/propagation.h"
#include "node/target/share.h"
#include "node/target/target.h"

/* ---- checks of the staged mount ---- */

/* Compares the staged disk with that of the publish context. */
static int publish_disk_check_wanted(const struct node *n, const struct publish_request *r,
                                     const struct mountpoint *p, const struct device *staged,
                                     struct err *err)
{
	/* The mapping of an encrypted volume is on the disk. */
	const dev_t disk = staged->lower ? staged->lower : p->disk;
	struct str why AUTO(str_clear) = STR_INIT(400);
	struct device dev;
	int rc = device_find(&n->o.world, r->want, &dev, &why, err);

	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged, but its device no longer "
		               "exists: %s",
		               why.ptr);
	if (dev.devno == disk)
		return 0;
	err_set(err, ERR_PRECONDITION,
	        "device %u:%u is staged at %s, but the volume is on %s (%u:%u, function %s, "
	        "namespace %u)",
	        major(disk), minor(disk), p->path, dev.path, major(dev.devno), minor(dev.devno),
	        dev.pci, dev.nsid);
	return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
}

/*
 * Checks that the disk mounted at `p` (MOUNTPOINT_FILESYSTEM or MOUNTPOINT_BLOCK) is the volume's,
 * and returns it in *ret. Compares device numbers and, if a number may have been reused, also the
 * disk's identifiers. FAILED_PRECONDITION: another disk is staged. UNAVAILABLE: the staged disk was
 * removed, or the wanted one is missing.
 */
static int publish_check_disk(const struct node *n, const struct publish_request *r,
                              const struct mountpoint *p, struct device *ret, struct err *err)
{
	int rc = device_by_number(&n->o.world, p->disk, ret, err);

	if (rc < 0)
		return -1;
	if (rc == DEVICE_ABSENT)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its device %u:%u no longer exists: it "
		               "was detached while in use",
		               p->path, major(p->shown), minor(p->shown));
	if (r->want && !device_is_surely(&n->o.world, ret, r->want) &&
	    publish_disk_check_wanted(n, r, p, ret, err))
		return -1;
	rc = mountpoint_check_same(p, ret, err);
	if (rc == MOUNTPOINT_DISK_GONE)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its disk no longer exists: %s is a "
		               "different disk",
		               p->path, ret->path);
	return rc;
}

static int publish_share_check_wanted(const struct node *n, const struct publish_request *r,
                                      const struct mountpoint *p, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(400);
	struct device dev;
	int rc;

	if (!str_eq(p->m->source, r->want->tag)) {
		err_set(err, ERR_PRECONDITION,
		        "the virtio-fs tag %s is staged at %s, but the volume is the tag %s",
		        p->m->source, p->path, r->want->tag);
		return err_set_kind(err, ERR_KIND_WRONG_DEVICE);
	}
	rc = device_find(&n->o.world, r->want, &dev, &why, err);
	if (rc <= 0)
		return rc;
	return err_set(err, ERR_UNAVAILABLE, "it is staged, but its device no longer exists: %s",
	               why.ptr);
}

/*
 * Checks that the staged share is the volume's. FAILED_PRECONDITION: another tag is staged.
 * UNAVAILABLE: the share's device was removed, or the share hangs, so a pod would start with a
 * mount that never answers.
 */
static int publish_check_share(const struct node *n, const struct publish_request *r,
                               const struct mountpoint *p, struct err *err)
{
	int rc = share_probe(n, p->disk, p->path, err);

	if (rc < 0)
		return err_wrap(err, "it is staged");
	if (rc == SHARE_DEAD)
		return err_set(err, ERR_UNAVAILABLE,
		               "it is staged at %s, but its device or server no longer exists: "
		               "end all pods of the volume on this node; it is then unstaged and "
		               "staged again",
		               p->path);
	return r->want ? publish_share_check_wanted(n, r, p, err) : 0;
}

/* ---- the publish ---- */

/* One publish in progress. */
struct publishing {
	struct node *node;
	const struct publish_request *r;
	struct mount_table *table;
	struct mountpoint staged, target;
	struct device dev; /* the staged disk; not set for a share */
	bool read_only;
};

/* ---- the staged volume ---- */

static const char *name_of(enum mountpoint_kind kind)
{
	return kind == MOUNTPOINT_BLOCK        ? "raw block"
	       : kind == MOUNTPOINT_FILESYSTEM ? "a filesystem"
	       : kind == MOUNTPOINT_SHARE      ? "a virtio-fs share"
	                                       : "something unknown";
}

/* Returns the requested kind. For a mount without a publish context, this is the staged kind. */
static enum mountpoint_kind wanted_kind(const struct publishing *p)
{
	if (p->r->cap.type == ACCESS_BLOCK)
		return MOUNTPOINT_BLOCK;
	if (p->r->want)
		return p->r->want->emulation == EMULATION_VIRTIOFS ? MOUNTPOINT_SHARE
		                                                   : MOUNTPOINT_FILESYSTEM;
	return p->staged.kind == MOUNTPOINT_SHARE ? MOUNTPOINT_SHARE : MOUNTPOINT_FILESYSTEM;
}

static int check_staged_type(const struct publishing *p, struct err *err)
{
	enum mountpoint_kind want = wanted_kind(p);

	if (p->staged.kind == MOUNTPOINT_NONE)
		return err_set(err, ERR_PRECONDITION,
		               "it is not staged: nothing is mounted at %s (NodeStageVolume first)",
		               p->r->staging_path);
	if (p->staged.kind != want)
		return err_set(err, ERR_PRECONDITION,
		               "it is staged as %s, and cannot be published as %s",
		               name_of(p->staged.kind), name_of(want));
	return 0;
}

static int check_staged(struct publishing *p, struct err *err)
{
	if (p->staged.kind == MOUNTPOINT_SHARE)
		return publish_check_share(p->node, p->r, &p->staged, err);
	return publish_check_disk(p->node, p->r, &p->staged, &p->dev, err);
}

/*
 * Repeats the checks of a stage, because an earlier version of the driver may have staged the
 * volume without them.
 */
static int publish_hand_out(const struct publishing *p, struct err *err)
{
	bool share = p->staged.kind == MOUNTPOINT_SHARE;
	const struct claim claim = {
		.node = p->node,
		.volume_id = p->r->volume_id,
		.path = p->staged.path,
		.dev = share ? NULL : &p->dev,
		.share = p->staged.disk,
		.staged = true,
	};

	if (claim_check(&claim, p->table, err))
		return -1;
	return share ? 0
	             : disk_records_end(p->node, p->r->volume_id, &p->dev, p->dev.diskseq,
	                                p->staged.m->read_only, err);
}

/*
 * Checks that the filesystem is usable. A pod with write access gets neither a read-only mount nor
 * a filesystem that accepts no writes. A reader gets any filesystem that can be read. A device node
 * has no such state.
 */
static int publish_check_use(struct publishing *p, struct err *err)
{
	const struct mount *m = p->staged.m;
	int rc;

	if (p->staged.kind == MOUNTPOINT_BLOCK) {
		p->read_only |= m->read_only;
		return 0;
	}
	if (!p->read_only && m->read_only && !mount_turned_read_only(m))
		return err_set(
			err, ERR_PRECONDITION,
			"it is mounted read-only at %s, but requested for writing; next: delete "
			"the pods that use it on this node, so that it is staged again, or "
			"publish it read-only",
			p->staged.path);
	if (p->staged.kind == MOUNTPOINT_SHARE)
		return 0;
	rc = fs_fault_probe(p->node, p->table, &p->staged, p->read_only ? GUARD_READ : GUARD_COMMIT,
	                    err);
	return rc ? -1 : 0;
}

/* Checks that a single-pod volume gets no second target. */
static int check_single_pod(const struct publishing *p, struct err *err)
{
	const struct mount *other;

	if (!access_mode_is_single_pod(p->r->cap.mode))
		return 0;
	if (p->staged.kind == MOUNTPOINT_SHARE)
		other = share_elsewhere(p->node, p->table, &p->staged, &p->target, true, NULL);
	else
		other = mountpoint_elsewhere(p->table, &p->staged, &p->target, true, NULL);
	if (!other)
		return 0;
	return err_set(
		err, ERR_PRECONDITION,
		"its claim is ReadWriteOncePod (%s) and another pod has it, at %s: it can be "
		"mounted here once that pod has ended",
		access_mode_name(p->r->cap.mode), other->target);
}

/* ---- the mount at the target ---- */

/*
 * Returns true if the filesystem at the mountpoint will certainly never answer again, false for
 * MOUNTPOINT_OTHER.
 */
static bool has_gone(const struct node *n, const struct mount_table *t, const struct mountpoint *p)
{
	struct err ignored = ERR_INIT;
	struct device dev;

	switch (p->kind) {
	case MOUNTPOINT_FILESYSTEM:
	case MOUNTPOINT_BLOCK:
		return device_by_number(&n->o.world, p->disk, &dev, &ignored) == DEVICE_ABSENT;
	case MOUNTPOINT_SHARE:
		return share_probe(n, p->disk, mountpoint_probe_path(t, p), &ignored) == SHARE_DEAD;
	case MOUNTPOINT_NONE:
	case MOUNTPOINT_OTHER:
		break;
	}
	return false;
}

enum { TARGET_FREE = 1 };
/*
 * Returns 0 if the volume is already published as requested. Returns TARGET_FREE if nothing is
 * mounted at the target (any more: a stale mount of a removed disk has been unmounted).
 */
static int check_target(struct publishing *p, struct err *err)
{
	const struct mountpoint *t = &p->target;

	if (t->kind == MOUNTPOINT_NONE)
		return TARGET_FREE;
	if (t->kind == p->staged.kind && t->disk == p->staged.disk) {
		if (t->m->read_only && !p->read_only)
			return err_set(err, ERR_EXISTS, "%s is already published read-only",
			               t->path);
		if (p->read_only && !t->m->read_only)
			return err_set(err, ERR_EXISTS, "%s is already published read-write",
			               t->path);
		return 0;
	}
	if (has_gone(p->node, p->table, t)) /* a stale mount of a removed disk or share */
		return mountpoint_unmount(t, p->node->o.proc_root, true, err) ? -1 : TARGET_FREE;
	return err_set(
		err, ERR_PRECONDITION,
		"%s already has a different mount (%s on device %u:%u, expected device %u:%u)",
		t->path, t->m->fs_type, major(t->m->devno), minor(t->m->devno),
		major(p->staged.disk), minor(p->staged.disk));
}

/* ---- the bind ---- */

static int refuse_replaced_disk(const struct publishing *p, const char *path, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE,
	               "device %u:%u was bound to %s, but the path shows something else: the "
	               "volume was unstaged during the call",
	               major(p->staged.disk), minor(p->staged.disk), path);
}

static int publish_check_result(const struct publishing *p, const char *path, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint now AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

	if (mount_table_read(p->node->o.proc_root, &t, err) || mountpoint_read(&t, path, &now, err))
		return -1;
	if (now.kind != p->staged.kind || now.disk != p->staged.disk)
		return refuse_replaced_disk(p, path, err);
	if (p->read_only != now.m->read_only)
		return err_set(err, ERR_INTERNAL, "%s was bound read-%s, but it is read-%s", path,
		               p->read_only ? "only" : "write",
		               now.m->read_only ? "only" : "write");
	return 0;
}

enum { TREE_NOT_KNOWN = 1 };
/*
 * Checks that the tree is a copy of the staged mount and shows its disk. For a filesystem with an
 * anonymous device number (btrfs), or one that does not answer stat(2) any more, only the mount
 * table identifies the disk. If the device node was removed in the meantime, so was the disk.
 */
static int check_tree(const struct publishing *p, int fd, int id, const char *path, struct err *err)
{
	bool block = p->staged.kind == MOUNTPOINT_BLOCK;
	struct stat st;

	/*
	 * No fstat(2), which would wait for a server that hangs; the superblock of a mount never
	 * changes.
	 */
	if (p->staged.kind == MOUNTPOINT_SHARE)
		return id == p->staged.m->id ? 0
		       : id                  ? refuse_replaced_disk(p, path, err)
		                             : TREE_NOT_KNOWN;
	if (fstat(fd, &st) < 0 || (!block && major(p->staged.m->devno) == 0))
		return TREE_NOT_KNOWN;
	if (id == p->staged.m->id &&
	    (block ? S_ISBLK(st.st_mode) && st.st_nlink > 0 && st.st_rdev == p->staged.disk
	           : st.st_dev == p->staged.disk))
		return 0;
	return id ? refuse_replaced_disk(p, path, err) : TREE_NOT_KNOWN;
}

/*
 * Binds by a mount tree, which is checked before it is attached. So the target never shows another
 * disk, a read-only mount is never writable, and a killed driver leaves either the wanted mount or
 * none.
 */
static int bind_tree(const struct publishing *p, const struct mount_target *at, bool *ret_checked,
                     struct err *err)
{
	int fd AUTO(fd) = -1, id = 0;
	int rc = mount_tree_open(p->staged.path, p->read_only, &fd, &id, err);

	if (rc)
		return rc;
	rc = check_tree(p, fd, id, at->path, err);
	if (rc < 0)
		return -1;
	*ret_checked = rc == 0;
	return mount_tree_put(fd, p->staged.path, at, err);
}

/* Fallback for kernels without mount trees. */
static int bind_path(const struct publishing *p, const struct mount_target *at, struct err *err)
{
	if (mount_bind(p->staged.path, at, err))
		return -1;
	if (!p->read_only || mount_set_read_only(at->path, err) == 0)
		return 0;
	mount_target_remove(at);
	return -1;
}

static int bind_at(const struct publishing *p, const char *path, struct err *err)
{
	struct mount_target at AUTO(mount_target_clear) = MOUNT_TARGET_INIT;
	bool checked = false;
	int rc = mount_target_open(path, &at, err);

	if (!rc)
		rc = bind_tree(p, &at, &checked, err);
	if (rc == MOUNT_UNSUPPORTED) {
		checked = false;
		rc = bind_path(p, &at, err);
	}
	if (rc)
		return -1;
	kill_point("publish: bound");
	if (checked || publish_check_result(p, path, err) == 0)
		return 0;
	mount_target_remove(&at);
	return -1;
}

static int make_and_bind(const struct publishing *p, struct err *err)
{
	enum target_kind kind = p->staged.kind == MOUNTPOINT_BLOCK ? TARGET_FILE : TARGET_DIR;
	char *path AUTO(free) = NULL;
	unsigned made = 0;
	int rc;

	if (paths_resolve(p->r->target_path, &path, err) || target_make(path, kind, &made, err))
		return -1;
	kill_point("publish: target made");
	rc = bind_at(p, path, err);
	if (rc)
		target_unmake(path, made);
	return rc;
}

static int publish(struct publishing *p, struct err *err)
{
	int rc;

	if (mount_table_read(p->node->o.proc_root, p->table, err) ||
	    propagation_check(&p->node->o, p->table, p->r->target_path, err) ||
	    mountpoint_read_staged(p->table, p->r->staging_path, p->r->volume_id, &p->staged,
	                           err) ||
	    mountpoint_read(p->table, p->r->target_path, &p->target, err) ||
	    check_staged_type(p, err) || check_staged(p, err) || publish_check_use(p, err))
		return -1;
	rc = check_target(p, err);
	/*
	 * Checked only for a new target, because the repeated call for an existing one finds
	 * kubelet's own bind mounts of it.
	 */
	if (rc != TARGET_FREE)
		return rc;
	return check_single_pod(p, err) || publish_hand_out(p, err) ? -1 : make_and_bind(p, err);
}

/*
 * Returns true if the mount flags include "ro"; such a volume is staged read-only. The flags were
 * checked at the stage.
 */
static bool flags_have_read_only(const struct volume_cap *cap)
{
	for (size_t i = 0; i < cap->n_mount_flags; i++)
		for (const char *at = cap->mount_flags[i]; *at;) {
			size_t n = strcspn(at, ",");

			if (n == 2 && strncmp(at, "ro", 2) == 0)
				return true;
			at += n + (at[n] == ',');
		}
	return false;
}

int node_publish(struct node *n, const struct publish_request *r, struct deadline d,
                 struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct publishing p = {
		.node = n,
		.r = r,
		.table = &t,
		.read_only = r->read_only || access_mode_is_reader_only(r->cap.mode) ||
		             flags_have_read_only(&r->cap),
	};
	int rc = deadline_check(d, err, "publish");

	if (!rc)
		rc = publish(&p, err);
	kill_point("publish: done, not answered");
	mountpoint_clear(&p.staged);
	mountpoint_clear(&p.target);
	return rc ? err_wrap(err, "publish volume %s at %s", r->volume_id, r->target_path) : 0;
}

/* ---- unpublish ---- */

/*
 * Sets *ret_gone to the result of has_gone(). The last unmount of a share waits for its server, so
 * it is refused while the share hangs. Any other unmount does not wait, so a pod can terminate even
 * while the share hangs. Probes the server only once, because a second probe might hang.
 */
static int probe_before_unmount(const struct node *n, const struct mount_table *t,
                                const struct mountpoint *p, bool *ret_gone, struct err *err)
{
	int rc;

	if (p->kind != MOUNTPOINT_SHARE || mountpoint_elsewhere(t, p, NULL, false, NULL)) {
		*ret_gone = has_gone(n, t, p);
		return 0;
	}
	rc = share_probe(n, p->disk, p->path, err);
	if (rc < 0)
		return err_wrap(err, "its share is not unmounted, because the unmount would "
		                     "block on its server");
	*ret_gone = rc == SHARE_DEAD;
	return 0;
}

int node_unpublish(struct node *n, const char *volume_id, const char *target_path, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;
	bool gone = false;
	int rc = mount_table_read(n->o.proc_root, &t, err);

	if (!rc)
		rc = mountpoint_read(&t, target_path, &p, err);
	if (!rc)
		rc = kubelet_check_volume(n->o.kubelet_dir, &p, volume_id, err);
	if (!rc)
		rc = probe_before_unmount(n, &t, &p, &gone, err);
	if (!rc)
		mount_table_keep(&t, &p.m);
	if (!rc && p.kind != MOUNTPOINT_NONE)
		rc = busy_unmount(n, &p, gone, deadline_in_ms(n->o.tuning.unpublish_ms), err);
	if (!rc && p.path)
		rc = target_remove(p.path, err);
	kill_point("unpublish: target removed, not answered");
	return rc ? err_wrap(err, "unpublish volume %s from %s", volume_id, target_path) : 0;
}
