/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts: the only user of libmount. libmount parses mountinfo and turns option lists into
 * mount(2)'s flags; one context per call, never shared (its objects are not thread-safe). Helpers,
 * fstab, canonicalising and the fallback to read-only of mount(8) are off. Binds, remounts and
 * unmounts are one system call each and are made directly: libmount's versions look the target up,
 * and looking at a dead mount hangs. Does not decide what may be mounted where.
 */
#include "node/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "common/cleanup.h"
#include "common/mem.h"

DEFINE_AUTO(struct libmnt_table *, mnt_unref_table);
DEFINE_AUTO(struct libmnt_iter *, mnt_free_iter);
DEFINE_AUTO(struct libmnt_context *, mnt_free_context);

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

const struct mount *mount_at(const struct mount_table *t, const char *target)
{
	for (size_t i = t->n; i > 0; i--)
		if (str_eq(t->v[i - 1].target, target))
			return &t->v[i - 1];
	return NULL;
}

size_t mount_count_at(const struct mount_table *t, const char *target)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += str_eq(t->v[i].target, target);
	return n;
}

const struct mount *mount_of(const struct mount_table *t, dev_t devno, const char *root,
                             const struct mount *after)
{
	for (size_t i = after ? (size_t)(after - t->v) + 1 : 0; i < t->n; i++)
		if (t->v[i].devno == devno && (!root || str_eq(t->v[i].root, root)))
			return &t->v[i];
	return NULL;
}

/* Is `path` the directory `dir` or below it? */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (str_eq(dir, "/"))
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

const struct mount *mount_containing(const struct mount_table *t, const char *path)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const struct mount *m = &t->v[i];

		if (is_below(path, m->target) &&
		    (!best || strlen(m->target) >= strlen(best->target)))
			best = m;
	}
	return best;
}

static const struct mount *parent_of(const struct mount_table *t, const struct mount *m)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].id == m->parent_id && m->id != m->parent_id)
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

/* ---- options ---- */

/* A name that ends in '=' or '.' is a prefix. */
static const struct {
	const char *name, *why;
} refused_flags[] = {
	{ "bind", "the driver makes its own bind mounts" },
	{ "rbind", "the driver makes its own bind mounts" },
	{ "move", "it would move another mount" },
	{ "remount", "a staged volume is not remounted" },
	{ "loop", "a volume is a block device, not an image file" },
	{ "loop=", "a volume is a block device, not an image file" },
	{ "offset=", "it would mount another part of the device" },
	{ "sizelimit=", "it would mount another part of the device" },
	{ "sb=", "it would use another superblock than the one that was checked" },
	{ "device=", "it would add another device to the filesystem" },
	{ "journal_dev=", "it would use another device" },
	{ "journal_path=", "it would use another device" },
	{ "logdev=", "it would use another device" },
	{ "rtdev=", "it would use another device" },
	{ "errors=panic", "a broken volume would stop the whole host" },
	{ "fatal_errors=panic", "a broken volume would stop the whole host" },
	{ "helper=", "no helper programs are run" },
	{ "uhelper=", "no helper programs are run" },
	{ "verity.", "not supported" },
	{ "X-mount.", "it is an instruction to mount(8), which is not used" },
	{ "x-mount.", "it is an instruction to mount(8), which is not used" },
	{ "shared", "kubelet decides how mounts propagate" },
	{ "rshared", "kubelet decides how mounts propagate" },
	{ "slave", "kubelet decides how mounts propagate" },
	{ "rslave", "kubelet decides how mounts propagate" },
	{ "private", "kubelet decides how mounts propagate" },
	{ "rprivate", "kubelet decides how mounts propagate" },
	{ "unbindable", "the volume could not be published" },
	{ "runbindable", "the volume could not be published" },
};

static int check_flag(const char *flag, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(refused_flags); i++) {
		const char *name = refused_flags[i].name;
		bool prefix = str_has_suffix(name, "=") || str_has_suffix(name, ".");

		if (prefix ? str_has_prefix(flag, name) : str_eq(flag, name))
			return err_set(err, ERR_INVALID, "mount flag \"%s\" is refused: %s", flag,
			               refused_flags[i].why);
	}
	return 0;
}

int mount_flags_check(const char *const *flags, size_t n, struct strs *ret, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *start = flags[i];
		bool quoted = false;

		for (const char *p = start;; p++) {
			char *one AUTO(free) = NULL;

			if (*p == '"')
				quoted = !quoted;
			if (*p && (*p != ',' || quoted))
				continue;
			one = xstrndup(start, (size_t)(p - start));
			if (check_flag(one, err))
				return -1;
			if (!str_empty(one))
				strs_add(ret, one);
			if (!*p)
				break;
			start = p + 1;
		}
		if (quoted)
			return err_set(err, ERR_INVALID, "mount flag %s: a quote is not closed",
			               flags[i]);
	}
	return 0;
}

