/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and grows filesystems with the distribution's tools; grows xfs with xfs_grow().
 *
 * The caller must have proved that the device may be overwritten (fsprobe.h, blank.h). No tool is
 * run with its force flag, but mkfs.ext4 without a terminal overwrites existing data even without
 * it, so only that proof protects the data.
 */
#pragma once

#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"
#include "volume/volume_params.h"

/*
 * Checks that this filesystem can be created on a device of `size` bytes; to be called before
 * anything is written. INVALID_ARGUMENT: the device is too small, or a key is not supported.
 */
int mkfs_check(const char *fs_type, uint64_t size, const struct mkfs_params *params,
               struct err *err) MUST_CHECK;
/*
 * Formats the device that fd is open on; `name` is for errors. Has no deadline, because an
 * incomplete filesystem is worse than a late result. INTERNAL: the tool failed; the message has the
 * tool's error line. NOT_FOUND: the tool is not installed.
 */
int mkfs_run(const char *fs_type, const struct mkfs_params *params, int fd, const char *name,
             struct err *err) MUST_CHECK;
/*
 * Zeroes the xfs superblock that an interrupted mkfs.xfs has left, so that the next mkfs.xfs does
 * not detect a filesystem. FAILED_PRECONDITION: the superblock is not marked "in progress".
 */
int mkfs_forget_unfinished(int fd, const char *name, struct err *err) MUST_CHECK;
/*
 * Grows a mounted filesystem to the size of its device. Returns 0 even if it already has that size.
 */
int fs_grow(const char *fs_type, const char *device, const char *mounted_at, struct deadline d,
            struct err *err) MUST_CHECK;
