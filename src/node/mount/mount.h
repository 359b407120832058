/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few changes that this driver makes to mounts; mountinfo.h tells which there are.
 *
 * They go to the kernel of the calling process. Paths are used as they are: mount_resolve_path()
 * first. No state, any thread.
 *
 * Sources: mount(2), umount(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/str.h"
#include "node/mount/mountinfo.h"

const char *mount_library(void); /* version of libmount */
/* Mounts a filesystem. Never falls back from read-write to read-only, as mount(8) does. */
int mount_filesystem(const char *device, const char *target, const char *fs_type,
                     const struct strs *options, struct err *err) MUST_CHECK;
enum { MOUNT_NO_TAG = 1 };
/*
 * Mounts the share of a virtio-fs device by its tag. A type other than "virtiofs" is mounted by its
 * helper, /sbin/mount.<type>, whose words go to stderr. MOUNT_NO_TAG: the kernel, or the helper,
 * has no such tag. FAILED_PRECONDITION: the kernel has no virtio-fs.
 */
int mount_share(const char *tag, const char *target, const char *fs_type,
                const struct strs *options, struct err *err) MUST_CHECK;
int mount_bind(const char *source, const char *target, struct err *err) MUST_CHECK;
enum { MOUNT_UNSUPPORTED = 1 };
/*
 * A bind in two steps: *ret_fd is what `source` shows now, read-only if asked for, and mounted
 * nowhere yet, so that it can be looked at before anybody sees it; then it is put at the target.
 * *ret_id: of which mount it is a copy, as in mountinfo; 0: not known. MOUNT_UNSUPPORTED: kernels
 * before 5.12, or a container runtime that does not know the calls.
 */
int mount_tree_open(const char *source, bool read_only, int *ret_fd, int *ret_id, struct err *err)
	MUST_CHECK;
int mount_tree_put(int fd, const char *source, const char *target, struct err *err) MUST_CHECK;
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
