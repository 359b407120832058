/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files and directories by complete path. Stateless; any thread. Removes only single files,
 * never a directory tree.
 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

static int file_read_all(int fd, const char *path, size_t max, struct str *out, struct err *err)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, errno, "read %s", path);
		if (n == 0)
			return 0;
		if (!str_addn(out, chunk, (size_t)n))
			return err_set(err, ERR_EXHAUSTED, "read %s: larger than %zu bytes", path,
			               max);
	}
}

int file_read(const char *path, size_t max, char **ret, size_t *ret_len, struct err *err)
{
	int fd AUTO(fd) = open(path, O_RDONLY | O_CLOEXEC);
	struct str out AUTO(str_clear) = STR_INIT(max);

	if (fd < 0)
		return err_sys(err, errno, "open %s", path);
	if (file_read_all(fd, path, max, &out, err))
		return -1;
	if (ret_len)
		*ret_len = out.len;
	*ret = str_take(&out);
	return 0;
}

int file_read_line(const char *path, size_t max, char **ret, struct err *err)
{
	char *text AUTO(free) = NULL;
	size_t n;

	if (file_read(path, max, &text, &n, err))
		return -1;
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
	*ret = TAKE(text);
	return 0;
}

int file_write_all(int fd, const char *path, const char *bytes, size_t n, struct err *err)
{
	while (n > 0) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(err, errno, "write %s", path);
		bytes += done;
		n -= (size_t)done;
	}
	return 0;
}

int file_write(const char *path, const char *text, struct err *err)
{
	int fd AUTO(fd) = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
	size_t n = strlen(text);
	ssize_t done;

	if (fd < 0)
		return err_sys(err, errno, "open %s for writing", path);
	/* A single write, because sysfs acts on each write separately. */
	do
		done = write(fd, text, n);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		return err_sys(err, errno, "write %s", path);
	if ((size_t)done != n)
		return err_set(err, ERR_INTERNAL, "write %s: only %zd of %zu bytes were taken",
		               path, done, n);
	return 0;
}

int dir_open(const char *path, int *ret, struct err *err)
{
	int fd AUTO(fd) = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *copy AUTO(free) = xstrdup(path), *rest = copy;

	for (char *name; fd >= 0 && (name = strsep(&rest, "/"));) {
		int next;

		if (!*name)
			continue;
		next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && errno == ENOTDIR)
			return err_sys(
				err, ENOTDIR,
				"open %s: its component %s is a symbolic link or not a directory",
				path, name);
		if (next < 0)
			return err_sys(err, errno, "open %s", path);
		close(fd);
		fd = next;
	}
	if (fd < 0)
		return err_sys(err, errno, "open /");
	*ret = TAKE_FD(fd);
	return 0;
}

int dir_sync(const char *path, struct err *err)
{
	int fd AUTO(fd) = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, errno, "open %s", path);
	if (fsync(fd))
		return err_sys(err, errno, "sync %s", path);
	return 0;
}

static int sync_directory_of(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	char *dir AUTO(free) =
		slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");

	return dir_sync(dir, err);
}

int file_write_synced(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
{
	int fd AUTO(fd) = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return err_sys(err, errno, "create %s", path);
	if (file_write_all(fd, path, bytes, n, err))
		return -1;
	if (fsync(fd))
		return err_sys(err, errno, "sync %s", path);
	if (close(TAKE_FD(fd)))
		return err_sys(err, errno, "close %s", path);
	return 0;
}

int file_replace(const char *path, const char *bytes, size_t n, mode_t mode, struct err *err)
{
	char *tmp AUTO(free) = xasprintf("%s.tmp", path);

	if (file_write_synced(tmp, bytes, n, mode, err)) {
		unlink(tmp);
		return -1;
	}
	if (rename(tmp, path)) {
		int why = errno;

		unlink(tmp);
		return err_sys(err, why, "rename %s to %s", tmp, path);
	}
	return sync_directory_of(path, err);
}

int file_remove(const char *path, struct err *err)
{
	struct stat st;
	int why;

	if (unlink(path) == 0 || errno == ENOENT)
		return 0;
	why = errno;
	/* A read-only filesystem returns EROFS even for a name that does not exist. */
	if (why == EROFS && lstat(path, &st) < 0 && errno == ENOENT)
		return 0;
	return err_sys(err, why, "remove %s", path);
}

static int make_one(const char *path, mode_t mode, struct err *err)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return err_sys(err, errno, "make directory %s", path);
	if (stat(path, &st))
		return err_sys(err, errno, "stat %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_sys(err, ENOTDIR, "make directory %s", path);
	return 0;
}

int dir_make(const char *path, mode_t mode, struct err *err)
{
	char *part AUTO(free) = xstrdup(path);

	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		/*
		 * An existing parent is not checked with stat(), because it may be a mount that
		 * hangs.
		 */
		if (mkdir(part, mode) && errno != EEXIST)
			return err_sys(err, errno, "make directory %s", part);
		*slash = '/';
	}
	return make_one(path, mode, err);
}

int dir_list(const char *path, struct strs *ret, struct err *err)
{
	DIR *dir AUTO(closedir) = opendir(path);

	if (!dir)
		return err_sys(err, errno, "list %s", path);
	for (;;) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (!entry && errno)
			return err_sys(err, errno, "list %s", path);
		if (!entry)
			break;
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			strs_add(ret, entry->d_name);
	}
	strs_sort(ret);
	return 0;
}

char *path_canonical(const char *path)
{
	char *real = realpath(path, NULL);
	struct str plain AUTO(str_clear) = STR_INIT(PATH_MAX);

	if (real)
		return real;
	for (size_t n; *path; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n)
			str_addf(&plain, "/%.*s", (int)n, path);
	}
	return xstrdup(plain.len ? plain.ptr : "/");
}

bool path_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

int link_basename(const char *path, char **ret, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *slash;

	if (n < 0 && errno == ENOENT)
		return LINK_ABSENT;
	if (n < 0)
		return err_sys(err, errno, "read link %s", path);
	target[n] = '\0';
	slash = strrchr(target, '/');
	*ret = xstrdup(slash ? slash + 1 : target);
	return 0;
}
