/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage that finds the volume staged: the same call again is OK, one with other mount flags is
 * ALREADY_EXISTS. On real filesystems, because the kernel's format of a flag decides.
 */
#include "test/lib/suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/target/guard.h"
#include "node/work/disk_record.h"
#include "node/disk/staged_disk.h"
#include "test/lib/fs_state.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;
static struct nvme_disk *disk;

static const struct {
	const char *fs_type, *flags;
	bool tells; /* mounts with and without the flag can be distinguished */
} rows[] = {
	{ "ext4", "nosuid", true },
	{ "ext4", "nodev", true },
	{ "ext4", "noexec", true },
	{ "ext4", "noatime", true },
	{ "ext4", "nodiratime", true },
	{ "ext4", "relatime", false },
	{ "ext4", "strictatime", true },
	{ "ext4", "nosymfollow", true },
	{ "ext4", "noatime,nodiratime,nosuid", true },
	{ "ext4", "defaults", false },
	{ "ext4", "nosuid,defaults", true },
	{ "ext4", "nodev,noexec,defaults", true },
	{ "ext4", "sync", true },
	{ "ext4", "sync,defaults", true },
	{ "ext4", "dirsync", true },
	{ "ext4", "lazytime", true },
	{ "ext4", "async,atime,dev,diratime,exec,suid,rw", false },
	{ "ext4", "discard", true },
	{ "ext4", "nodiscard", false },
	{ "ext4", "nodelalloc", true },
	{ "ext4", "delalloc", false },
	{ "ext4", "nobarrier", true },
	{ "ext4", "barrier=0", true },
	{ "ext4", "barrier=1", false },
	{ "ext4", "barrier", false },
	{ "ext4", "noauto_da_alloc", true },
	{ "ext4", "auto_da_alloc", false },
	{ "ext4", "minixdf", true },
	{ "ext4", "bsddf", false },
	{ "ext4", "grpid", true },
	{ "ext4", "bsdgroups", true },
	{ "ext4", "nogrpid", false },
	{ "ext4", "nombcache", true },
	{ "ext4", "commit=30", true },
	{ "ext4", "commit=5", false },
	{ "ext4", "commit=0", false },
	{ "ext4", "data=journal,nodelalloc", true },
	{ "ext4", "data=ordered", false },
	{ "ext4", "data=writeback", true },
	{ "ext4", "inode_readahead_blks=64", true },
	{ "ext4", "max_batch_time=20000", true },
	{ "ext4", "min_batch_time=100", true },
	{ "ext4", "max_dir_size_kb=1024", true },
	{ "ext4", "errors=continue", false },
	{ "ext4", "errors=remount-ro", false },
	{ "ext4", "acl", false },
	{ "ext4", "user_xattr", false },
	{ "ext4", "journal_checksum", false },
	{ "ext4", "journal_async_commit", false },
	{ "ext4", "block_validity", false },
	{ "ext4", "noblock_validity", false },
	{ "ext4", "dioread_lock", false },
	{ "ext4", "dioread_nolock", false },
	{ "ext4", "data_err=abort", false },
	{ "ext4", "init_itable=20", false },
	{ "ext4", "noinit_itable", false },
	{ "ext4", "i_version", false },
	{ "ext4", "nouid32", false },
	{ "ext4", "stripe=64", false },
	{ "ext4", "resuid=7,resgid=8", false },
	{ "ext4", "debug", false },
	{ "ext4", "quota", false },
	{ "ext4", "usrquota,grpquota", false },
	{ "ext4", "ro", true },
	{ "ext4", "ro,noload", true },
	{ "ext4", "data=journal", true },
	{ "ext3", "nodelalloc", false },
	{ "ext3", "delalloc", false },
	{ "ext3", "commit=30", true },
	{ "ext3", "discard", true },
	{ "ext3", "data=journal", true },
	{ "xfs", "noatime", true },
	{ "xfs", "sync", true },
	{ "xfs", "lazytime", true },
	{ "xfs", "discard", false },
	{ "xfs", "nodiscard", false },
	{ "xfs", "grpid", true },
	{ "xfs", "inode32", true },
	{ "xfs", "inode64", false },
	{ "xfs", "wsync", false },
	{ "xfs", "largeio", true },
	{ "xfs", "filestreams", true },
	{ "xfs", "swalloc", true },
	{ "xfs", "noalign", true },
	{ "xfs", "allocsize=1m", true },
	{ "xfs", "logbufs=4", false },
	{ "xfs", "logbsize=256k", false },
	{ "xfs", "nouuid", false },
	{ "xfs", "usrquota", false },
	{ "xfs", "quota,gquota,pquota", false },
	{ "xfs", "uqnoenforce", false },
	{ "xfs", "noquota", false },
	{ "xfs", "attr2", false },
	{ "xfs", "ikeep", false },
	{ "xfs", "ro,norecovery", true },
	{ "btrfs", "noatime", true },
	{ "btrfs", "nodatacow", false },
	{ "btrfs", "nodatasum", false },
	{ "btrfs", "datacow", false },
	{ "btrfs", "autodefrag", true },
	{ "btrfs", "noacl", true },
	{ "btrfs", "flushoncommit", true },
	{ "btrfs", "notreelog", true },
	{ "btrfs", "nobarrier", true },
	{ "btrfs", "skip_balance", true },
	{ "btrfs", "degraded", true },
	{ "btrfs", "user_subvol_rm_allowed", true },
	{ "btrfs", "enospc_debug", true },
	{ "btrfs", "commit=60", true },
	{ "btrfs", "metadata_ratio=4", true },
	{ "btrfs", "compress", false },
	{ "btrfs", "compress=zstd:3", false },
	{ "btrfs", "compress-force=lzo", false },
	{ "btrfs", "ssd", false },
	{ "btrfs", "nossd", false },
	{ "btrfs", "ssd_spread", false },
	{ "btrfs", "discard", false },
	{ "btrfs", "discard=async", false },
	{ "btrfs", "discard=sync", false },
	{ "btrfs", "nodiscard", false },
	{ "btrfs", "space_cache=v2", false },
	{ "btrfs", "max_inline=1024", false },
	{ "btrfs", "thread_pool=4", false },
	{ "btrfs", "subvolid=5", false },
	{ "btrfs", "ro,rescue=nologreplay", true },
};

