/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and growing filesystems with the distribution's tools.
 *
 * Proof that the device may be overwritten is the caller's (fsprobe.h, blank.h); no tool is ever
 * given its force flag. mkfs.ext4 without a terminal overwrites anything without being asked to, so
 * that proof is all there is.
 */
#pragma once

#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"
#include "volume/volume_params.h"

/*
 * Can this filesystem be made on so many bytes, and is its tool here? Before anything is written:
 * INVALID_ARGUMENT (too small, or keys it does not take).
 */
int mkfs_check(const char *fs_type, uint64_t size, const struct mkfs_params *params,
               struct err *err) MUST_CHECK;
/*
 * Formats the device that fd is open on; `name` is for the error. Takes as long as it takes: a
 * half-made filesystem is worse than a late answer. A tool that fails: INTERNAL with the last line
 * it printed.
 */
int mkfs_run(const char *fs_type, const struct mkfs_params *params, int fd, const char *name,
             struct err *err) MUST_CHECK;
/*
 * Zeroes the xfs superblock that an interrupted mkfs.xfs has left, so that the next one does not
 * take it for a filesystem. Refuses (FAILED_PRECONDITION) when it is not marked "in progress".
 */
int mkfs_forget_unfinished(int fd, const char *name, struct err *err) MUST_CHECK;
/* Grows a mounted filesystem to the size of its device; nothing to do is fine. */
int fs_grow(const char *fs_type, const char *device, const char *mounted_at, struct deadline d,
            struct err *err) MUST_CHECK;