/* ---- changes ---- */

static enum err_code code_of_mount(int sys)
{
	if (sys == EUCLEAN || sys == EBADMSG)
		return ERR_DATA_LOSS; /* "Structure needs cleaning": the filesystem is damaged */
	return sys ? err_code_from_errno(sys) : ERR_INTERNAL;
}

static const char *repair_command(const char *fs_type)
{
	return str_eq(fs_type, "xfs")     ? "xfs_repair"
	       : str_eq(fs_type, "btrfs") ? "btrfs check"
	                                  : "e2fsck -f";
}

/* libmount knows what the errno means for this filesystem: its text is used, with our code. */
static int explain(struct libmnt_context *cxt, int rc, const char *device, const char *target,
                   const char *fs_type, struct err *err)
{
	char text[400] = "";
	int sys = mnt_context_syscall_called(cxt) ? mnt_context_get_syscall_errno(cxt) : 0;

	mnt_context_get_excode(cxt, rc, text, sizeof(text));
	if (str_empty(text))
		return err_sys(err, sys ? sys : EINVAL, "mount %s (%s) on %s", device, fs_type,
		               target);
	err_set(err, code_of_mount(sys), "mount %s (%s) on %s: %s", device, fs_type, target, text);
	err->sys = sys;
	if (err->code == ERR_DATA_LOSS)
		err_wrap(err,
		         "the filesystem is damaged; it is not repaired by itself (by hand: %s %s)",
		         repair_command(fs_type), device);
	return -1;
}

int mount_filesystem(const char *device, const char *target, const char *fs_type,
                     const struct strs *options, struct err *err)
{
	struct libmnt_context *cxt AUTO(mnt_free_context) = mnt_new_context();
	char *list AUTO(free) = strs_join(options, ",");
	int rc;

	if (!cxt)
		abort();
	mnt_context_disable_helpers(cxt, 1);
	mnt_context_disable_canonicalize(cxt, 1);
	mnt_context_disable_mtab(cxt, 1);
	mnt_context_set_optsmode(cxt, MNT_OMODE_NOTAB);
	mnt_context_enable_rwonly_mount(cxt, 1);
	mnt_context_set_source(cxt, device);
	mnt_context_set_target(cxt, target);
	mnt_context_set_fstype(cxt, fs_type);
	if (!str_empty(list) && mnt_context_set_options(cxt, list))
		return err_set(err, ERR_INVALID, "mount %s on %s: options %s cannot be read",
		               device, target, list);
	rc = mnt_context_mount(cxt);
	if (rc || !mnt_context_get_status(cxt))
		return explain(cxt, rc, device, target, fs_type, err);
	return 0;
}

int mount_bind(const char *source, const char *target, struct err *err)
{
	if (mount(source, target, NULL, MS_BIND, NULL) < 0)
		return err_sys(err, errno, "bind %s to %s", source, target);
	return 0;
}

int mount_bind_read_only(const char *source, const char *target, struct err *err)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	int fd AUTO(fd) = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	/* EPERM: container runtimes answer this for system calls that they do not know. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return MOUNT_UNSUPPORTED;
	if (fd < 0)
		return err_sys(err, errno, "bind %s to %s", source, target);
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) < 0)
		return errno == ENOSYS || errno == EPERM
		               ? MOUNT_UNSUPPORTED
		               : err_sys(err, errno, "make the bind of %s read-only", source);
	if (move_mount(fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(err, errno, "bind %s to %s", source, target);
	return 0;
}

int mount_set_read_only(const char *target, struct err *err)
{
	static const struct {
		unsigned long st, ms;
	} kept[] = {
		{ ST_NOSUID, MS_NOSUID },         { ST_NODEV, MS_NODEV },
		{ ST_NOEXEC, MS_NOEXEC },         { ST_NOATIME, MS_NOATIME },
		{ ST_NODIRATIME, MS_NODIRATIME }, { ST_RELATIME, MS_RELATIME },
	};
	unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
	struct statvfs now;

	if (statvfs(target, &now) < 0)
		return err_sys(err, errno, "statvfs %s", target);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (now.f_flag & kept[i].st)
			flags |= kept[i].ms;
	if (mount(NULL, target, NULL, flags, NULL) < 0)
		return err_sys(err, errno, "make %s read-only", target);
	return 0;
}

int mount_remove(const char *target, bool lazy, struct err *err)
{
	if (umount2(target, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EINVAL || errno == ENOENT)
		return MOUNT_ABSENT;
	return err_sys(err, errno, "unmount %s", target);
}

bool mount_errno_is_dead(int errnum)
{
	return errnum == EIO || errnum == ENODEV || errnum == ENXIO || errnum == ESTALE ||
	       errnum == ENOTCONN || errnum == ESHUTDOWN || errnum == EUCLEAN;
}