static int stage(const char *fs_type, const char *flags, enum access_mode mode, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, mode);

	r.cap.mount_flags = &flags;
	r.cap.n_mount_flags = flags ? 1 : 0;
	return node_stage(&w.node, &r, soon(), err);
}

static void unstage(const char *what)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s: %s",
	              what, err.msg);
}

static void stage_ok(const char *fs_type, const char *flags, enum access_mode mode)
{
	struct err err = ERR_INIT;

	ck_assert_msg(stage(fs_type, flags, mode, &err) == 0, "%s %s: %s", fs_type, flags, err.msg);
}

static void stage_differs(const char *fs_type, const char *flags, enum access_mode mode)
{
	struct err err = ERR_INIT;

	ck_assert_msg(stage(fs_type, flags, mode, &err) == -1, "%s, now with %s: the same", fs_type,
	              flags);
	ck_assert_msg(err.code == ERR_EXISTS, "%s %s: %s", fs_type, flags, err.msg);
}

static void check_row(size_t i)
{
	const char *type = rows[i].fs_type, *flags = rows[i].flags;
	const enum access_mode mode = MODE_SINGLE_NODE_WRITER;
	struct err err = ERR_INIT;

	if (stage(type, flags, mode, &err)) { /* this kernel does not have the flag */
		ck_assert_msg(err.sys == EINVAL || err.code == ERR_INVALID, "%s %s: %s", type,
		              flags, err.msg);
		return;
	}
	stage_ok(type, flags, mode);
	if (rows[i].tells)
		stage_differs(type, NULL, mode);
	unstage(flags);
	stage_ok(type, NULL, mode);
	stage_ok(type, NULL, mode);
	if (rows[i].tells)
		stage_differs(type, flags, mode);
	unstage(flags);
}

static const char *const types[] = { "ext4", "ext3", "xfs", "btrfs" };

START_TEST(the_same_flags_are_the_same_and_others_are_not)
{
	const char *type = types[_i];

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok(type, NULL, MODE_SINGLE_NODE_WRITER);
	unstage(type);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].fs_type, type))
			check_row(i);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_reader_stages_again_what_another_driver_has_replayed)
{
	const char *type = types[_i];

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok(type, NULL, MODE_SINGLE_NODE_WRITER);
	unstage(type);
	stage_ok(type, NULL, MODE_MULTI_NODE_READER_ONLY);
	stage_ok(type, NULL, MODE_MULTI_NODE_READER_ONLY);
	stage_differs(type, "noexec", MODE_MULTI_NODE_READER_ONLY);
	unstage(type);
	/* Mounted manually, without the flags that this driver adds. */
	run_tool("mount -t %s -o ro %s %s", type, disk->node, w.staging);
	stage_ok(type, NULL, MODE_MULTI_NODE_READER_ONLY);
	unstage(type);
	node_world_clear(&w);
}
END_TEST

/* The kernel shows only flags that differ from the superblock, so nothing can be compared. */
START_TEST(flags_in_the_superblock_are_no_difference)
{
	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok("ext4", NULL, MODE_SINGLE_NODE_WRITER);
	unstage("ext4");
	run_tool("tune2fs -o discard,nobarrier %s", disk->loop);
	stage_ok("ext4", "discard", MODE_SINGLE_NODE_WRITER);
	stage_ok("ext4", "discard", MODE_SINGLE_NODE_WRITER);
	stage_ok("ext4", NULL, MODE_SINGLE_NODE_WRITER);
	stage_differs("ext4", "noexec", MODE_SINGLE_NODE_WRITER);
	unstage("ext4");
	node_world_clear(&w);
}
END_TEST

/*
 * Whichever file cannot be opened, the volume stays staged; a final code would make kubelet forget
 * that.
 */
