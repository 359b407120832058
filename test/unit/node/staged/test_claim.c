/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk belongs to one volume on a node, at one staging path: which paths count as another
 * mountpoint, and which do not. The refusals of a stage: test_stage_errors.c; of shares:
 * test_share_errors.c.
 */
#include "node/staged/claim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define CSI "plugins/kubernetes.io/csi"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(uint64_t size)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, size);
}

/* `volume` at <kubelet>/<volume>. */
static struct stage_request request(const char *volume, const char *fs_type)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	static char paths[4][300];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", w.kubelet_dir, volume);
	r.volume_id = volume;
	r.staging_path = path;
	return r;
}

static void stage_ok(const char *volume, const char *fs_type)
{
	struct stage_request r = request(volume, fs_type);

	node_world_stage(&w, &r);
}

static void check_refused(const struct err *err, int rc, const char *text)
{
	ck_assert_msg(rc == -1 && err->code == ERR_PRECONDITION && strstr(err->msg, text),
	              "not \"%s\": %d, %s: %s", text, rc, err_code_name(err->code), err->msg);
}

static void refused(const char *volume, const char *fs_type, const char *text)
{
	struct stage_request r = request(volume, fs_type);
	size_t mounts = mounts_below(w.nvme.root);
	struct err err = ERR_INIT;

	check_refused(&err, node_stage(&w.node, &r, soon(), &err), text);
	ck_assert_uint_eq(mounts_below(w.nvme.root), mounts);
}

/* ---- two volumes ---- */

START_TEST(a_second_volume_does_not_get_the_disk)
{
	static const char *const types[] = { "ext4", "btrfs", NULL };
	const char *first = types[_i % 3], *second = types[_i / 3];

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	stage_ok("pvc-a", first);
	refused("pvc-b", second, "/kubelet/pvc-a");
	stage_ok("pvc-a", first);
	node_world_clear(&w);
}
END_TEST

/* As left by an earlier version of the driver, or manually by a user. */
START_TEST(two_volumes_that_have_one_disk_are_neither_staged_again_nor_published)
{
	static const char *const types[] = { "ext4", "btrfs", NULL };
	const char *type = types[_i];
	struct publish_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	stage_ok("pvc-a", type);
	if (type)
		run_tool("mkdir %s/pvc-b && mount %s %s/pvc-b", w.kubelet_dir, disk->node,
		         w.kubelet_dir);
	else
		run_tool("cd %s && mkdir pvc-b && touch pvc-b/pvc-b && mount --bind %s pvc-b/pvc-b",
		         w.kubelet_dir, disk->node);
	refused("pvc-b", type, "/kubelet/pvc-a");
	refused("pvc-a", type, "/kubelet/pvc-b");
	r = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	r.volume_id = "pvc-b";
	r.staging_path = request("pvc-b", type).staging_path;
	check_refused(&err, node_publish(&w.node, &r, soon(), &err), "/kubelet/pvc-a");
	node_world_clear(&w);
}
END_TEST

struct stager {
	pthread_t thread;
	struct stage_request r;
	struct err err;
	int rc;
};

static void *stage_one(void *arg)
{
	struct stager *s = arg;

	s->rc = node_stage(&w.node, &s->r, soon(), &s->err);
	return NULL;
}

START_TEST(of_two_volumes_that_are_staged_at_the_same_time_one_gets_the_disk)
{
	static const char *const types[][2] = { { "ext4", "ext4" },
		                                { NULL, NULL },
		                                { "ext4", NULL } };
	struct stager s[2];

	SKIP_UNLESS_LOOP();
	begin(32 * MIB);
	run_tool("mkfs.ext4 -q %s", disk->loop);
	for (unsigned round = 0; round < 20; round++) {
		unsigned staged = 0;

		for (size_t i = 0; i < 2; i++) {
			s[i] = (struct stager) { .r = request(i ? "pvc-b" : "pvc-a",
				                              types[_i][i]) };
			ck_assert_int_eq(pthread_create(&s[i].thread, NULL, stage_one, &s[i]), 0);
		}
		for (size_t i = 0; i < 2; i++) {
			pthread_join(s[i].thread, NULL);
			staged += s[i].rc == 0;
			ck_assert_msg(s[i].rc == 0 || s[i].err.code == ERR_PRECONDITION ||
			                      s[i].err.code == ERR_ABORTED,
			              "%s", s[i].err.msg);
		}
		ck_assert_msg(staged == 1, "round %u: %u", round, staged);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
		for (size_t i = 0; i < 2; i++) {
			struct err err = ERR_INIT;

			ck_assert_msg(node_unstage(&w.node, s[i].r.volume_id, s[i].r.staging_path,
			                           soon(), &err) == 0,
			              "%s", err.msg);
		}
	}
	node_world_clear(&w);
}
END_TEST

/* ---- other mountpoints ---- */

/* Binds the staged volume pvc-a to a path below kubelet's folder, with kubelet's file beside it. */
static void show(const char *dir, const char *name, const char *volume)
{
	char *path AUTO(free) = xasprintf("%s/%s", w.kubelet_dir, dir);

	run_tool("mkdir -p %s/%s && mount --bind %s/pvc-a %s/%s", path, name, w.kubelet_dir, path,
	         name);
	if (volume)
		run_tool("echo '{\"volumeHandle\":\"%s\"}' > %s/vol_data.json", volume, path);
}

