/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates mount points, and removes them with rmdir(2) and unlink(2) only. No state. Callers have
 * checked in mountinfo that nothing is mounted at the path, so no call here can block on a dead
 * device.
 */
#include "node/target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

static int check_existing(const char *path, enum target_kind kind, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(err, errno, "stat %s", path);
	if (kind == TARGET_DIR && !S_ISDIR(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s exists and is not a directory", path);
	if (kind == TARGET_FILE && !S_ISREG(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s exists and is not a file", path);
	if (kind == TARGET_FILE && st.st_size != 0)
		return err_set(err, ERR_PRECONDITION, "%s is a file with %lld bytes of data", path,
		               (long long)st.st_size);
	return 0;
}

/*
 * Opens the parent directory of `path`; *ret_name is its last component. Ignores a trailing slash.
 */
static int open_parent(const char *path, int *ret, char **ret_name, struct err *err)
{
	char *for_dir AUTO(free) = xstrdup(path), *for_name AUTO(free) = xstrdup(path);

	*ret_name = xstrdup(basename(for_name));
	return dir_open(dirname(for_dir), ret, err);
}

/* Creates the directory and its parents; adds the number of created directories to *made. */
static int make_dirs(const char *path, unsigned *made, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path), *name AUTO(free) = NULL;
	int dir AUTO(fd) = -1;

	if (open_parent(path, &dir, &name, err)) {
		if (err->sys != ENOENT)
			return -1;
		err_clear(err);
		free(TAKE(name));
		if (make_dirs(dirname(copy), made, err) || open_parent(path, &dir, &name, err))
			return -1;
	}
	if (mkdirat(dir, name, 0755) == 0)
		(*made)++;
	else if (errno != EEXIST)
		return err_sys(err, errno, "make directory %s", path);
	return 0;
}

static int target_make_file(const char *path, unsigned *made, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path), *name AUTO(free) = NULL;
	int dir AUTO(fd) = -1, fd;

	if (make_dirs(dirname(copy), made, err) || open_parent(path, &dir, &name, err))
		return -1;
	fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return errno == EEXIST ? 0 : err_sys(err, errno, "make file %s", path);
	close(fd);
	(*made)++;
	return 0;
}

int target_make(const char *path, enum target_kind kind, unsigned *ret_made, struct err *err)
{
	unsigned made = 0;
	int rc = kind == TARGET_DIR ? make_dirs(path, &made, err)
	                            : target_make_file(path, &made, err);

	if (!rc)
		rc = check_existing(path, kind, err);
	if (rc) {
		target_unmake(path, made);
		return -1;
	}
	*ret_made = made;
	return 0;
}

/* Returns true for an empty file. A file that another process has written to has data and stays. */
static bool is_empty_file(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

void target_unmake(const char *path, unsigned made)
{
	char *copy AUTO(free) = xstrdup(path);

	/*
	 * Goes up until `made` levels have been removed. Skips missing levels, because the creation
	 * may have failed before the lowest one.
	 */
	for (char *p = copy; made && !str_eq(p, "/") && !str_eq(p, "."); p = dirname(p)) {
		struct err err = ERR_INIT;
		char *name AUTO(free) = NULL, *at AUTO(free) = NULL;
		int dir AUTO(fd) = -1, sys = 0;

		if (open_parent(p, &dir, &name, &err))
			sys = err.sys;
		else
			at = xasprintf("/proc/self/fd/%d/%s", dir, name);
		if (at && (is_empty_file(at) ? unlink(at) : rmdir(at)) < 0)
			sys = errno;
		if (sys && sys != ENOENT)
			return;
		made -= !sys;
	}
}

static int remove_dir(const char *path, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	int sys;

	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	sys = errno;
	if (sys != ENOTEMPTY && sys != EEXIST)
		return err_sys(err, sys, "remove directory %s", path);
	if (dir_list(path, &names, err))
		return err_wrap(err, "%s is not mounted and not empty", path);
	return err_set(err, ERR_PRECONDITION,
	               "%s is not mounted and not empty (%zu entries, among them %s): its "
	               "contents are not deleted; move them away if they are not needed",
	               path, names.n, names.n ? names.v[0] : "none");
}

int target_remove(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0
		                                           : err_sys(err, errno, "stat %s", path);
	if (S_ISDIR(st.st_mode))
		return remove_dir(path, err);
	if (!S_ISREG(st.st_mode) || st.st_size != 0)
		return err_set(
			err, ERR_PRECONDITION,
			"%s is not mounted and is not an empty file or directory (%lld bytes): "
			"it is left alone",
			path, (long long)st.st_size);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove file %s", path);
	return 0;
}
