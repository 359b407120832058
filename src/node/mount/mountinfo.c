/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads mountinfo through libmount, and answers what is mounted where from the lines alone: nothing
 * here touches a mount, which may be dead. Changes nothing.
 */
#include "node/mount/mountinfo.h"

#include <errno.h>
#include <libmount/libmount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

DEFINE_AUTO(struct libmnt_table *, mnt_unref_table);
DEFINE_AUTO(struct libmnt_iter *, mnt_free_iter);

/* ---- the table ---- */

/* libmount has NULL for an empty text. */
static char *text_of(const char *s)
{
	return xstrdup(s ? s : "");
}

static bool has_option(const char *options, const char *name)
{
	return options && mnt_optstr_get_option(options, name, NULL, NULL) == 0;
}

static void take_line(struct mount *m, struct libmnt_fs *fs)
{
	const char *options = mnt_fs_get_vfs_options(fs), *fs_options = mnt_fs_get_fs_options(fs);
	unsigned long propagation = 0;

	(void)mnt_fs_get_propagation(fs, &propagation);

	*m = (struct mount) {
		.id = mnt_fs_get_id(fs),
		.parent_id = mnt_fs_get_parent_id(fs),
		.devno = mnt_fs_get_devno(fs),
		.root = text_of(mnt_fs_get_root(fs)),
		.target = text_of(mnt_fs_get_target(fs)),
		.fs_type = text_of(mnt_fs_get_fstype(fs)),
		.source = text_of(mnt_fs_get_source(fs)),
		.options = text_of(options),
		.fs_options = text_of(fs_options),
		.read_only = has_option(options, "ro") || has_option(fs_options, "ro"),
		.shared = (propagation & MS_SHARED) != 0,
		.slave = (propagation & MS_SLAVE) != 0,
	};
}

/* A line that cannot be understood is fatal: it could be the one that says what is mounted here. */
static int refuse_line(struct libmnt_table *t __attribute__((unused)),
                       const char *file __attribute__((unused)), int line __attribute__((unused)))
{
	return -EINVAL;
}

int mount_table_read(const char *proc_root, struct mount_table *ret, struct err *err)
{
	char *path AUTO(free) = xasprintf("%s/self/mountinfo", proc_root);
	struct libmnt_table *table AUTO(mnt_unref_table) = mnt_new_table();
	struct libmnt_iter *it AUTO(mnt_free_iter) = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	int rc;

	if (!table || !it)
		abort();
	mnt_table_set_parser_errcb(table, refuse_line);
	if (access(path, R_OK) < 0) {
		err_sys(err, errno, "read %s", path);
		return err_recode(err, ERR_INTERNAL);
	}
	rc = mnt_table_parse_file(table, path);
	if (rc)
		return err_set(err, ERR_INTERNAL, "read %s: it has a line that is no mountinfo",
		               path);
	ret->v = xcalloc((size_t)mnt_table_get_nents(table) + 1, sizeof(*ret->v));
	ret->n = 0;
	while (mnt_table_next_fs(table, it, &fs) == 0)
		take_line(&ret->v[ret->n++], fs);
	return 0;
}

void mount_table_clear(struct mount_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct mount *m = &t->v[i];
		char *const strings[] = { m->root,   m->target,  m->fs_type,
			                  m->source, m->options, m->fs_options };

		for (size_t k = 0; k < ARRAY_LEN(strings); k++)
			free(strings[k]);
	}
	free(t->v);
	*t = (struct mount_table)MOUNT_TABLE_INIT;
}

/* ---- what is where ---- */

/* Is `path` the directory `dir` or below it? */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (str_eq(dir, "/"))
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static const struct mount *parent_of(const struct mount_table *t, const struct mount *m)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].id == m->parent_id && m->id != m->parent_id)
			return &t->v[i];
	return NULL;
}

/*
 * The mount that path resolution enters next on its way from the mount `from` (NULL: from the
 * process's root) to `path`; NULL: none. Of those within `from` it meets the one nearest to the
 * root first, and never sees one that lies further down. A mount over the root itself is seen by
 * nobody: resolution begins beneath it.
 */
static const struct mount *next_on_way(const struct mount_table *t, const struct mount *from,
                                       const char *path)
{
	const struct mount *next = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const struct mount *m = &t->v[i];

		if (from && (m->parent_id != from->id || m == from || str_eq(m->target, "/")))
			continue;
		if (!is_below(path, m->target) || (!from && parent_of(t, m)))
			continue;
		if (!next || strlen(m->target) <= strlen(next->target))
			next = m;
	}
	return next;
}

const struct mount *mount_containing(const struct mount_table *t, const char *path)
{
	const struct mount *in = NULL, *next;

	/* As many steps as there are mounts: lines whose parents form a circle end it, too. */
	for (size_t i = 0; i < t->n && (next = next_on_way(t, in, path)); i++)
		in = next;
	return in;
}

const struct mount *mount_at(const struct mount_table *t, const char *target)
{
	const struct mount *m = mount_containing(t, target);

	return m && str_eq(m->target, target) ? m : NULL;
}

const struct mount *mount_hidden_at(const struct mount_table *t, const char *target)
{
	if (mount_at(t, target))
		return NULL;
	for (size_t i = t->n; i > 0; i--)
		if (str_eq(t->v[i - 1].target, target))
			return &t->v[i - 1];
	return NULL;
}

const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after)
{
	for (size_t i = after ? (size_t)(after - t->v) + 1 : 0; i < t->n; i++)
		if (t->v[i].devno == devno && (!root || str_eq(t->v[i].root, root)))
			return &t->v[i];
	return NULL;
}

/* A path below a mount as a path within its filesystem: two views of a mount point share it. */
static char *path_in_filesystem(const struct mount *parent, const char *path)
{
	const char *rest = path + (str_eq(parent->target, "/") ? 0 : strlen(parent->target));

	return xasprintf("%s%s", str_eq(parent->root, "/") ? "" : parent->root, rest);
}

bool mount_same_place(const struct mount_table *t, const struct mount *a, const struct mount *b)
{
	const struct mount *up_a = parent_of(t, a), *up_b = parent_of(t, b);
	char *path_a AUTO(free) = NULL, *path_b AUTO(free) = NULL;

	if (str_eq(a->target, b->target))
		return true;
	if (!up_a || !up_b || up_a->devno != up_b->devno || !is_below(a->target, up_a->target) ||
	    !is_below(b->target, up_b->target))
		return false;
	path_a = path_in_filesystem(up_a, a->target);
	path_b = path_in_filesystem(up_b, b->target);
	return str_eq(path_a, path_b);
}

/* ---- paths ---- */

int mount_place(const char *path, char **ret, struct err *err)
{
	char *copy_of AUTO(free) = xstrdup(path);
	size_t n = strlen(copy_of);
	char *slash, *dir AUTO(free) = NULL;
	const char *name;

	while (n > 1 && copy_of[n - 1] == '/')
		copy_of[--n] = '\0';
	slash = strrchr(copy_of, '/');
	name = slash ? slash + 1 : copy_of;
	if (str_empty(name) || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, ERR_INVALID, "path %s: names no file or directory of its own",
		               path);
	if (slash)
		*slash = '\0';
	dir = realpath(!slash ? "." : slash == copy_of ? "/" : copy_of, NULL);
	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return MOUNT_DIR_ABSENT;
	if (!dir)
		return err_sys(err, errno, "resolve the directory of %s", path);
	*ret = xasprintf("%s/%s", str_eq(dir, "/") ? "" : dir, name);
	return 0;
}
