/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts and unmounts; mountinfo.h lists the mounts.
 *
 * The functions act on the mount namespace of the calling process. Paths are used unchanged: call
 * mount_resolve_path() first. No state, any thread.
 *
 * Sources: mount(2), umount(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/str.h"
#include "node/mount/mountinfo.h"

const char *mount_library(void); /* Returns the version of libmount. */
/*
 * The target of a mount. It is opened once, so that replacing a directory of the path by a symbolic
 * link changes neither the target of the mount nor that of mount_target_remove(). Owns fd.
 */
struct mount_target {
	const char *path; /* resolved, borrowed */
	int fd;           /* O_PATH; -1: not open */
};

#define MOUNT_TARGET_INIT            \
	{                            \
		.path = "", .fd = -1 \
	}
/*
 * Opens the target. FAILED_PRECONDITION: a component of `path` is a symbolic link. UNAVAILABLE: the
 * path does not exist (any more).
 */
int mount_target_open(const char *path, struct mount_target *ret, struct err *err) MUST_CHECK;
void mount_target_clear(struct mount_target *t);
DEFINE_AUTO_VALUE(struct mount_target, mount_target_clear);
/*
 * Unmounts the topmost mount on the target, lazily if it is busy. For rollbacks: errors are
 * ignored.
 */
void mount_target_remove(const struct mount_target *t);
/*
 * Mounts the filesystem on `device`. The first `asked` options are the user's; an error names only
 * one of these. UNAVAILABLE: the device is missing, or a copy of the filesystem is mounted.
 * FAILED_PRECONDITION: this kernel cannot mount the filesystem. Never falls back from read-write to
 * read-only, unlike mount(8).
 */
int mount_filesystem(const char *device, const struct mount_target *target, const char *fs_type,
                     const struct strs *options, size_t asked, struct err *err) MUST_CHECK;
enum { MOUNT_NO_TAG = 1 };
/*
 * Mounts the share of a virtio-fs device by its tag. If the type is not "virtiofs", runs its mount
 * helper, /sbin/mount.<type>, whose messages go to stderr; the helper gets the path, not the open
 * target. Returns MOUNT_NO_TAG if neither the kernel nor the helper finds the tag.
 * FAILED_PRECONDITION: the kernel does not support virtio-fs.
 */
int mount_share(const char *tag, const struct mount_target *target, const char *fs_type,
                const struct strs *options, struct err *err) MUST_CHECK;
int mount_bind(const char *source, const struct mount_target *target, struct err *err) MUST_CHECK;
enum { MOUNT_UNSUPPORTED = 1 };
/*
 * Create a bind mount in two steps. mount_tree_open() clones the mount at `source`, read-only if
 * requested; the clone in *ret_fd is not attached yet, so it can be checked before any process sees
 * it. mount_tree_put() attaches it at the target. *ret_id: ID of the cloned mount, as in mountinfo;
 * 0: unknown. Both return MOUNT_UNSUPPORTED on kernels before 5.12, or if a container runtime does
 * not know the system calls.
 */
int mount_tree_open(const char *source, bool read_only, int *ret_fd, int *ret_id, struct err *err)
	MUST_CHECK;
int mount_tree_put(int fd, const char *source, const struct mount_target *target, struct err *err)
	MUST_CHECK;
/* Makes a mount point (not its filesystem) read-only, and keeps its other flags. */
int mount_set_read_only(const char *target, struct err *err) MUST_CHECK;
enum { MOUNT_ABSENT = 1 };
/*
 * Unmounts the topmost mount at the target; does not follow symbolic links in the path. lazy:
 * detaches it now, even if it is busy. Returns MOUNT_ABSENT if nothing is mounted there.
 */
int mount_remove(const char *target, bool lazy, struct err *err) MUST_CHECK;
/* Returns true for an errno of a filesystem whose device was removed. */
bool mount_errno_is_dead(int errnum);
