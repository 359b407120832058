/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and grows filesystems with the distribution's tools.
 *
 * The caller has proved that the device may be overwritten (fsprobe.h, blank.h). No tool is given
 * its force flag, but mkfs.ext4 without a terminal overwrites anything even so: nothing but that
 * proof protects the data.
 */
#pragma once

#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"
#include "volume/volume_params.h"

/*
 * Can this filesystem be made on `size` bytes? To be asked before anything is written.
 * INVALID_ARGUMENT: too small, or it does not take these keys.
 */
int mkfs_check(const char *fs_type, uint64_t size, const struct mkfs_params *params,
               struct err *err) MUST_CHECK;
/*
 * Formats the device that fd is open on; `name` is for the error. Has no deadline: a half-made
 * filesystem is worse than a late answer. INTERNAL: the tool failed; the text has the line in which
 * it said why. NOT_FOUND: there is no such tool.
 */
int mkfs_run(const char *fs_type, const struct mkfs_params *params, int fd, const char *name,
             struct err *err) MUST_CHECK;
/*
 * Zeroes the xfs superblock that an interrupted mkfs.xfs has left, so that the next one does not
 * take it for a filesystem. Refuses (FAILED_PRECONDITION) when it is not marked "in progress".
 */
int mkfs_forget_unfinished(int fd, const char *name, struct err *err) MUST_CHECK;
/* Grows a mounted filesystem to the size of its device. 0 also when it has that size already. */
int fs_grow(const char *fs_type, const char *device, const char *mounted_at, struct deadline d,
            struct err *err) MUST_CHECK;
