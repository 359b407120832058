/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking an ext3 or ext4 before it is mounted, when its superblock asks for it.
 *
 * A journal that has to be replayed is no reason: mounting does that. Only what e2fsck calls safe
 * is repaired (-p). xfs is never repaired by itself, its log is replayed by the kernel and
 * xfs_repair can lose files; neither is btrfs.
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
 * fd is open on an ext3 or ext4; `name` is for the error. Cannot be read, or is none any more:
 * UNAVAILABLE.
 */
int ext_state_read(int fd, const char *name, struct ext_state *ret, struct err *err) MUST_CHECK;
/* Why it asks for a check ("its error flag is set"), or NULL. */
const char *ext_state_asks(const struct ext_state *s);
/*
 * e2fsck -p on the device that fd is open on, to its end. 0: clean or repaired. FAILED_PRECONDITION
 * with the last line that it printed and the command for a person: more is broken than may be
 * repaired unasked. INTERNAL: it could not be run. The caller has made sure that it is neither
 * mounted nor read-only.
 */
int fsck_run(int fd, const char *name, struct err *err) MUST_CHECK;
