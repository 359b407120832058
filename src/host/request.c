/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the command line and the file into a CSI request: a volume context as from a
 * StorageClass, a publish context, a capability. The rules about permitted devices and formatting
 * are those of the node.
 */
#include "host/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "dpf/attachment_context.h"
#include "host/host_node.h"
#include "node/context.h"
#include "node/mount/mount_flags.h"
#include "node/target/paths.h"
#include "volume/context_keys.h"

/*
 * Returns the mount point, with the links in its parent directories resolved; "" without --mount.
 */
static int request_read_mount(struct host_request *q, struct err *err)
{
	struct strs everywhere AUTO(strs_clear) = STRS_INIT;
	struct node_options o = { .kubelet_dir = "/", .volume_dirs = &everywhere };
	const char *path = q->a->mount;

	if (!*path) {
		q->mount = xstrdup("");
		return 0;
	}
	if (strspn(path, "/") == strlen(path))
		return err_set(err, ERR_INVALID, "--mount: / is the root directory of the host");
	return paths_check(&o, path, err) || paths_resolve(path, &q->mount, err) ||
	                       paths_check_point(&o, q->mount, err)
	               ? err_wrap(err, "--mount")
	               : 0;
}

/*
 * Returns true if a user other than root may replace an entry of this directory: the directory is
 * owned by another user, or is writable for other users and not sticky.
 */
static bool is_open_to_users(const struct stat *st)
{
	return st->st_uid != 0 || ((st->st_mode & (S_IWGRP | S_IWOTH)) && !(st->st_mode & S_ISVTX));
}

/*
 * Checks the owners of the directories in the path, because a mount helper resolves the path
 * itself, so only root may be able to change it.
 */
static int request_check_owners(const struct host_request *q, const struct node *n, struct err *err)
{
	char *dir AUTO(free) = xstrdup(q->mount);
	struct stat st;

	if (q->f->kind != EMULATION_VIRTIOFS || str_eq(n->o.virtiofs_type, "virtiofs"))
		return 0;
	while (*dir) {
		*strrchr(dir, '/') = '\0';
		if (lstat(*dir ? dir : "/", &st) == 0 && is_open_to_users(&st))
			return err_set(
				err, ERR_PRECONDITION,
				"--mount: users other than root can replace entries of %s (uid "
				"%u, mode %04o), and the helper of filesystem type %s follows "
				"%s by itself; next: mount below a directory of root",
				*dir ? dir : "/", st.st_uid, st.st_mode & 07777, n->o.virtiofs_type,
				q->mount);
	}
	return 0;
}

/* Returns true for a static PF, which a StorageClass cannot select. */
static bool is_static_pf(const struct attachment_file *f)
{
	return f->kind == EMULATION_NVME && str_eq(f->is.function_type, "pf") && !f->is.hotplug;
}

/* Returns the volume context that a StorageClass would produce. */
static struct kvs request_volume_context(struct host_request *q)
{
	struct kv *list = arena_alloc(&q->arena, 5 * sizeof(*list));
	bool encrypted = !str_empty(q->a->encryption);
	size_t n = 0;

	list[n++] = (struct kv) { PARAM_EMULATION, emulation_name(q->f->kind) };
	if (!is_static_pf(q->f)) {
		list[n++] = (struct kv) { PARAM_FUNCTION_TYPE, q->f->is.function_type };
		list[n++] =
			(struct kv) { PARAM_HOTPLUG_FUNCTION, q->f->is.hotplug ? "true" : "false" };
	}
	if (encrypted)
		list[n++] = (struct kv) { PARAM_ENCRYPTION, q->a->encryption };
	if (q->f->kind == EMULATION_NVME && (*q->mount || encrypted))
		list[n++] =
			(struct kv) { PARAM_FORMAT_POLICY, *q->a->format ? q->a->format : "never" };
	return (struct kvs) { list, n };
}

static struct volume_cap request_capability(struct host_request *q)
{
	struct volume_cap cap = {
		.type = *q->mount ? ACCESS_MOUNT : ACCESS_BLOCK,
		.mode = q->a->read_only ? MODE_MULTI_NODE_READER_ONLY : MODE_SINGLE_NODE_WRITER,
		.fs_type = q->a->fs_type,
		.mount_flags = q->options,
		.n_mount_flags = *q->mount ? ARRAY_LEN(q->options) : 0,
		.mount_group = "",
	};

	/*
	 * Local users of a host do not own the volume. The last option takes effect, so the user's
	 * "suid" overrides "nosuid".
	 */
	q->options[0] = "nosuid,nodev";
	q->options[1] = q->a->options;
	return cap;
}

