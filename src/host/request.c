/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the command line and of the file as the node has them: a volume context that a
 * StorageClass would have given, a publish context, a capability. Has no rule of its own about what
 * may be touched or formatted.
 */
#include "host/request.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "dpf/attachment_context.h"
#include "host/host_node.h"
#include "node/context.h"
#include "node/mount/mount_flags.h"
#include "node/target/paths.h"
#include "volume/context_keys.h"

/* Where to mount, with the links above it followed; "" without --mount. */
static int request_read_mount(struct host_request *q, struct err *err)
{
	struct strs everywhere AUTO(strs_clear) = STRS_INIT;
	struct node_options o = { .kubelet_dir = "/", .volume_dirs = &everywhere };
	char *path AUTO(free) = xstrdup(q->a->mount), *dir AUTO(free) = NULL;
	size_t n = strlen(path);

	q->mount = xstrdup("");
	if (!n)
		return 0;
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	if (str_eq(path, "/"))
		return err_set(err, ERR_INVALID, "--mount: / is where the host's own files are");
	if (paths_check_point(&o, path, err))
		return err_wrap(err, "--mount");
	dir = paths_directory(path, NULL);
	free(q->mount);
	q->mount = xasprintf("%s%s", str_eq(dir, "/") ? "" : dir, strrchr(path, '/'));
	return 0;
}

/* What of a StorageClass would say it. */
static struct kvs request_volume_context(struct host_request *q)
{
	struct kv *list = arena_alloc(&q->arena, 4 * sizeof(*list));
	size_t n = 0;

	list[n++] = (struct kv) { PARAM_EMULATION, emulation_name(q->f->kind) };
	list[n++] = (struct kv) { PARAM_FUNCTION_TYPE, q->f->is.function_type };
	list[n++] = (struct kv) { PARAM_HOTPLUG_FUNCTION, q->f->is.hotplug ? "true" : "false" };
	if (q->f->kind == EMULATION_NVME && *q->mount)
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
		.n_mount_flags = *q->a->options ? 1 : 0,
		.mount_group = "",
	};

	q->options[0] = q->a->options;
	return cap;
}

static int request_check_options(const struct host_request *q, struct err *err)
{
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	bool share = q->f->kind == EMULATION_VIRTIOFS;

	if (share && !*q->mount)
		return err_set(err, ERR_INVALID,
		               "volume %s is a virtio-fs share, which is no disk: attach it with "
		               "--mount DIR",
		               q->f->is.key.volume);
	if (share && *q->a->format)
		return err_set(err, ERR_INVALID,
		               "--format: volume %s is a virtio-fs share, and nothing of it is "
		               "formatted",
		               q->f->is.key.volume);
	if (mount_flags_check(q->stage.cap.mount_flags, q->stage.cap.n_mount_flags,
	                      share ? "virtiofs" : q->a->fs_type, &flags, err))
		return err_wrap(err, "--options");
	return 0;
}

int host_request_make(struct host_request *q, const struct node *n, struct err *err)
{
	const char *volume = q->f->is.key.volume;
	struct kvs context, publish;

	q->stage = (struct stage_request) { .volume_id = volume,
		                            .staging_path = q->staging,
		                            .cap = request_capability(q),
		                            .attachment = q->f->is.key.uid,
		                            .format_option = "--format" };
	context = request_volume_context(q);
	publish = attachment_publish_context(&q->f->is, q->f->kind, 0, &q->arena);
	if (request_check_options(q, err) || context_check_id(volume, err) ||
	    volume_cap_check(&q->stage.cap, q->f->kind, "--fstype", err))
		return -1;
	if (context_check(n, &context, &publish, &q->stage.cap, &q->stage.params, err) ||
	    context_want(&publish, &q->stage.params, &q->stage.want, err))
		return err_wrap(err, "attachment %s", q->f->is.key.name);
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
}
