/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the mount table with one disk or share. A filesystem is identified by its device number,
 * without access to the filesystem. Only a btrfs, whose number is anonymous, is queried for its
 * UUID, through the guard. The volume of a mountpoint is read from kubelet's vol_data.json, or is
 * the name of a raw-block file. Changes nothing.
 */
#include "node/staged/claim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/partitions.h"
#include "node/target/guard.h"
#include "node/target/kubelet.h"
#include "node/work/disk_record.h"
#include "node/target/paths.h"
#include "node/target/mountpoint.h"
#include "node/target/share.h"

/* One comparison. */
struct claiming {
	const struct claim *c;
	const struct mount_table *t;
	char *path;     /* path of the claim, as in mountinfo; NULL: its directory does not exist */
	char *kubelet;  /* --kubelet-dir with symbolic links resolved */
	dev_t *numbers; /* device numbers of the disk and its partitions, or of the share */
	size_t n;
};

static void claiming_clear_p(struct claiming *g)
{
	free(g->path);
	free(g->kubelet);
	free(g->numbers);
}

/* ---- device numbers ---- */

static void add_number(struct claiming *g, dev_t number)
{
	g->numbers = xrealloc(g->numbers, (g->n + 1) * sizeof(*g->numbers));
	g->numbers[g->n++] = number;
}

static bool has_number(const struct claiming *g, dev_t number)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->numbers[i] == number)
			return true;
	return false;
}

static int add_disk(struct claiming *g, const struct device *dev, struct err *err)
{
	struct partitions p AUTO(partitions_clear) = PARTITIONS_INIT;

	add_number(g, dev->devno);
	if (partitions_read(g->c->node->o.proc_root, dev->devno, &p, err))
		return -1;
	for (size_t i = 0; i < p.n; i++)
		add_number(g, p.v[i].devno);
	return 0;
}

/* ---- mountpoints of the disk or share ---- */

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n && strncmp(path, dir, n) == 0 && path[n] == '/';
}

enum { IS_NODE = 1 };
/* Returns IS_NODE if the path is a device node of the disk, 0 if it is not, or was removed. */
static int match_node(const struct claiming *g, const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return 0;
		err_sys(err, errno, "stat %s", path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	return S_ISBLK(st.st_mode) && st.st_nlink > 0 && has_number(g, st.st_rdev) ? IS_NODE : 0;
}

/*
 * Returns true if the mount's root has the name of the disk's device node. Other paths are not
 * accessed, because a path to another disk's device may hang.
 */
static bool may_be_bound_node(const struct claiming *g, const struct mount *m)
{
	const char *name = strrchr(m->root, '/');

	return name && name[1] && str_has_prefix(name + 1, g->c->dev->name);
}

enum { SHOWS = 1 };
static int shows_disk(const struct claiming *g, const struct mount *m, struct err *err)
{
	if (major(m->devno) != 0 && has_number(g, m->devno))
		return SHOWS;
	if (str_eq(m->fs_type, "btrfs") && match_node(g, m->source, err))
		return err->code ? -1 : SHOWS;
	return may_be_bound_node(g, m) ? match_node(g, m->target, err) : 0;
}

enum { OTHER_DISK = 1 };
/*
 * Confirms that a mounted btrfs is on the disk. mountinfo identifies the disk of a btrfs only by
 * its name, which the kernel may give to another disk after a removal. A btrfs that is dead is not
 * on a disk of this host.
 */
static int confirm(const struct claiming *g, const struct mount *m, struct err *err)
{
	struct mountpoint p = {
		.kind = MOUNTPOINT_FILESYSTEM, .path = (char *)m->target, .m = m, .disk = m->devno
	};
	struct str ignored AUTO(str_clear) = STR_INIT(400);
	struct statvfs fs;
	int rc;

	if (!g->c->dev || !mountpoint_is_btrfs(&p))
		return 0;
	rc = guard_statvfs(g->c->node->guard, m->devno, m->target, &fs, err);
	if (!rc)
		rc = mountpoint_compare(&p, g->c->dev, &ignored, err);
	if (rc >= 0)
		return rc ? OTHER_DISK : 0;
	if (!mount_errno_is_dead(err->sys))
		return err_recode(err, ERR_UNAVAILABLE);
	err_clear(err);
	return OTHER_DISK;
}

/*
 * Returns true if the mount shows the share. A userspace client has a mount of the share for
 * itself, which is ignored.
 */
static bool shows_share(const struct claiming *g, const struct mount *m)
{
	const struct node *n = g->c->node;

	return has_number(g, m->devno) && !share_is_tag_probe(n, m->target) &&
	       (str_eq(m->fs_type, "virtiofs") || paths_allowed(&n->o, m->target));
}

/* ---- the volume of a mountpoint ---- */

static bool is_own_mountpoint(const struct claiming *g, const struct mount *m)
{
	const struct mount *own = g->path ? mount_at(g->t, g->path) : NULL;

	return g->path &&
	       (str_eq(m->target, g->path) || (own && mount_same_mountpoint(g->t, m, own)));
}

/*
 * Returns true for paths in the directories where kubelet and Nomad publish. They stage in sibling
 * directories.
 */
static bool is_in_target_folder(const struct claiming *g, const char *path)
{
	static const char *const folders[] = { "pods", "per-alloc" };

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		char *folder AUTO(free) = xasprintf("%s/%s", g->kubelet, folders[i]);

		if (is_below(path, folder))
			return true;
	}
	return false;
}

