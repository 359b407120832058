/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an ext3 or ext4 before it is mounted, when its superblock asks for it.
 *
 * A journal that has to be replayed is no reason: mounting replays it. Only what e2fsck calls safe
 * is repaired (-p). xfs and btrfs are never repaired by the driver: the kernel replays the log of
 * an xfs, and xfs_repair can lose files.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/* What the superblock says. */
struct ext_state {
	bool unclean;       /* used without a journal, and not unmounted */
	bool errors;        /* the kernel has met an error in it */
	bool journal_dirty; /* mounting replays the journal */
};

/*
 * fd is open on an ext3 or ext4; `name` is for the error. UNAVAILABLE: it cannot be read, or has no
 * such filesystem any more.
 */
int ext_state_read(int fd, const char *name, struct ext_state *ret, struct err *err) MUST_CHECK;
/* Why it asks for a check ("its error flag is set"), or NULL. */
const char *ext_state_asks(const struct ext_state *s);
/*
 * whole: look at all of it, also when its superblock calls it clean. Runs e2fsck -p to its end, on
 * the device that fd is open on. 0: clean or repaired. FAILED_PRECONDITION: more is broken than -p
 * repairs; the text has the problem and the command for a person. INTERNAL: e2fsck could not be
 * run. UNAVAILABLE: not now. The caller has made sure that the device is neither mounted nor
 * read-only.
 */
int fsck_run(int fd, const char *name, bool whole, struct err *err) MUST_CHECK;
