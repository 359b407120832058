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
/* Writes all bytes to fd at its offset; `path` names it in errors. */
int file_write_all(int fd, const char *path, const char *bytes, size_t n, struct err *err)
	MUST_CHECK;
/* Writes the text to an existing file by a single write(2), as attributes of sysfs need it. */
int file_write(const char *path, const char *text, struct err *err) MUST_CHECK;
/*
 * Makes or replaces a file: writes <path>.tmp, syncs it, renames it, syncs the directory. 0: the
 * bytes are on disk. -1: <path> is the old file or the new one, never a part of it.
 */
int file_replace(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
	MUST_CHECK;
/*
 * Makes or overwrites a file in its place and syncs it, but not its directory: half the cost. After
 * a crash there may be no file, the old one, or a part of the new one.
 */
int file_write_synced(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
	MUST_CHECK;
/* Removes a file. A missing file is not an error, even on a read-only filesystem. */
int file_remove(const char *path, struct err *err) MUST_CHECK;
/* Syncs the directory: earlier creations, renames and removals in it are then on disk. */
int dir_sync(const char *path, struct err *err) MUST_CHECK;
/* mkdir -p; each new directory gets `mode`. An existing path that is no directory is an error. */
int dir_make(const char *path, mode_t mode, struct err *err) MUST_CHECK;
/* Adds the names in the directory, except . and .., to `ret` and sorts it. */
int dir_list(const char *path, struct strs *ret, struct err *err) MUST_CHECK;
bool path_exists(const char *path); /* lstat succeeds */

/* What link_basename() returns when there is no such link. */
enum { LINK_ABSENT = 1 };
/*
 * Last component of a symbolic link's target ("nvme" of .../drivers/nvme), malloc'ed; or
 * LINK_ABSENT.
 */
int link_basename(const char *path, char **ret, struct err *err) MUST_CHECK;