static bool is_own_target(const struct claiming *g, const struct mount *m,
                          const struct kubelet_volume_dir *k)
{
	if (k->role == KUBELET_PUBLISHED)
		return !k->volume_id || str_eq(k->volume_id, g->c->volume_id);
	return is_in_target_folder(g, m->target) ||
	       (g->c->staged && !is_below(m->target, g->kubelet));
}

/* Returns true for a bound device node, as opposed to a filesystem. */
static bool is_raw_block(const struct claiming *g, const struct mount *m)
{
	return g->c->dev && !has_number(g, m->devno) && !str_eq(m->fs_type, "btrfs");
}

/* Returns the volume of the mountpoint, malloc'ed, or NULL if it is unknown. */
static char *volume_of(const struct claiming *g, const struct mount *m,
                       const struct kubelet_volume_dir *k)
{
	if (k->volume_id)
		return xstrdup(k->volume_id);
	return is_raw_block(g, m) && is_below(m->target, g->kubelet)
	               ? xstrdup(strrchr(m->target, '/') + 1)
	               : NULL;
}

static int refuse_claimed(const struct claiming *g, const struct mount *m,
                          const struct kubelet_volume_dir *k, struct err *err)
{
	const struct claim *c = g->c;
	char *volume AUTO(free) = volume_of(g, m, k);
	struct str what AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	const char *next = "unstage";

	if (volume && str_eq(volume, c->volume_id)) {
		str_addf(&what, "staged for this volume at %s", m->target);
	} else if (volume && k->role == KUBELET_PUBLISHED) {
		str_addf(&what, "published for volume %s at %s", volume, m->target);
		next = "unpublish";
	} else if (volume) {
		str_addf(&what, "staged for volume %s at %s", volume, m->target);
	} else if (is_below(m->target, g->kubelet)) {
		str_addf(&what,
		         "staged for another volume at %s, or for this volume by another call",
		         m->target);
	} else {
		str_addf(&what, "mounted at %s as %s", m->target,
		         is_raw_block(g, m) ? "raw block" : m->fs_type);
		next = "unmount";
	}
	return err_set(err, ERR_PRECONDITION,
	               "%s%s is in use: %s; a %s belongs to one volume and one staging path on a "
	               "node: %s it there first",
	               c->dev ? "" : "the virtio-fs tag ", c->dev ? c->dev->path : m->source,
	               what.ptr, c->dev ? "disk" : "share", next);
}

/* ---- the comparison ---- */

static int claim_check_mount(const struct claiming *g, const struct mount *m, struct err *err)
{
	struct kubelet_volume_dir k AUTO(kubelet_volume_dir_clear) = { .since = -1 };
	int rc;

	rc = g->c->dev ? shows_disk(g, m, err) : shows_share(g, m);
	if (rc == 0)
		return 0;
	if (is_own_mountpoint(g, m)) {
		err_clear(err);
		return 0;
	}
	if (rc < 0)
		return -1;
	kubelet_volume_dir_read(g->kubelet, "", m->target, &k);
	if (is_own_target(g, m, &k))
		return 0;
	rc = confirm(g, m, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	return refuse_claimed(g, m, &k, err);
}

/*
 * Checks that the disk was not unmounted by another volume's unstage while a process still holds
 * it.
 */
static int claim_check_unstaging(const struct claim *c, struct err *err)
{
	char *volume AUTO(free) = NULL;
	struct err held = ERR_INIT;
	int rc = disk_record_unstaging(c->node, c->dev, c->volume_id, &volume, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (device_check_unused(c->dev, &held) == 0)
		return 0;
	if (held.sys != EBUSY) {
		*err = held;
		return err_recode(err, ERR_UNAVAILABLE);
	}
	err_set(err, ERR_PRECONDITION,
	        "%s: a process still holds it for volume %s, which is not completely unstaged; a "
	        "disk belongs to one volume on a node: unstage %s first",
	        c->dev->path, volume, volume);
	return err_set_kind(err, ERR_KIND_HELD);
}

int claim_check(const struct claim *c, const struct mount_table *t, struct err *err)
{
	struct claiming g AUTO(claiming_clear) = { .c = c, .t = t };
	int rc = mount_resolve_path(c->path, &g.path, err);

	if (rc < 0)
		return -1;
	g.kubelet = realpath(c->node->o.kubelet_dir, NULL);
	if (!g.kubelet)
		g.kubelet = xstrdup(c->node->o.kubelet_dir ? c->node->o.kubelet_dir : "");
	if (!c->dev)
		add_number(&g, c->share);
	else if (add_disk(&g, c->dev, err))
		return err_recode(err, ERR_UNAVAILABLE);
	for (size_t i = 0; i < t->n; i++)
		if (claim_check_mount(&g, &t->v[i], err))
			return -1;
	return c->dev && !c->staged ? claim_check_unstaging(c, err) : 0;
}
