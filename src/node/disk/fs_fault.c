/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes a frozen filesystem from one whose device hangs by two requests: a write blocks on
 * both, but a read succeeds on the frozen one. mountinfo is not sufficient, because no kernel shows
 * a freeze there, xfs shows no shutdown, and ext4 of Linux 6.12 to 6.14 shows no error. Changes
 * nothing but what GUARD_COMMIT writes.
 */
#include "node/disk/fs_fault.h"

#include <errno.h>

bool fs_fault_needs_mount(enum fs_fault fault)
{
	return fault == FS_SHUT_DOWN || fault == FS_READ_ONLY || fault == FS_DEAD;
}

static int refuse_read_only(const struct mountpoint *p, struct err *err)
{
	err_set(err, ERR_PRECONDITION,
	        "%s at %s was made read-only by the kernel after an error (see the node's kernel "
	        "log): delete the pods that use it on this node, so that it is checked and mounted "
	        "again",
	        p->m->fs_type, p->path);
	return FS_READ_ONLY;
}

/*
 * Returns the oldest writable mount of the filesystem's root, which is its staging path
 * (mountpoint_probe_path()).
 */
static const char *path_for_write(const struct mount_table *t, const struct mountpoint *p)
{
	const struct mount *m = NULL;

	while ((m = mount_of(t, p->m->devno, "/", m)))
		if (!m->read_only && mount_at(t, m->target) == m)
			return m->target;
	return p->path;
}

static int refuse_held(struct node *n, const struct mountpoint *p, const char *path,
                       struct err *err)
{
	struct err unread = ERR_INIT;

	if (guard_ask(n->guard, GUARD_READ, p->disk, path, &unread) && unread.sys == ETIMEDOUT) {
		*err = unread;
		return FS_HANGS;
	}
	err_clear(err);
	err_set(err, ERR_UNAVAILABLE,
	        "%s at %s answers reads but blocks writes: it is frozen (fsfreeze -f), or its "
	        "device takes no writes; next: fsfreeze -u %s",
	        p->m->fs_type, p->path, path);
	return FS_FROZEN;
}

int fs_fault_probe(struct node *n, const struct mount_table *t, const struct mountpoint *p,
                   enum guard_ask ask, struct err *err)
{
	const char *path = ask == GUARD_READ ? mountpoint_probe_path(t, p) : path_for_write(t, p);

	assert(p->kind == MOUNTPOINT_FILESYSTEM && ask != GUARD_THAW);
	if (mount_has_shut_down(p->m)) {
		err_set(err, ERR_PRECONDITION,
		        "%s at %s has shut itself down after an error (see the node's kernel log): "
		        "delete the pods that use it on this node, so that it is checked and "
		        "mounted again",
		        p->m->fs_type, p->path);
		return FS_SHUT_DOWN;
	}
	if (ask != GUARD_READ && mount_turned_read_only(p->m))
		return refuse_read_only(p, err);
	if (guard_ask(n->guard, ask, p->disk, path, err) == 0)
		return FS_FINE;
	if (err->sys == ETIMEDOUT)
		return ask == GUARD_READ ? FS_HANGS : refuse_held(n, p, path, err);
	if (err->sys == EROFS) {
		err_clear(err);
		return refuse_read_only(p, err);
	}
	err_recode(err, ERR_UNAVAILABLE);
	return mount_errno_is_dead(err->sys) ? FS_DEAD : -1;
}