static int request_check_options(const struct host_request *q, struct err *err)
{
	bool share = q->f->kind == EMULATION_VIRTIOFS;

	if (share && !*q->mount)
		return err_set(err, ERR_INVALID,
		               "volume %s is a virtio-fs share, not a disk: attach it with "
		               "--mount DIR",
		               q->f->is.key.volume);
	if (share && *q->a->format)
		return err_set(err, ERR_INVALID,
		               "--format: volume %s is a virtio-fs share, which is never "
		               "formatted",
		               q->f->is.key.volume);
	return 0;
}

/* Checks the mount flags; the filesystem is already known to be supported. */
static int request_check_mount_flags(const struct host_request *q, struct err *err)
{
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	bool share = q->f->kind == EMULATION_VIRTIOFS;

	if (mount_flags_check(q->stage.cap.mount_flags, q->stage.cap.n_mount_flags,
	                      share ? "virtiofs" : q->a->fs_type, &flags, err))
		return err_wrap(err, "--options");
	return 0;
}

/*
 * Reads the passphrase: a line of text, as an editor writes it. Rejects a NUL byte, which would end
 * the passphrase (luks.h), so that only a few bytes of a binary key might be used.
 */
static int request_read_key(struct host_request *q, struct err *err)
{
	const char *path = q->a->key_file;
	char *text AUTO(free) = NULL;
	struct stat st;
	size_t n = 0;

	if (str_empty(path))
		return 0;
	if (stat(path, &st) < 0)
		return err_sys(err, errno, "--key-file: %s", path);
	/* A watch must not wait for the writer of a pipe. */
	if (q->a->watched && !S_ISREG(st.st_mode))
		return err_set(err, ERR_PRECONDITION, "--key-file: %s is not a regular file", path);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return err_set(err, ERR_PRECONDITION,
		               "--key-file: %s is accessible to other users (mode %04o, expected "
		               "0600 or 0400); next: chmod 600 %s",
		               path, st.st_mode & 07777, path);
	if (file_read(path, SECRET_MAX + 1, &text, &n, err))
		return err_wrap(err, "--key-file");
	q->keys = passphrases_new();
	if (n && text[n - 1] == '\n')
		n--;
	q->keys->current.n = n <= SECRET_MAX ? n : 0;
	memcpy(q->keys->current.text, text, q->keys->current.n);
	explicit_bzero(text, n);
	if (memchr(q->keys->current.text, '\0', q->keys->current.n))
		return err_set(
			err, ERR_INVALID,
			"--key-file: %s contains a NUL byte, expected text; next: encode the "
			"key, for example with base64",
			path);
	if (q->keys->current.n)
		return 0;
	return err_set(err, ERR_INVALID, "--key-file: %s has %zu bytes, expected 1 to %d", path, n,
	               SECRET_MAX);
}

int host_request_make(struct host_request *q, const struct node *n, struct err *err)
{
	const char *volume = q->f->is.key.volume;
	struct kvs context, publish;

	q->stage = (struct stage_request) { .volume_id = volume,
		                            .staging_path = q->staging,
		                            .resolved = *q->mount,
		                            .cap = request_capability(q),
		                            .attachment = q->f->is.key.uid,
		                            .format_option = "--format" };
	context = request_volume_context(q);
	if (request_read_key(q, err))
		return -1;
	q->stage.keys = q->keys;
	if (attachment_publish_context(&q->f->is, q->f->kind, 0, NULL, &q->arena, &publish, err) ||
	    request_check_options(q, err) || request_check_owners(q, n, err) ||
	    context_check_id(volume, err) ||
	    volume_cap_check(&q->stage.cap, q->f->kind, "--fstype", err) ||
	    request_check_mount_flags(q, err))
		return -1;
	if (context_check(n, &context, &publish, &q->stage.cap, &q->stage.params, err) ||
	    context_want(&publish, &q->stage.params, &q->stage.want, err))
		return err_wrap(err, "attachment %s", q->f->is.key.name);
	if (is_static_pf(q->f))
		q->stage.want.function = DEVICE_FUNCTION_STATIC_PF;
	return 0;
}

int host_request_paths(struct host_request *q, const struct host_args *a,
                       const struct attachment_file *f, struct err *err)
{
	q->a = a;
	q->f = f;
	if (request_read_mount(q, err))
		return -1;
	q->staging = host_staging_path(a, q->mount);
	return 0;
}

void host_request_clear(struct host_request *q)
{
	free(TAKE(q->mount));
	free(TAKE(q->staging));
	arena_clear(&q->arena);
	q->keys = passphrases_free(q->keys);
}