START_TEST(targets_of_the_volume_are_no_other_mountpoint)
{
	static const struct {
		const char *what, *dir, *name, *volume;
		const char *refused; /* after the staging path is unmounted; NULL: staged again */
		bool staged;         /* also refused while it is staged */
	} rows[] = {
		{ "its target", "pods/u/volumes/kubernetes.io~csi/pv", "mount", "pvc-a", NULL,
		  false },
		{ "a target of nobody knows whom", "pods/u/volumes/kubernetes.io~csi/pv", "mount",
		  NULL, NULL, false },
		{ "a target of Nomad", "per-alloc/a1/data", "rw-file-system-single-node-writer",
		  NULL, NULL, false },
		{ "a target of another volume", "pods/u/volumes/kubernetes.io~csi/pv", "mount",
		  "pvc-b", "published for volume pvc-b at ", true },
		{ "another staging path of it", CSI "/csi.snap.nvidia.com/other", "globalmount",
		  "pvc-a", "staged for this volume at ", true },
		{ "a staging path of another volume", CSI "/csi.snap.nvidia.com/other",
		  "globalmount", "pvc-b", "staged for volume pvc-b at ", true },
		{ "a place below kubelet's folder", "elsewhere", "here", NULL,
		  "staged for another volume at ", true },
		{ "a mount of an administrator", "../look", "here", NULL, "mounted at ", false },
	};

	SKIP_UNLESS_LOOP();
	begin(32 * MIB);
	stage_ok("pvc-a", "ext4");
	show(rows[_i].dir, rows[_i].name, rows[_i].volume);
	if (rows[_i].staged)
		refused("pvc-a", "ext4", rows[_i].refused);
	else
		stage_ok("pvc-a", "ext4");
	run_tool("umount %s/pvc-a", w.kubelet_dir);
	if (rows[_i].refused)
		refused("pvc-a", "ext4", rows[_i].refused);
	else
		stage_ok("pvc-a", "ext4");
	node_world_clear(&w);
}
END_TEST

START_TEST(a_mounted_partition_is_a_mountpoint_of_its_disk)
{
	struct nvme_part part;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	stage_ok("pvc-a", NULL);
	run_tool("umount %s/pvc-a/pvc-a", w.kubelet_dir);
	nvme_part_add(&w.nvme, disk, &part);
	run_tool("mkfs.ext4 -q %s && mkdir %s/theirs && mount %s %s/theirs", part.node, w.nvme.root,
	         part.node, w.nvme.root);
	refused("pvc-a", NULL, "/theirs");
	run_tool("umount %s/theirs", w.nvme.root);
	nvme_part_remove(disk, &part);
	stage_ok("pvc-a", NULL);
	node_world_clear(&w);
}
END_TEST

/* mountinfo has the path of a btrfs's disk, which may have been reused for another disk. */
START_TEST(a_btrfs_whose_name_was_given_away_is_no_mountpoint_of_the_new_disk)
{
	struct nvme_disk *gone;
	char *node AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	gone = disk;
	node = xstrdup(gone->node);
	stage_ok("pvc-a", "btrfs");
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	/* The node of the first disk leads to the second one. */
	nvme_world_hide(&w.nvme, gone);
	run_tool("cp -a %s %s", disk->node, node);
	stage_ok("pvc-b", "ext4");
	node_world_clear(&w);
}
END_TEST

START_TEST(a_disk_that_is_held_after_its_unmount_belongs_to_its_volume_yet)
{
	struct stage_request a;
	struct err err = ERR_INIT;
	char path[400];
	int fd;

	SKIP_UNLESS_LOOP();
	begin(32 * MIB);
	stage_ok("pvc-a", "ext4");
	a = request("pvc-a", "ext4");
	snprintf(path, sizeof(path), "%s/bound", w.nvme.root);
	run_tool("mkdir %s && mount --bind %s %s", path, a.staging_path, path);
	snprintf(path, sizeof(path), "%s/bound/file", w.nvme.root);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	run_tool("umount -l %s/bound", w.nvme.root);
	node_world_impatient(&w);
	ck_assert_int_eq(node_unstage(&w.node, "pvc-a", a.staging_path, soon(), &err), -1);
	node_world_patient(&w);
	ck_assert_msg(err.code == ERR_UNAVAILABLE, "%s", err.msg);
	refused("pvc-b", "ext4", "a process still holds it for volume pvc-a");
	stage_ok("pvc-a", "ext4"); /* its own */
	close(fd);
	err_clear(&err);
	ck_assert_msg(node_unstage(&w.node, "pvc-a", a.staging_path, soon(), &err) == 0, "%s",
	              err.msg);
	stage_ok("pvc-b", "ext4");
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("claim", 60, LOOP(a_second_volume_does_not_get_the_disk, 9),
              LOOP(two_volumes_that_have_one_disk_are_neither_staged_again_nor_published, 3),
              LOOP(of_two_volumes_that_are_staged_at_the_same_time_one_gets_the_disk, 3),
              LOOP(targets_of_the_volume_are_no_other_mountpoint, 8),
              a_mounted_partition_is_a_mountpoint_of_its_disk,
              a_btrfs_whose_name_was_given_away_is_no_mountpoint_of_the_new_disk,
              a_disk_that_is_held_after_its_unmount_belongs_to_its_volume_yet);
