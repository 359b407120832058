/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known problems of other drivers, as stories of several calls: the rows of the table in
 * test/README.md that no test of a single file shows.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/mount/mount.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define OTHER_UUID "11111111-aaaa-4bbb-8ccc-000000000002"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
}

static void stage_ok(const struct stage_request *r)
{
	node_world_stage(&w, r);
}

static void unstage_ok(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
}

static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };
#define N_FILESYSTEMS (ARRAY_LEN(types) - 1)

/*
 * A node is cut off, its volume is used on another node and returns. The old mount must not be
 * treated as the volume's, or its old pages would be written over newer data. (The node uses no
 * API: only the disk identifies itself.) Raw block has no pages of its own.
 */
START_TEST(a_volume_that_was_away_is_only_used_through_its_new_disk)
{
	const char *type = types[_i];
	struct err err = ERR_INIT;
	struct stage_request s;
	struct publish_request p;
	dev_t before;
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	s = stage_request(&w, disk, type, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	stage_ok(&s);
	before = disk->devno;
	nvme_world_reattach(&w.nvme, disk);
	ck_assert_uint_ne(disk->devno, before);

	ck_assert_int_eq(node_publish(&w.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "no longer exists") != NULL,
	              "%s", err.msg);
	err_clear(&err);
	stage_ok(&s);
	node_world_publish(&w, &p);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 2);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_ptr_null(mount_of(&t, before, NULL, NULL));
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/* xfs refuses a second filesystem with the same UUID on one host. */
START_TEST(an_xfs_and_its_copy_are_mounted_side_by_side)
{
	struct err err = ERR_INIT;
	struct stage_request one;
	struct nvme_disk *copy;
	char *staging AUTO(free) = NULL;
	struct stage_request two;

	SKIP_UNLESS_LOOP();
	begin();
	one = stage_request(&w, disk, "xfs", MODE_SINGLE_NODE_WRITER);
	stage_ok(&one);
	run_tool("echo rows > %s/table", w.staging);
	unstage_ok();
	copy = nvme_world_add(&w.nvme, 1, OTHER_UUID, 320 * MIB);
	run_tool("dd if=%s of=%s bs=1M conv=sparse,fsync status=none", disk->loop, copy->loop);
	staging = xasprintf("%s/kubelet/copy", w.nvme.root);
	two = stage_request(&w, copy, "xfs", MODE_SINGLE_NODE_WRITER);
	two.volume_id = "pvc-copy";
	two.staging_path = staging;
	stage_ok(&one);
	stage_ok(&two);
	run_tool("grep -q rows %s/table && grep -q rows %s/table", w.staging, staging);
	ck_assert_msg(node_unstage(&w.node, "pvc-copy", staging, soon(), &err) == 0, "%s", err.msg);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * The kernel gives the number of a removed disk to the next one, and a device node that is still
 * bound then leads to that one. Here the next disk is another volume's, and is only read: no call
 * for the first volume may touch it or fail because of it.
 */
START_TEST(a_bound_node_of_before_does_not_stand_for_the_disk_with_its_number_now)
{
	struct err err = ERR_INIT;
	struct volume_stats stats;
	int on = 1, ro = 0;
	struct stage_request s;
	struct publish_request p;
	int user;
	char *number AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	s = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	stage_ok(&s);
	node_world_publish(&w, &p);
	run_tool("rm %s && mknod %s b %u %u", disk->node, disk->node, major(disk->devno),
	         minor(disk->devno));
	user = open(disk->node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(user, 0);
	ck_assert_int_eq(ioctl(user, BLKROSET, &on), 0);

	/* The same without a publish context that identifies the disk. */
	p.want = NULL;
	ck_assert_int_eq(node_publish(&w.node, &p, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "no longer exists") != NULL,
	              "%s", err.msg);
	number = xasprintf("device %u:%u", major(disk->devno), minor(disk->devno));
	ck_assert_msg(strstr(err.msg, number) != NULL, "%s", err.msg);
	err_clear(&err);
	ck_assert_int_eq(node_stats(&w.node, VOLUME_ID, w.target, &stats, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE, "%s", err.msg);
	err_clear(&err);

	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_ok();
	ck_assert_int_eq(ioctl(user, BLKROGET, &ro), 0);
	ck_assert_int_eq(ro, 1);
	close(user);
	node_world_clear(&w);
}
END_TEST

/*
 * The kernel also reuses names of removed disks, so two removed nodes with one name may be bound.
 * Neither volume may wait for the unstage of the other.
 */
START_TEST(removed_nodes_of_one_name_are_not_one_disk)
{
	struct err err = ERR_INIT;
	struct stage_request first, second;
	struct publish_request p;
	char *staging AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	staging = xasprintf("%s/kubelet/second", w.nvme.root);
	first = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	second = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	second.volume_id = "pvc-2";
	second.staging_path = staging;
	p = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);
	stage_ok(&first);
	node_world_publish(&w, &p);
	for (int i = 0; i < 2; i++) {
		run_tool("rm %s && mknod %s b %u %u", disk->node, disk->node, major(disk->devno),
		         minor(disk->devno));
		if (i == 0)
			stage_ok(&second);
	}

	/* A pod has the first volume's node. */
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, w.target) &&
	                      strstr(err.msg, ": end the pod that uses it, or"),
	              "%s", err.msg);
	err_clear(&err);
	ck_assert_msg(node_unstage(&w.node, "pvc-2", staging, soon(), &err) == 0, "%s", err.msg);
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * For a btrfs, mountinfo has only the name of its disk's node. When the disk is removed, the next
 * one gets that name. The unstage of the first volume must neither touch the other's disk nor wait
 * for its users.
 */
static const char *const next_types[] = { "ext4", "btrfs", NULL };
START_TEST(a_btrfs_whose_name_another_disk_has_now_is_only_unmounted)
{
	struct err err = ERR_INIT;
	struct stage_request first, second;
	const struct nvme_disk *other;
	char *staging AUTO(free) = NULL, *override AUTO(free) = NULL, *text AUTO(free) = NULL;
	int ro = 0;

	SKIP_UNLESS_LOOP();
	begin();
	first = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	stage_ok(&first);
	nvme_world_hide(&w.nvme, disk);
	other = nvme_world_add(&w.nvme, 1, OTHER_UUID, 320 * MIB);
	override = xasprintf("%s/bus/pci/devices/%s/driver_override", w.nvme.sysfs, other->pci);
	staging = xasprintf("%s/kubelet/second", w.nvme.root);
	second = stage_request(&w, other, next_types[_i],
	                       next_types[_i] ? MODE_SINGLE_NODE_WRITER
	                                      : MODE_MULTI_NODE_READER_ONLY);
	second.volume_id = "pvc-2";
	second.staging_path = staging;
	stage_ok(&second);
	run_tool("mknod %s b %u %u", disk->node, major(other->devno), minor(other->devno));
	run_tool("echo nvme > %s", override);

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	ck_assert_int_eq(ioctl(other->fd, BLKROGET, &ro), 0);
	ck_assert_int_eq(ro, !next_types[_i]);
	ck_assert_int_eq(file_read_line(override, 100, &text, &err), 0);
	ck_assert_str_eq(text, "nvme");
	ck_assert_msg(node_unstage(&w.node, "pvc-2", staging, soon(), &err) == 0, "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

/* Then the disk cannot be identified, and no data can be lost on it. */
START_TEST(a_btrfs_whose_disk_gives_read_errors_is_only_unmounted)
{
	struct err err = ERR_INIT;
	struct stage_request s;

	SKIP_UNLESS_LOOP();
	begin();
	s = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	stage_ok(&s);
	run_tool("sync -f %s && truncate -s 0 %s && blockdev --flushbufs %s", w.staging,
	         disk->image, disk->loop);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	node_world_clear(&w);
}
END_TEST

/* The same when the disk itself has returned: the old bind is unmounted. */
START_TEST(a_bound_node_of_before_makes_room)
{
	struct err err = ERR_INIT;
	struct stage_request s;
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	s = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	stage_ok(&s);
	run_tool("rm %s && mknod %s b %u %u", disk->node, disk->node, major(disk->devno),
	         minor(disk->devno));
	stage_ok(&s);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert(!str_has_suffix(mount_at(&t, w.block_file)->root, "//deleted"));
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * After a reboot all mounts are gone and devices have other numbers: any record from before would
 * be wrong.
 */
START_TEST(after_a_reboot_nothing_of_before_is_needed)
{
	const char *type = types[_i];
	struct str out AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;
	struct stage_request s;
	struct publish_request p;

	SKIP_UNLESS_LOOP();
	begin();
	s = stage_request(&w, disk, type, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	stage_ok(&s);
	node_world_publish(&w, &p);
	if (type)
		run_tool("echo rows > %s/table", w.target);
	run_tool("umount %s %s && test -z \"$(find %s -type f 2>/dev/null)\"", w.target,
	         type ? w.staging : w.block_file, w.plugin_dir);
	nvme_world_reattach(&w.nvme, disk);

	/* Kubelet unpublishes and unstages what it remembers, then starts again. */
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_ok();
	stage_ok(&s);
	node_world_publish(&w, &p);
	if (type)
		run_tool("grep -q rows %s/table", w.target);
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT(
	"pains", 60, LOOP(a_volume_that_was_away_is_only_used_through_its_new_disk, N_FILESYSTEMS),
	an_xfs_and_its_copy_are_mounted_side_by_side,
	a_bound_node_of_before_does_not_stand_for_the_disk_with_its_number_now,
	removed_nodes_of_one_name_are_not_one_disk,
	LOOP(a_btrfs_whose_name_another_disk_has_now_is_only_unmounted, ARRAY_LEN(next_types)),
	a_btrfs_whose_disk_gives_read_errors_is_only_unmounted, a_bound_node_of_before_makes_room,
	LOOP(after_a_reboot_nothing_of_before_is_needed, ARRAY_LEN(types)));
