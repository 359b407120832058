/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether the volume's disk is already staged as requested. No state, any thread. */
#pragma once

#include "node/staged/staged.h"

/*
 * Returns 0 if the volume is staged as requested. Returns STAGED_ABSENT if it is not staged, or not
 * any more, because this call has unmounted a removed disk or unstaged a filesystem that had shut
 * down. -1 FAILED_PRECONDITION: the path has a different mount, or the filesystem has shut down and
 * is in use elsewhere. ALREADY_EXISTS: the volume is staged with different options. UNAVAILABLE:
 * the volume may be staged but cannot be checked now, or its filesystem is frozen.
 */
int staged_disk_check(const struct staged_want *w, struct err *err) MUST_CHECK;
/*
 * Checks the device that is bound at `path` and has the device number of the volume's disk: it must
 * be this very disk (device numbers are reused), and read-only if requested. Otherwise
 * FAILED_PRECONDITION or ALREADY_EXISTS.
 */
int staged_check_block(const struct staged_want *w, const char *path, struct err *err) MUST_CHECK;
