/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files and directories. Each path is complete, not relative to an open directory. Stateless;
 * any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/str.h"

/*
 * Reads the whole file, at most `max` bytes (more: ERR_EXHAUSTED), into malloc'ed NUL-terminated
 * text; ret_len may be NULL. Works for sysfs and proc, which do not report sizes.
 */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *err)
	MUST_CHECK;
/* Like file_read(), but without trailing whitespace, for sysfs attributes. */
int file_read_line(const char *path, size_t max, char **ret, struct err *err) MUST_CHECK;
/* Writes all bytes to fd at its offset; `path` names it in errors. */
int file_write_all(int fd, const char *path, const char *bytes, size_t n, struct err *err)
	MUST_CHECK;
/* Writes the text to an existing file by a single write(2), which sysfs attributes need. */
int file_write(const char *path, const char *text, struct err *err) MUST_CHECK;
/*
 * Creates or replaces a file: writes <path>.tmp, syncs it, renames it, syncs the directory. Returns
 * 0 when the bytes are on disk. After -1, <path> is the old file or the complete new one.
 */
int file_replace(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
	MUST_CHECK;
/*
 * Creates a file or overwrites it in place. Syncs the file but not its directory, so it costs half
 * as much as file_replace(). After a crash, the file may be missing, or have its old content or
 * only a part of the new content.
 */
int file_write_synced(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
	MUST_CHECK;
/* Removes a file. A missing file is not an error, even on a read-only filesystem. */
int file_remove(const char *path, struct err *err) MUST_CHECK;
/*
 * Opens a directory with O_PATH by an absolute path, without following any symbolic link in it.
 * err->sys is ENOTDIR if a component is a symbolic link or not a directory. Source: open(2).
 */
int dir_open(const char *path, int *ret, struct err *err) MUST_CHECK;
/* Syncs the directory: earlier creations, renames and removals in it are then on disk. */
int dir_sync(const char *path, struct err *err) MUST_CHECK;
/*
 * mkdir -p; each new directory gets `mode`. It is an error if the path exists and is not a
 * directory.
 */
int dir_make(const char *path, mode_t mode, struct err *err) MUST_CHECK;
/* Adds the names in the directory, except . and .., to `ret` and sorts it. */
int dir_list(const char *path, struct strs *ret, struct err *err) MUST_CHECK;
bool path_exists(const char *path); /* lstat succeeds */
/*
 * Returns an absolute path in the form that mountinfo has: symbolic links resolved, no "//", no
 * trailing slash. If the path does not exist, only its slashes are changed. malloc'ed.
 */
char *path_canonical(const char *path);

/* Return value of link_basename(): the link does not exist. */
enum { LINK_ABSENT = 1 };
/*
 * Returns the last component of a symbolic link's target ("nvme" for .../drivers/nvme), malloc'ed;
 * or LINK_ABSENT.
 */
int link_basename(const char *path, char **ret, struct err *err) MUST_CHECK;
