/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes a filesystem that may never answer. statvfs(2) on a filesystem whose device hangs blocks
 * indefinitely and cannot be interrupted, so a helper thread makes the system call and the caller
 * stops waiting after guard_ms. There is one helper per filesystem: while it hangs, later callers
 * get the error at once, and no second thread is started. A frozen filesystem (fsfreeze -f) answers
 * reads, but a write blocks until it is thawed. Therefore a write that hangs does not prevent read
 * probes.
 */
#pragma once

#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "common/err.h"

struct guard;
/*
 * `wait_ms` points to the longest time that a caller waits (guard_ms of struct node_tuning); it
 * must outlive the guard.
 */
struct guard *guard_new(const int64_t *wait_ms);
/*
 * Frees the guard; returns NULL. Helpers that still hang keep their memory until the process ends.
 * `g` may be NULL.
 */
struct guard *guard_free(struct guard *g);
/*
 * Calls statvfs(2) for `path`, which is on the filesystem `devno`, and for a disk's filesystem also
 * reads the first directory entry. Returns 0 if the filesystem answered; *ret_sys is the errno, or
 * 0 if *ret is set. UNAVAILABLE: the filesystem has not answered within guard_ms (err->sys is
 * ETIMEDOUT), or no thread could be started.
 */
int guard_read(struct guard *g, dev_t devno, const char *path, struct statvfs *ret, int *ret_sys,
               struct err *err) MUST_CHECK;
/*
 * Like guard_read(), but an errno of the filesystem is UNAVAILABLE as well, with that errno in
 * err->sys.
 */
int guard_statvfs(struct guard *g, dev_t devno, const char *path, struct statvfs *ret,
                  struct err *err) MUST_CHECK;
enum guard_ask {
	GUARD_READ,  /* calls statvfs() and reads the first directory entry */
	GUARD_WRITE, /* tests whether the kernel lets a write start; writes nothing */
	/*
	 * Like GUARD_WRITE, and also tests whether the filesystem starts a transaction. Commits an
	 * empty transaction.
	 */
	GUARD_COMMIT,
	GUARD_THAW, /* thaws a filesystem that fsfreeze(8) has frozen */
	GUARD_ASKS
};
/*
 * Probes the filesystem in one of these ways. Returns 0 if the filesystem has answered, or is
 * thawed. UNAVAILABLE: the filesystem has not answered within guard_ms (err->sys is ETIMEDOUT), or
 * another error has occurred, whose errno is err->sys. For a write probe, only EROFS and the errnos
 * of mount_errno_is_dead() are errors of the filesystem.
 */
int guard_ask(struct guard *g, enum guard_ask ask, dev_t devno, const char *path, struct err *err)
	MUST_CHECK;
/* For tests: replaces the probe by `fn`; NULL restores the real probe. */
void guard_set(struct guard *g, enum guard_ask ask,
               int (*fn)(const char *path, struct statvfs *ret));
void guard_set_statvfs(struct guard *g, int (*fn)(const char *path, struct statvfs *ret));
