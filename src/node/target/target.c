/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes mount points, and removes them with rmdir(2) and unlink(2) only. No state. Callers have
 * seen in mountinfo that nothing is mounted at the path, so nothing here can block on a dead
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
		return err_sys(err, errno, "look at %s", path);
	if (kind == TARGET_DIR && !S_ISDIR(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s is there and is not a directory", path);
	if (kind == TARGET_FILE && !S_ISREG(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "%s is there and is not a file", path);
	if (kind == TARGET_FILE && st.st_size != 0)
		return err_set(err, ERR_PRECONDITION, "%s is a file with %lld bytes of data", path,
		               (long long)st.st_size);
	return 0;
}

/* With its parents; adds to *made what was not there. */
static int make_dirs(const char *path, unsigned *made, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path);

	if (mkdir(path, 0755) == 0) {
		(*made)++;
		return 0;
	}
	if (errno == EEXIST)
		return 0;
	if (errno != ENOENT || str_eq(path, "/"))
		return err_sys(err, errno, "make directory %s", path);
	if (make_dirs(dirname(copy), made, err))
		return -1;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_sys(err, errno, "make directory %s", path);
	(*made)++;
	return 0;
}

static int target_make_file(const char *path, unsigned *made, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path);
	int fd;

	if (make_dirs(dirname(copy), made, err))
		return -1;
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
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

/* A file that somebody has written to meanwhile holds data and stays. */
static bool is_empty_file(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

void target_unmake(const char *path, unsigned made)
{
	char *copy AUTO(free) = xstrdup(path);

	/* Upwards until as many are gone as were made; the lowest may never have been there. */
	for (char *p = copy; made && !str_eq(p, "/") && !str_eq(p, "."); p = dirname(p)) {
		if ((is_empty_file(p) ? unlink(p) : rmdir(p)) == 0)
			made--;
		else if (errno != ENOENT)
			return;
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
	               "%s is not mounted and not empty (%zu entries, among them %s): its contents "
	               "are not deleted; move them away if nobody needs them",
	               path, names.n, names.n ? names.v[0] : "none");
}

int target_remove(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR
		               ? 0
		               : err_sys(err, errno, "look at %s", path);
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
