/* SPDX-License-Identifier: Apache-2.0 */
/* Works on files, links and directories below one root. Independent of devices. */
#include "test/sim/fabric/devtree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

static char *whole(const struct devtree *t, const char *dir, const char *name)
{
	return name ? xasprintf("%s/%s/%s", t->root, dir, name) : xasprintf("%s/%s", t->root, dir);
}

void devtree_dir(struct devtree *t, const char *path)
{
	char *p AUTO(free) = whole(t, path, NULL);

	if (!t->err.code && dir_make(p, 0755, &t->err))
		err_wrap(&t->err, "build the sysfs tree");
}

void devtree_bytes(struct devtree *t, const char *dir, const char *name, const void *bytes,
                   size_t n)
{
	char *p AUTO(free) = whole(t, dir, name);
	int fd AUTO(fd) = -1;

	if (t->err.code)
		return;
	fd = open(p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		err_sys(&t->err, errno, "write %s", p);
}

void devtree_attr(struct devtree *t, const char *dir, const char *name, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	devtree_bytes(t, dir, name, text, (size_t)n);
}

void devtree_symlink(struct devtree *t, const char *dir, const char *name, const char *target)
{
	char *p AUTO(free) = whole(t, dir, name);

	if (!t->err.code && symlink(target, p))
		err_sys(&t->err, errno, "link %s", p);
}

/* Length of the leading path components that both have, slash included. */
static size_t common_part(const char *a, const char *b)
{
	size_t end = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			end = i + 1;
	return end;
}

void devtree_link(struct devtree *t, const char *dir, const char *name, const char *home,
                  const char *target)
{
	struct str text AUTO(str_clear) = STR_INIT(4096);
	size_t common = common_part(home, target);

	for (const char *s = home + common; s; s = strchr(s + 1, '/'))
		str_add(&text, "../");
	str_add(&text, target + common);
	devtree_symlink(t, dir, name, text.ptr);
}

void devtree_replace(struct devtree *t, const char *dir, const char *name, const char *text)
{
	char *from AUTO(free) = xasprintf("new/%s", name);
	char *to AUTO(free) = xasprintf("%s/%s", dir, name);

	devtree_bytes(t, "new", name, text, strlen(text));
	devtree_rename(t, from, to);
}

void devtree_fifo(struct devtree *t, const char *dir, const char *name)
{
	char *p AUTO(free) = whole(t, dir, name);

	if (!t->err.code && mkfifo(p, 0600))
		err_sys(&t->err, errno, "make %s", p);
}

void devtree_rename(struct devtree *t, const char *from, const char *to)
{
	char *a AUTO(free) = whole(t, from, NULL);
	char *b AUTO(free) = whole(t, to, NULL);

	if (!t->err.code && rename(a, b))
		err_sys(&t->err, errno, "rename %s to %s", a, b);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path) && errno != ENOENT;
}

static int remove_tree(const char *path)
{
	return nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void devtree_remove(struct devtree *t, const char *path)
{
	char *p AUTO(free) = whole(t, path, NULL);

	if (path_exists(p) && remove_tree(p) && !t->err.code)
		err_sys(&t->err, errno, "remove %s", p);
}

bool devtree_has(const struct devtree *t, const char *path)
{
	char *p AUTO(free) = whole(t, path, NULL);

	return path_exists(p);
}

void devtree_entry(struct devtree *t, const char *dir, const char *name, const char *target)
{
	char *below_root AUTO(free) = xasprintf("sys/%s", dir);

	devtree_dir(t, below_root);
	devtree_link(t, below_root, name, dir, target);
}

void devtree_remove_entry(struct devtree *t, const char *dir, const char *name)
{
	char *path AUTO(free) = xasprintf("sys/%s/%s", dir, name);

	devtree_remove(t, path);
}

int devtree_end(struct devtree *t, struct err *err)
{
	if (!t->err.code)
		return 0;
	*err = t->err;
	return -1;
}

static bool is_kept(const char *name, const char *const *keep)
{
	for (; keep && *keep; keep++)
		if (str_eq(*keep, name))
			return true;
	return false;
}

void devtree_clear(const char *path, const char *const *keep)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (dir_list(path, &names, &err))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char *p AUTO(free) = xasprintf("%s/%s", path, names.v[i]);

		if (!is_kept(names.v[i], keep))
			(void)remove_tree(p);
	}
}
