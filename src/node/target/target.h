/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and removes mount points in kubelet's directories. They are created with their parents
 * (kubelet has not created them since 1.20) and removed one by one, never recursively: anything but
 * an empty directory or an empty file stays, and is an error. A symbolic link is neither followed
 * nor removed.
 */
#pragma once

#include "common/err.h"

enum target_kind { TARGET_DIR, TARGET_FILE };

/*
 * Creates the target and its parents. `path` is resolved (paths_resolve()): a link in it is an
 * error, and nothing is created in the directory that the link names. An existing target is
 * accepted if it is a directory or an empty file, as `kind` requires; otherwise
 * FAILED_PRECONDITION. *ret_made: the number of levels created, including the target; 0 if it
 * existed.
 */
int target_make(const char *path, enum target_kind kind, unsigned *ret_made, struct err *err)
	MUST_CHECK;
/* Rolls back target_make(): removes the levels that it created, if they are still empty. */
void target_unmake(const char *path, unsigned made);
/*
 * Removes the target, on which nothing is mounted. Returns 0 even if it does not exist.
 * FAILED_PRECONDITION: it is not empty; the message lists its content.
 */
int target_remove(const char *path, struct err *err) MUST_CHECK;
