/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts: the table as the kernel has it, and the few changes this driver makes to it.
 *
 * The table is read from <proc root>/self/mountinfo, so a recorded file serves as well. Changes go
 * to the kernel of the calling process. Paths given to the changing functions are used as they are:
 * mount_place() first. No state, any thread.
 *
 * Sources: Documentation/filesystems/proc.rst (mountinfo), mount(2), umount(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/str.h"

/* One line of mountinfo. */
struct mount {
	int id, parent_id;
	dev_t devno; /* of the filesystem: a disk's number, or an anonymous one */
	char *root;  /* which directory or file of the filesystem is shown: "/" is all of it */
	char *target;
	char *fs_type;
	char *source;     /* as the mounter named it: proves nothing */
	char *options;    /* of this mount point: "rw,relatime" */
	char *fs_options; /* of the filesystem: "rw,nouuid" */
	bool read_only;   /* the mount point or the filesystem is */
	bool shared;      /* mounts below it reach other namespaces (propagation shared:N) */
	bool slave;       /* mounts made elsewhere appear below it (propagation master:N) */
};

struct mount_table {
	struct mount *v; /* in the kernel's order: a later one at the same target lies on top */
	size_t n;
};

#define MOUNT_TABLE_INIT          \
	{                         \
		.v = NULL, .n = 0 \
	}
int mount_table_read(const char *proc_root, struct mount_table *ret, struct err *err) MUST_CHECK;
void mount_table_clear(struct mount_table *t);
static inline void mount_table_clear_p(struct mount_table *t)
{
	mount_table_clear(t);
}

/* The topmost mount at `target`, which is the one that is seen there; NULL: none. */
const struct mount *mount_at(const struct mount_table *t, const char *target);
size_t mount_count_at(const struct mount_table *t, const char *target);
/*
 * The next mount after `after` (NULL: the first) that shows the same thing: devno and, when root is
 * not NULL, root.
 */
const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after);
/* The mount on whose filesystem `path` lies. */
const struct mount *mount_containing(const struct mount_table *t, const char *path);
/*
 * Are these two lines of one mount point? A shared parent that is mounted twice shows each child
 * twice.
 */
bool mount_same_place(const struct mount_table *t, const struct mount *a, const struct mount *b);

enum { MOUNT_DIR_ABSENT = 1 };
/*
 * The name that mountinfo has for a path: its directory resolved, the last component as it is, so
 * that a mount which hangs there is not touched. MOUNT_DIR_ABSENT: the directory does not exist, so
 * nothing is mounted there. *ret is malloc'ed.
 */
int mount_place(const char *path, char **ret, struct err *err) MUST_CHECK;

/*
 * Splits a list of mount flags at its commas (not within double quotes) and refuses those that
 * reach outside this volume (another device, a helper program, a changed propagation):
 * INVALID_ARGUMENT naming the flag and why.
 */
int mount_flags_check(const char *const *flags, size_t n, struct strs *ret, struct err *err)
	MUST_CHECK;

/* Mounts a filesystem. Never falls back from read-write to read-only, as mount(8) does. */
int mount_filesystem(const char *device, const char *target, const char *fs_type,
                     const struct strs *options, struct err *err) MUST_CHECK;
int mount_bind(const char *source, const char *target, struct err *err) MUST_CHECK;
enum { MOUNT_UNSUPPORTED = 1 };
/* A bind that is read-only from its first moment. MOUNT_UNSUPPORTED: kernels before 5.12. */
int mount_bind_read_only(const char *source, const char *target, struct err *err) MUST_CHECK;
/* Makes a mount point (not its filesystem) read-only; its other flags stay. */
int mount_set_read_only(const char *target, struct err *err) MUST_CHECK;
enum { MOUNT_ABSENT = 1 };
/*
 * Takes away the topmost mount; a symbolic link is not followed. lazy: detach it now, whatever uses
 * it. MOUNT_ABSENT: nothing is mounted there.
 */
int mount_remove(const char *target, bool lazy, struct err *err) MUST_CHECK;
/* Does a filesystem whose device has gone answer with this errno? */
bool mount_errno_is_dead(int errnum);
