/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares resolved names. A directory could be replaced between this check and its use, but only
 * by a process that may write to kubelet's own directories. The check protects against wrong
 * requests and against links to other directories, not against root.
 */
#include "node/target/paths.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "node/mount/mountinfo.h"
#include "node/node.h"

char *paths_directory(const char *path, char **ret_blocked)
{
	char *copy AUTO(free) = xstrdup(path);
	const char *dir = dirname(copy);
	char *whole AUTO(free) = xstrdup(dir);

	for (;; dir = dirname(copy)) {
		char *real AUTO(free) = realpath(dir, NULL);

		if (real)
			return xasprintf("%s%s", str_eq(real, "/") ? "" : real,
			                 whole + (str_eq(dir, "/") ? 0 : strlen(dir)));
		if (path_exists(dir)) {
			if (ret_blocked)
				*ret_blocked = xstrdup(dir);
			return NULL;
		}
		if (str_eq(dir, "/") || str_eq(dir, "."))
			return xstrdup(whole);
	}
}

static bool has_dot_dot(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == '/' || !p[2]))
			return true;
	return false;
}

/* Returns true if the resolved directory `dir` is `base`, or below it. */
static bool is_within(const char *dir, const char *base)
{
	char *real AUTO(free) = realpath(base, NULL);
	const char *top = real ? real : base;
	size_t n = strlen(top);

	while (n > 0 && top[n - 1] == '/')
		n--;
	return strncmp(dir, top, n) == 0 && (dir[n] == '/' || !dir[n]);
}

bool paths_allowed(const struct node_options *o, const char *dir)
{
	if (is_within(dir, o->kubelet_dir))
		return true;
	for (size_t i = 0; o->volume_dirs && i < o->volume_dirs->n; i++)
		if (is_within(dir, o->volume_dirs->v[i]))
			return true;
	return false;
}

static int refuse_outside(const struct node_options *o, const char *path, const char *dir,
                          struct err *err)
{
	char *copy AUTO(free) = xstrdup(path);
	char *other AUTO(free) =
		strs_join(o->volume_dirs ? o->volume_dirs : &(struct strs)STRS_INIT, ", ");
	char *led AUTO(free) = NULL;
	const char *name = strrchr(path, '/');

	if (!str_eq(dirname(copy), dir))
		led = xasprintf(" leads to %s%s, which", str_eq(dir, "/") ? "" : dir, name);
	return err_set(err, ERR_PRECONDITION,
	               "%s%s is not below %s (--kubelet-dir)%s%s: nothing is mounted or "
	               "unmounted there. If kubelet has another --root-dir, set --kubelet-dir to "
	               "it; --volume-dir allows the directory of another orchestrator",
	               path, led ? led : "", o->kubelet_dir,
	               *other ? ", nor below --volume-dir " : "", other);
}

/*
 * Sets the error for a component that cannot be followed. The cause is the link, or a temporary
 * failure: ENOMEM, EMFILE, a disk error.
 */
static int refuse_blocked(const char *blocked, const char *path, struct err *err)
{
	char *real AUTO(free) = realpath(blocked, NULL);

	if (real || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EACCES)) {
		err_sys(err, real ? EAGAIN : errno, "follow %s, in which %s is", blocked, path);
		return err_recode(err, ERR_UNAVAILABLE);
	}
	return err_set(err, ERR_PRECONDITION,
	               "%s cannot be resolved (a dangling link, or not a directory); %s would be "
	               "below it",
	               blocked, path);
}

int paths_resolve(const char *path, char **ret, struct err *err)
{
	char *copy AUTO(free) = xstrdup(path), *dir AUTO(free) = NULL, *blocked AUTO(free) = NULL;
	int rc = mount_resolve_path(path, ret, err);

	if (rc != MOUNT_DIR_ABSENT)
		return rc;
	dir = paths_directory(path, &blocked);
	if (!dir)
		return refuse_blocked(blocked, path, err);
	*ret = xasprintf("%s/%s", dir, basename(copy));
	return 0;
}

int paths_check(const struct node_options *o, const char *path, struct err *err)
{
	char *dir AUTO(free) = NULL, *blocked AUTO(free) = NULL;

	if (*path != '/')
		return err_set(err, ERR_INVALID, "\"%s\" is not absolute", path);
	if (has_dot_dot(path))
		return err_set(err, ERR_INVALID,
		               "\"%s\" has a component \"..\": write the path without it", path);
	dir = paths_directory(path, &blocked);
	if (!dir)
		return refuse_blocked(blocked, path, err);
	return paths_allowed(o, dir) ? 0 : refuse_outside(o, path, dir, err);
}

int paths_check_point(const struct node_options *o, const char *path, struct err *err)
{
	char ignored;

	if (paths_check(o, path, err))
		return -1;
	/* For a directory this fails with EINVAL, without accessing a mount on it. */
	if (readlink(path, &ignored, 1) < 0)
		return 0;
	return err_set(err, ERR_PRECONDITION,
	               "%s is a symbolic link: volumes are neither mounted nor unmounted through "
	               "links; remove the link if it is not needed",
	               path);
}
