/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of this process as the kernel lists them.
 *
 * The table is read from <proc root>/self/mountinfo, so a recorded file serves as well. No state,
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
	dev_t devno;      /* of the filesystem: a disk's number, or an anonymous one */
	const char *root; /* which directory or file of the filesystem is shown: "/" is all of it */
	const char *target;
	const char *fs_type;
	const char *source;     /* as the mounter named it: proves nothing */
	const char *options;    /* of this mount point: "rw,relatime" */
	const char *fs_options; /* of the filesystem: "rw,nouuid" */
	bool has_parent;        /* in the table */
	bool read_only;         /* the mount point or the filesystem is */
	bool shared;            /* mounts below it reach other namespaces (propagation shared:N) */
	bool slave;             /* mounts made elsewhere appear below it (propagation master:N) */
};

struct mount_table {
	struct mount *v; /* in the kernel's order */
	size_t n;
	unsigned *order; /* which of them, by target; NULL: there are less than two */
	char *text;      /* into which all the strings point */
};

#define MOUNT_TABLE_INIT                                       \
	{                                                      \
		.v = NULL, .n = 0, .order = NULL, .text = NULL \
	}
/*
 * UNAVAILABLE: it cannot be read now, so nobody knows what is mounted. INTERNAL: it is larger than
 * it may be, or has a line that cannot be understood.
 */
int mount_table_read(const char *proc_root, struct mount_table *ret, struct err *err) MUST_CHECK;
void mount_table_clear(struct mount_table *t);
DEFINE_AUTO_VALUE(struct mount_table, mount_table_clear);
/*
 * Forgets all mounts but *m (NULL: all), which moves. Before what may hang in the kernel: the table
 * of a full node is 100 KB, for each of its threads.
 */
void mount_table_keep(struct mount_table *t, const struct mount **m);

/*
 * The mount that is seen at `target`: the topmost one there. NULL: none, or only such as are
 * hidden.
 */
const struct mount *mount_at(const struct mount_table *t, const char *target);
/*
 * A mount at `target` that cannot be reached, because another one was mounted over a directory
 * above it later; NULL: there is none, or one is seen there. mount_containing() is the other one.
 */
const struct mount *mount_hidden_at(const struct mount_table *t, const char *target);
/*
 * The next mount after `after` (NULL: the first) that shows the same thing: devno and, when root is
 * not NULL, root.
 */
const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after);
/* The mount on whose filesystem `path` lies, as it is seen; NULL: the root is no mount. */
const struct mount *mount_containing(const struct mount_table *t, const char *path);
/*
 * Are these two lines of one mount point? A shared parent that is mounted twice shows each child
 * twice.
 */
bool mount_same_mountpoint(const struct mount_table *t, const struct mount *a,
                           const struct mount *b);

/*
 * Is it a mount of a virtio-fs share, by the kernel's client (type virtiofs) or by one outside it
 * (fuse.virtiofs)? Its source is the tag.
 */
bool mount_is_share(const struct mount *m);
/*
 * Is the filesystem read-only although this mount point is not: did the kernel switch it? Since
 * Linux 6.15 ext4 shows "emergency_ro" instead of "ro"; from 6.12 to 6.14 it shows neither.
 */
bool mount_turned_read_only(const struct mount *m);
/* Has the filesystem shut itself down after an error? ext4 shows it since Linux 6.15, xfs never. */
bool mount_has_shut_down(const struct mount *m);

enum { MOUNT_DIR_ABSENT = 1 };
/*
 * The name that mountinfo has for a path: its directory resolved, the last component as it is, so
 * that a mount which hangs there is not touched. MOUNT_DIR_ABSENT: the directory does not exist, so
 * nothing is mounted there. *ret is malloc'ed.
 */
int mount_resolve_path(const char *path, char **ret, struct err *err) MUST_CHECK;
