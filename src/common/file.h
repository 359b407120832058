/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and directories. Paths are whole paths; no state, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/str.h"

/*
 * The whole file, at most max bytes (more: ERR_EXHAUSTED), as malloc'ed text with a NUL behind it;
 * ret_len may be NULL. Works for sysfs and proc, whose sizes are not known before.
 */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *err)
	MUST_CHECK;
/* The same without the last newline and white space before it: a sysfs attribute. */
int file_read_line(const char *path, size_t max, char **ret, struct err *err) MUST_CHECK;
/* One write(2) of the text to an existing file: how sysfs is told something. */
int file_write(const char *path, const char *text, struct err *err) MUST_CHECK;
/*
 * A new or replaced file with exactly these bytes, on disk (fsync of file and directory) when it
 * returns 0: temporary name, then rename.
 */
int file_replace(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
	MUST_CHECK;
/* Removes a file; one that is not there is fine. */
int file_remove(const char *path, struct err *err) MUST_CHECK;
/* mkdir -p; every directory made gets `mode`. One that is there is fine, a non-directory is not. */
int dir_make(const char *path, mode_t mode, struct err *err) MUST_CHECK;
/* Names in the directory but . and .., sorted, into `ret` (added to). */
int dir_list(const char *path, struct strs *ret, struct err *err) MUST_CHECK;
bool path_exists(const char *path); /* lstat succeeds */
enum { LINK_ABSENT = 1 };
/*
 * Last component of a symbolic link's target ("nvme" of .../drivers/nvme), malloc'ed. Returns
 * LINK_ABSENT when there is no such link.
 */
int link_basename(const char *path, char **ret, struct err *err) MUST_CHECK;
