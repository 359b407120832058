/* SPDX-License-Identifier: Apache-2.0 */
/* Is the volume's disk staged already, and as it is wanted? No state, any thread. */
#pragma once

#include "node/staged/staged.h"

/*
 * 0: the volume is staged as wanted. STAGED_ABSENT: nothing is there; a mount of a removed disk was
 * unmounted, or a filesystem that has stopped was unstaged. -1: FAILED_PRECONDITION something else
 * is there, or the filesystem has stopped and is in use elsewhere; ALREADY_EXISTS the volume is
 * staged in another way; UNAVAILABLE it may be staged, but that cannot be checked now, or it is
 * frozen.
 */
int staged_disk_check(const struct staged_want *w, struct err *err) MUST_CHECK;
/*
 * The volume's device number is bound at `path`: is it this very disk (numbers are reused), and
 * read-only as wanted? Else FAILED_PRECONDITION or ALREADY_EXISTS.
 */
int staged_check_block(const struct staged_want *w, const char *path, struct err *err) MUST_CHECK;
