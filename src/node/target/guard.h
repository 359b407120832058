/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe of a filesystem that may never answer. statvfs(2) of a filesystem whose device hangs
 * blocks without end and cannot be interrupted; so a helper thread makes the call and the caller
 * stops waiting after guard_ms. One helper per filesystem: while it hangs, later callers get the
 * error at once, and no second thread is started. A filesystem that is frozen (fsfreeze -f) answers
 * reads, and holds a write until it is thawed: a write that hangs does not keep reads from being
 * asked.
 */
#pragma once

#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "common/err.h"

struct guard;
/*
 * `wait_ms`, which the guard borrows, says how long a caller waits: guard_ms (struct node_tuning).
 */
struct guard *guard_new(const int64_t *wait_ms);
/*
 * Helpers that still hang keep what they need and end with the process. NULL is fine; returns NULL.
 */
struct guard *guard_free(struct guard *g);
/*
 * statfs(2) of `path`, which lies on the filesystem `devno`; of a disk's filesystem also a read of
 * the first directory entry. 0: the filesystem answered; *ret_sys is the errno of its answer, or 0
 * with *ret. UNAVAILABLE: the filesystem has not answered within guard_ms (err->sys is ETIMEDOUT),
 * or no thread could be started.
 */
int guard_read(struct guard *g, dev_t devno, const char *path, struct statvfs *ret, int *ret_sys,
               struct err *err) MUST_CHECK;
/*
 * guard_read(); an answer with an errno is UNAVAILABLE, too, with that errno in err->sys.
 */
int guard_statvfs(struct guard *g, dev_t devno, const char *path, struct statvfs *ret,
                  struct err *err) MUST_CHECK;
enum guard_ask {
	GUARD_READ,  /* statvfs() and the first directory entry */
	GUARD_WRITE, /* would the kernel let a write begin? Writes nothing. */
	/* The same, and does the filesystem begin a transaction? Writes an empty one. */
	GUARD_COMMIT,
	GUARD_THAW, /* ends a freeze of fsfreeze(8), if there is one */
	GUARD_ASKS
};
/*
 * Asks the filesystem in one of these ways. 0: it has answered, or it is thawed. UNAVAILABLE: no
 * answer within guard_ms (err->sys is ETIMEDOUT). Otherwise err->sys is the errno; of a write only
 * EROFS and those of mount_errno_is_dead() are errors of the filesystem.
 */
int guard_ask(struct guard *g, enum guard_ask ask, dev_t devno, const char *path, struct err *err)
	MUST_CHECK;
/* For tests: `fn` is called instead; NULL restores the real probe. */
void guard_set(struct guard *g, enum guard_ask ask,
               int (*fn)(const char *path, struct statvfs *ret));
void guard_set_statvfs(struct guard *g, int (*fn)(const char *path, struct statvfs *ret));
