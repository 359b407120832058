/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount points in kubelet's directories: made with their parents (kubelet stopped doing that in
 * 1.20) and taken away again one by one, never recursively: what is not an empty directory or an
 * empty file stays, and is an error. A symbolic link is never followed nor removed.
 */
#pragma once

#include "common/err.h"

enum target_kind { TARGET_DIR, TARGET_FILE };

/*
 * Makes the target and its parents. One that is there is fine if it is a directory, or an empty
 * file, as `kind` wants; else FAILED_PRECONDITION. *ret_made: how many levels were made, the target
 * included; 0 when it was there.
 */
int target_make(const char *path, enum target_kind kind, unsigned *ret_made, struct err *err)
	MUST_CHECK;
/*
 * Takes back what target_make() made, as far as it is still empty: the roll-back of a failed call.
 */
void target_unmake(const char *path, unsigned made);
/*
 * Removes the target, on which nothing is mounted. 0 also when it is not there.
 * FAILED_PRECONDITION: it is not empty; the text says what is in it.
 */
int target_remove(const char *path, struct err *err) MUST_CHECK;