START_TEST(without_descriptors_a_staged_volume_is_asked_for_again)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct strs flags AUTO(strs_clear) = STRS_INIT;
	struct stage_request r;
	struct device dev;
	struct rlimit was;
	struct err err = ERR_INIT;
	int next, rc = -1;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	stage_ok("ext4", NULL, MODE_SINGLE_NODE_WRITER);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	next = dup(0);
	close(next);
	for (int more = 0; more < 8; more++) {
		const struct staged_want want = {
			.node = &w.node, .r = &r, .dev = &dev, .mounts = &t, .flags = &flags
		};
		struct rlimit few = { (rlim_t)(next + more), was.rlim_max };

		err_clear(&err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = staged_disk_check(&want, &err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
		ck_assert_msg(rc == 0 || (rc == -1 && err.code == ERR_UNAVAILABLE),
		              "%d descriptors left: %d %s: %s", more, rc, err_code_name(err.code),
		              err.msg);
		ck_assert_msg(more || rc == -1, "staged without a look");
	}
	ck_assert_msg(rc == 0, "%s", err.msg);
	unstage("ext4");
	node_world_clear(&w);
}
END_TEST

static const struct {
	const char *fs_type;
	enum fs_state state;
} stopped_rows[] = {
	{ "ext4", FS_STATE_ERROR },
	{ "ext4", FS_STATE_SHUT_DOWN },
	{ "xfs", FS_STATE_SHUT_DOWN },
	{ "ext4", FS_STATE_TURNED_READ_ONLY },
	{ "btrfs", FS_STATE_TURNED_READ_ONLY },
};

static int mount_id(void)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *m;

	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	m = mount_at(&t, w.staging);
	return m ? m->id : -1;
}

START_TEST(a_filesystem_that_has_stopped_is_mounted_again_unless_it_is_used_elsewhere)
{
	const char *type = stopped_rows[_i].fs_type;
	struct publish_request p;
	struct err err = ERR_INIT;
	struct device dev;
	dev_t fs;
	int id;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok(type, NULL, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, type, MODE_SINGLE_NODE_WRITER);
	node_world_publish(&w, &p);
	fs_state_set(stopped_rows[_i].state, type, disk->loop, w.staging);
	id = mount_id();
	ck_assert_int_eq(stage(type, NULL, MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, w.target) &&
	                      strstr(err.msg, "its filesystem shut down ("),
	              "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_int_eq(mount_id(), id);
	err_clear(&err);
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	stage_ok(type, NULL, MODE_SINGLE_NODE_WRITER);
	run_tool("touch %s/f", w.staging);
	ck_assert_int_eq(disk_record_read(&w.node, VOLUME_ID, DISK_RECORD_UNSTAGE, &dev, &fs, &err),
	                 DISK_RECORD_ABSENT);
	id = mount_id();
	stage_ok(type, NULL, MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(mount_id(), id);
	unstage(type);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_that_is_frozen_is_not_staged_before_it_is_thawed)
{
	static const char *const frozen[] = { "ext4", "xfs", "btrfs" };
	struct err err = ERR_INIT;
	int id;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok(frozen[_i], NULL, MODE_SINGLE_NODE_WRITER);
	fs_state_set(FS_STATE_FROZEN, frozen[_i], disk->loop, w.staging);
	w.node.o.tuning.guard_ms = 1000;
	id = mount_id();
	ck_assert_int_eq(stage(frozen[_i], NULL, MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "frozen"), "%s: %s",
	              err_code_name(err.code), err.msg);
	ck_assert_int_eq(mount_id(), id);
	fs_state_thaw(w.staging, w.node.guard, disk->devno);
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	stage_ok(frozen[_i], NULL, MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(mount_id(), id);
	unstage(frozen[_i]);
	node_world_clear(&w);
}
END_TEST

/* As after a manual unmount: the superblock still exists, and mount(2) returns the same one. */
START_TEST(a_freeze_that_has_outlived_the_last_mount_ends_with_the_next_stage)
{
	static const char *const frozen[] = { "ext4", "xfs", "btrfs" };

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	stage_ok(frozen[_i], NULL, MODE_SINGLE_NODE_WRITER);
	fs_state_set(FS_STATE_FROZEN, frozen[_i], disk->loop, w.staging);
	run_tool("umount %s", w.staging);
	stage_ok(frozen[_i], NULL, MODE_SINGLE_NODE_WRITER);
	run_tool("touch %s/f", w.staging);
	unstage(frozen[_i]);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("staged", 120,
              LOOP(a_filesystem_that_has_stopped_is_mounted_again_unless_it_is_used_elsewhere,
                   ARRAY_LEN(stopped_rows)),
              LOOP(a_filesystem_that_is_frozen_is_not_staged_before_it_is_thawed, 3),
              LOOP(a_freeze_that_has_outlived_the_last_mount_ends_with_the_next_stage, 3),
              LOOP(the_same_flags_are_the_same_and_others_are_not, ARRAY_LEN(types)),
              LOOP(a_reader_stages_again_what_another_driver_has_replayed, ARRAY_LEN(types)),
              flags_in_the_superblock_are_no_difference,
              without_descriptors_a_staged_volume_is_asked_for_again);
