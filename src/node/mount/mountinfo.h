/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the mounts of this process.
 *
 * The table is read from <proc root>/self/mountinfo, so a recorded file works as well. No state,
 * any thread.
 *
 * Source: Documentation/filesystems/proc.rst (mountinfo).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/err.h"

/* One line of mountinfo. */
struct mount {
	int id, parent_id;
	dev_t devno; /* device number of the filesystem: that of a disk, or an anonymous one */
	/* the directory or file of the filesystem that is mounted: "/" is the whole filesystem */
	const char *root;
	const char *target;
	const char *fs_type;
	const char *source;     /* given by the mounting process; proves nothing */
	const char *options;    /* options of this mount point: "rw,relatime" */
	const char *fs_options; /* options of the filesystem: "rw,nouuid" */
	bool has_parent;        /* the parent mount is in the table */
	bool read_only;         /* the mount point or the filesystem is read-only */
	bool shared;            /* mounts below it propagate to other mount namespaces (shared:N) */
	bool slave;             /* mounts made elsewhere propagate to it (master:N) */
};

struct mount_table {
	struct mount *v; /* in the kernel's order */
	size_t n;
	unsigned *order; /* indices into v, sorted by target; NULL: fewer than two */
	char *text;      /* holds all the strings */
};

#define MOUNT_TABLE_INIT                                       \
	{                                                      \
		.v = NULL, .n = 0, .order = NULL, .text = NULL \
	}
/*
 * Reads the table. UNAVAILABLE: it cannot be read now, so the mounts are unknown. INTERNAL: it
 * exceeds the maximum size, or has a malformed line.
 */
int mount_table_read(const char *proc_root, struct mount_table *ret, struct err *err) MUST_CHECK;
/* Like mount_table_read(), for the mount namespace of another process ("1"). */
int mount_table_read_of(const char *proc_root, const char *pid, struct mount_table *ret,
                        struct err *err) MUST_CHECK;
void mount_table_clear(struct mount_table *t);
DEFINE_AUTO_VALUE(struct mount_table, mount_table_clear);
/*
 * Removes all mounts except *m (NULL: all) from the table and frees their memory; *m then points to
 * the new copy. Call it before a call that may hang in the kernel, because on a full node each
 * thread's table takes 100 KB.
 */
void mount_table_keep(struct mount_table *t, const struct mount **m);

/*
 * Returns the visible mount at `target`, that is, the topmost one. Returns NULL if nothing is
 * mounted there, or all mounts there are hidden.
 */
const struct mount *mount_at(const struct mount_table *t, const char *target);
/*
 * Returns a mount at `target` that cannot be reached, because another one was later mounted over
 * one of its parent directories. Returns NULL if no mount has this target, or if mount_at() finds
 * a visible one. mount_containing() returns the mount that hides the returned one.
 */
const struct mount *mount_hidden_at(const struct mount_table *t, const char *target);
/*
 * Returns the next mount after `after` (NULL: the first) with this devno and, if root is not NULL,
 * this root.
 */
const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after);
/*
 * Returns the visible mount whose filesystem contains `path`, or NULL if the root directory is not
 * a mount.
 */
const struct mount *mount_containing(const struct mount_table *t, const char *path);
/*
 * Returns true if these two lines describe one mount point. A shared parent that is mounted twice
 * shows each child twice.
 */
bool mount_same_mountpoint(const struct mount_table *t, const struct mount *a,
                           const struct mount *b);

/*
 * Returns true for a mount of a virtio-fs share, by the kernel (type virtiofs) or by a userspace
 * client (fuse.virtiofs). The mount's source is the tag.
 */
bool mount_is_share(const struct mount *m);
/*
 * Returns true if the filesystem is read-only although this mount point is not, so the kernel has
 * made it read-only after an error. Since Linux 6.15 ext4 shows "emergency_ro" instead of "ro";
 * versions 6.12 to 6.14 show neither.
 */
bool mount_turned_read_only(const struct mount *m);
/*
 * Returns true if the filesystem is shown to have shut itself down after an error. ext4 shows this
 * since Linux 6.15; xfs never shows it.
 */
bool mount_has_shut_down(const struct mount *m);

enum { MOUNT_DIR_ABSENT = 1 };
/*
 * Returns the path as mountinfo shows it: the directory is resolved, and the last component is
 * unchanged, so that a hung mount there is not accessed. *ret is malloc'ed. Returns
 * MOUNT_DIR_ABSENT if the directory does not exist, so nothing is mounted there.
 */
int mount_resolve_path(const char *path, char **ret, struct err *err) MUST_CHECK;
