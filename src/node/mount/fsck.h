/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an ext3 or ext4 before it is mounted, if its superblock requests it.
 *
 * A journal to be replayed does not require a check, because mounting replays it. e2fsck -p repairs
 * only what it considers safe to repair. The driver never repairs xfs and btrfs: the kernel replays
 * the log of an xfs, and xfs_repair can lose files.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/* Flags of the superblock. */
struct ext_state {
	bool unclean;       /* mounted without a journal and not cleanly unmounted */
	bool errors;        /* the kernel has found an error in it */
	bool journal_dirty; /* mounting replays the journal */
};

/*
 * Reads the state of the ext3 or ext4 on fd; `name` is for errors. UNAVAILABLE: the superblock
 * cannot be read, or the device no longer has such a filesystem.
 */
int ext_state_read(int fd, const char *name, struct ext_state *ret, struct err *err) MUST_CHECK;
/* Returns the reason for a check ("its error flag is set"), or NULL if none is needed. */
const char *ext_state_asks(const struct ext_state *s);
/*
 * Runs e2fsck -p to completion on the device that fd is open on. whole: checks the whole
 * filesystem, even if its superblock is marked clean. Returns 0 if it is clean or repaired.
 * FAILED_PRECONDITION: e2fsck -p cannot repair the damage, and the message has the problem and the
 * command for a manual repair; or, with EOPNOTSUPP in err->sys, the filesystem has features unknown
 * to this e2fsck. INTERNAL: e2fsck could not be run. UNAVAILABLE: e2fsck cannot run now. The caller
 * must have verified that the device is neither mounted nor read-only.
 */
int fsck_run(int fd, const char *name, bool whole, struct err *err) MUST_CHECK;
