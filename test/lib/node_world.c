/* SPDX-License-Identifier: Apache-2.0 */
/* See node_world.h: paths, requests, and the state that tests check after a call. */
#include "test/lib/node_world.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/mount/mount.h"
#include "test/lib/wait.h"

void node_world_init(struct node_world *w)
{
	memset(w, 0, sizeof(*w));
	private_mounts();
	nvme_world_init(&w->nvme);
	w->plugin_dir = xasprintf("%s/plugin", w->nvme.root);
	w->kubelet_dir = xasprintf("%s/kubelet", w->nvme.root);
	w->staging = xasprintf("%s/kubelet/staging", w->nvme.root);
	w->target = xasprintf("%s/kubelet/pods/p1/target", w->nvme.root);
	w->other_target = xasprintf("%s/kubelet/pods/p2/target", w->nvme.root);
	w->block_file = xasprintf("%s/" VOLUME_ID, w->staging);
	run_tool("mkdir -p %s", w->staging);
	node_init(&w->node, &(struct node_options) { .id = "n1",
	                                             .world = w->nvme.world,
	                                             .proc_root = "/proc",
	                                             .plugin_dir = w->plugin_dir,
	                                             .kubelet_dir = w->kubelet_dir,
	                                             /* A busy machine has many processes. */
	                                             .tuning.holders_ms = 20000,
	                                             .tuning.host_wait_ms = WAIT_LIMIT_MS });
	w->tuning = w->node.o.tuning;
}

void node_world_impatient(struct node_world *w)
{
	w->node.o.tuning.busy_ms = 20;
	w->node.o.tuning.unstaging_ms = 20;
	w->node.o.tuning.lock_ms = 20;
	w->node.o.tuning.settle_ms = 20;
}

void node_world_patient(struct node_world *w)
{
	w->node.o.tuning = w->tuning;
}

void node_world_tell_boot(const struct node_world *w)
{
	run_tool("mkdir -p %s/proc/sys/kernel/random && "
	         "cat /proc/sys/kernel/random/boot_id > %s/proc/sys/kernel/random/boot_id",
	         w->nvme.root, w->nvme.root);
}

void node_world_restart(struct node_world *w, bool boot_is_told)
{
	static char proc[300];
	struct node_options o = w->node.o;

	snprintf(proc, sizeof(proc), "%s/proc", w->nvme.root);
	run_tool("rm -rf %s && mkdir -p %s && ln -s /proc/self %s/self", proc, proc, proc);
	if (boot_is_told)
		node_world_tell_boot(w);
	o.proc_root = proc;
	node_clear(&w->node);
	node_init(&w->node, &o);
}

void node_world_clear(struct node_world *w)
{
	node_clear(&w->node);
	free(w->plugin_dir);
	free(w->kubelet_dir);
	free(w->staging);
	free(w->target);
	free(w->other_target);
	free(w->block_file);
	nvme_world_clear(&w->nvme);
}

static struct volume_cap capability(const char *fs_type, enum access_mode mode)
{
	return (struct volume_cap) { .type = fs_type ? ACCESS_MOUNT : ACCESS_BLOCK,
		                     .mode = mode,
		                     .fs_type = fs_type ? fs_type : "",
		                     .mount_group = "" };
}

struct stage_request stage_request(const struct node_world *w, const struct nvme_disk *d,
                                   const char *fs_type, enum access_mode mode)
{
	return (struct stage_request) {
		.volume_id = VOLUME_ID,
		.staging_path = w->staging,
		.cap = capability(fs_type, mode),
		.want = { .volume_id = "",
		          .pci = d->pci,
		          .vuid = "",
		          .nsid = d->nsid,
		          .uuid = d->uuid },
	};
}

struct publish_request publish_request(const struct node_world *w, const char *target,
                                       const char *fs_type, enum access_mode mode)
{
	return (struct publish_request) { .volume_id = VOLUME_ID,
		                          .staging_path = w->staging,
		                          .target_path = target,
		                          .cap = capability(fs_type, mode) };
}

struct deadline soon(void)
{
	return wait_limit();
}

void node_world_stage(struct node_world *w, const struct stage_request *r)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_stage(&w->node, r, soon(), &err) == 0, "%s", err.msg);
}

void node_world_publish(struct node_world *w, const struct publish_request *r)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_publish(&w->node, r, soon(), &err) == 0, "%s", err.msg);
}

struct stager {
	struct node *node;
	pthread_t thread;
	struct stage_request r;
	char id[16], path[256];
	struct err err;
	int rc;
};

static void *stage_one(void *arg)
{
	struct stager *s = arg;

	s->rc = node_stage(s->node, &s->r, soon(), &s->err);
	return NULL;
}

void node_world_stage_many(struct node_world *w, const struct nvme_disk *d, size_t n, uint64_t size)
{
	struct stager s[NVME_WORLD_DISKS] = { 0 };

	ck_assert_uint_le(n, ARRAY_LEN(s));
	for (size_t i = 0; i < n; i++) {
		if (i)
			d = nvme_world_add(&w->nvme, 1, "", size);
		s[i].node = &w->node;
		snprintf(s[i].id, sizeof(s[i].id), "pvc-%zu", i);
		snprintf(s[i].path, sizeof(s[i].path), "%s/%zu", w->staging, i);
		s[i].r = stage_request(w, d, "ext4", MODE_SINGLE_NODE_WRITER);
		s[i].r.volume_id = s[i].id;
		s[i].r.staging_path = s[i].path;
	}
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&s[i].thread, NULL, stage_one, &s[i]), 0);
	for (size_t i = 0; i < n; i++) {
		pthread_join(s[i].thread, NULL);
		ck_assert_msg(s[i].rc == 0, "%s", s[i].err.msg);
	}
}

size_t mounts_below(const char *path)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	size_t n = 0;

	if (mount_table_read("/proc", &t, &err))
		abort();
	for (size_t i = 0; i < t.n; i++)
		n += str_has_prefix(t.v[i].target, path);
	return n;
}

char *kubelet_tree(const struct node_world *w)
{
	struct str out = STR_INIT(65536);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	strs_add(&argv, "sh");
	strs_add(&argv, "-c");
	strs_addf(&argv, "cd %s && find kubelet -xdev -printf '%%y %%p\\n' | sort", w->nvme.root);
	if (spawn_run(&argv, soon(), &out, &err))
		abort();
	return str_take(&out);
}
