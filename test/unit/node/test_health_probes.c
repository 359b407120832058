/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Healthy volumes of each kind, probed as kubelet 1.37 does while they are written: no probe may
 * report a fault. kubelet writes each fault into the pod's status.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/sanitizer.h"
#include "node/health.h"
#include "test/lib/share_world.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

#define PROBES (SANITIZE_THREAD ? 1000 : 10000)

static struct share_world w;

static const struct {
	const char *fs_type; /* NULL: raw block */
	bool share;
	uint64_t mib;
} kinds[] = {
	{ "ext4", false, 64 }, { "xfs", false, 320 }, { "btrfs", false, 256 },
	{ NULL, false, 64 },   { NULL, true, 0 },
};

static void stage_kind(size_t i)
{
	enum access_mode mode =
		kinds[i].share ? MODE_MULTI_NODE_MULTI_WRITER : MODE_SINGLE_NODE_WRITER;
	struct node_world *n = &w.node;
	struct publish_request p;
	struct stage_request r;

	share_world_init(&w);
	if (kinds[i].share) {
		r = share_stage_request(&w, share_world_add(&w, "tag-a"), mode);
		p = share_publish_request(&w, n->target, mode);
	} else {
		r = stage_request(n,
		                  nvme_world_add(&n->nvme, 1,
		                                 "11111111-aaaa-4bbb-8ccc-000000000001",
		                                 kinds[i].mib * MIB),
		                  kinds[i].fs_type, mode);
		p = publish_request(n, n->target, kinds[i].fs_type, mode);
	}
	node_world_stage(n, &r);
	node_world_publish(n, &p);
}

/* The pod: writes and flushes at the target until it has to stop. */
static _Atomic bool stop_writing;
static void *write_volume(void *arg)
{
	static const char text[4096] = "text";
	const char *path = arg;

	while (!stop_writing) {
		int fd AUTO(fd) = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
		ck_assert_int_eq(fdatasync(fd), 0);
		usleep(1000);
	}
	return NULL;
}

START_TEST(healthy_volumes_have_no_fault)
{
	bool block = !kinds[_i].fs_type && !kinds[_i].share;
	char *mapping AUTO(free) = NULL, *file AUTO(free) = NULL;
	pthread_t pod;

	SKIP_UNLESS_LOOP();
	SKIP_UNLESS_FUSE();
	stage_kind((size_t)_i);
	mapping = xasprintf("%s/volumeDevices/pv-1/dev", w.node.kubelet_dir);
	file = xasprintf("%s%s", w.node.target, block ? "" : "/file");
	stop_writing = false;
	ck_assert_int_eq(pthread_create(&pod, NULL, write_volume, file), 0);
	for (int i = 0; i < PROBES; i++) {
		/* Published, only staged, and after kubelet's restart. */
		const char *const paths[][2] = {
			{ block ? "" : w.node.target, block ? mapping : w.node.staging },
			{ "", w.node.staging },
			{ "", block ? "" : w.node.staging },
		};
		const char *const *p = paths[i % ARRAY_LEN(paths)];
		struct err err = ERR_INIT;
		struct health h;

		ck_assert_msg(node_volume_health(&w.node.node, VOLUME_ID, p[0], p[1], &h, &err) ==
		                      0,
		              "probe %d: %s", i, err.msg);
		ck_assert_msg(h.n == 0, "probe %d: %s: %s", i, h.v[0].reason, h.v[0].message);
	}
	stop_writing = true;
	pthread_join(pod, NULL);
	share_world_clear(&w);
}
END_TEST

SUITE_AROUND("health_probes", 240, mount_helper_install, mount_helper_remove,
             LOOP(healthy_volumes_have_no_fault, ARRAY_LEN(kinds)));
