/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Successful stages: each type of volume, repeated, after a leftover, and their duration. Failures:
 * test_stage_errors.c.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric_priv.h"
#include "common/spawn.h"
#include "node/gate/gatekeeper.h"
#include "node/work/job.h"
#include "node/mount/fsprobe.h"
#include "node/mount/mount.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

/* A node with one disk of this size. */
static void begin(uint64_t size)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, size);
}

static void stage_ok(const struct stage_request *r)
{
	node_world_stage(&w, r);
}

/*
 * The only mount below the world, which must be at this path (NULL: no mount); valid until the next
 * call.
 */
static const struct mount *only_mount(const char *path)
{
	static struct mount_table t = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	mount_table_clear(&t);
	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_uint_eq(mounts_below(w.nvme.root), path ? 1 : 0);
	return path ? mount_at(&t, path) : NULL;
}

START_TEST(a_blank_disk_becomes_the_filesystem_that_was_asked_for)
{
	static const struct {
		const char *asked, *made;
	} rows[] = {
		{ "", "ext4" },   { "ext4", "ext4" },   { "ext3", "ext3" },
		{ "xfs", "xfs" }, { "btrfs", "btrfs" },
	};
	const struct mount *m;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	r = stage_request(&w, disk, rows[_i].asked, MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	m = only_mount(w.staging);
	ck_assert_ptr_nonnull(m);
	ck_assert_str_eq(m->fs_type, rows[_i].made);
	ck_assert(!m->read_only);
	if (str_eq(rows[_i].made, "xfs"))
		ck_assert_ptr_nonnull(strstr(m->fs_options, "nouuid"));
	run_tool("echo data > %s/file", w.staging);

	/* Again: no second mount, no format, and the data still exist. */
	stage_ok(&r);
	ck_assert_ptr_nonnull(only_mount(w.staging));
	run_tool("grep -q data %s/file", w.staging);

	/* And after the pod has ended and started again. */
	run_tool("umount %s", w.staging);
	stage_ok(&r);
	run_tool("grep -q data %s/file", w.staging);
	node_world_clear(&w);
}
END_TEST

/* As created by a host with pages of 64 KiB. Kernels differ in which of them they mount. */
START_TEST(blocks_that_are_larger_than_pages_are_named_when_the_kernel_refuses_them)
{
	static const struct {
		const char *what, *mkfs;
	} rows[] = {
		{ "ext4", "mkfs.ext4 -q -F -b 65536" },
		{ "xfs", "mkfs.xfs -q -b size=65536 -l size=64m" },
		{ "btrfs", "mkfs.btrfs -q -s 65536 -n 65536" },
	};
	char *want AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	SKIP_IF(sysconf(_SC_PAGESIZE) >= 65536, "the pages of this kernel are as large");
	begin(512 * MIB);
	run_tool("%s %s 2> /dev/null", rows[_i].mkfs, disk->loop);
	r = stage_request(&w, disk, rows[_i].what, MODE_SINGLE_NODE_WRITER);
	if (node_stage(&w.node, &r, wait_limit(), &err) == 0) {
		printf("SKIP: %s: this kernel mounts %s with blocks of 64 KiB\n", __func__,
		       rows[_i].what);
		ck_assert_ptr_nonnull(only_mount(w.staging));
	} else {
		want = xasprintf("the %s on %s has blocks of 65536 bytes, which are larger than "
		                 "the pages of this host's kernel (%ld bytes)",
		                 rows[_i].what, disk->node, sysconf(_SC_PAGESIZE));
		ck_assert_int_eq(err.code, ERR_PRECONDITION);
		ck_assert_msg(strstr(err.msg, want) != NULL, "%s", err.msg);
		ck_assert_ptr_nonnull(strstr(err.msg, "mount "));
		ck_assert_ptr_null(only_mount(NULL));
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(without_a_wish_the_filesystem_that_is_there_is_taken)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkfs.xfs -q %s", disk->loop);
	r = stage_request(&w, disk, "", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	ck_assert_str_eq(only_mount(w.staging)->fs_type, "xfs");
	node_world_clear(&w);
}
END_TEST

START_TEST(mount_flags_reach_the_mount)
{
	static const char *const flags[] = { "noatime", "nosuid,nodev" };
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r.cap.mount_flags = flags;
	r.cap.n_mount_flags = ARRAY_LEN(flags);
	stage_ok(&r);
	ck_assert_str_eq(only_mount(w.staging)->options, "rw,nosuid,nodev,noatime");
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_that_asks_for_a_panic_does_not_get_it)
{
	static const char *const tunes[] = { "-e panic", "-E mount_opts=errors=panic" };
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	run_tool("mkfs.ext4 -q %s && tune2fs %s %s >/dev/null", disk->loop, tunes[_i], disk->loop);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	ck_assert_msg(strstr(only_mount(w.staging)->fs_options, "errors=remount-ro") != NULL,
	              "%s: %s", tunes[_i], only_mount(w.staging)->fs_options);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_btrfs_with_another_default_subvolume_is_staged_whole)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkfs.btrfs -q %s && mount -t btrfs %s %s && btrfs -q subvolume create %s/sub && "
	         "btrfs -q subvolume set-default %s/sub && umount %s",
	         disk->loop, disk->loop, w.staging, w.staging, w.staging, w.staging);
	r = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	stage_ok(&r);
	run_tool("test -d %s/sub", w.staging);
	node_world_clear(&w);
}
END_TEST

/*
 * A copy has the UUIDs of its origin. Linux 6.7 and later mount both; then the second one has a
 * temporary fsid in the kernel. A filesystem changed by `btrfstune -m` has two UUIDs. Both devices
 * were one btrfs before, of which the kernel keeps a stale entry.
 */
START_TEST(a_btrfs_and_its_copy_are_staged_side_by_side)
{
	static const char *const tunes[] = { "true", "btrfstune -f -m" };
	struct stage_request r[2];
	struct nvme_disk *copy;
	struct utsname host;
	char *other AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	SKIP_IF(uname(&host) || strverscmp(host.release, "6.7") < 0, "needs Linux 6.7");
	begin(320 * MIB);
	copy = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	other = xasprintf("%s/copy", w.kubelet_dir);
	run_tool("mkfs.btrfs -q %s %s", disk->loop, copy->loop);
	run_tool("mkfs.btrfs -qf %s && %s %s && cat %s > %s && blockdev --flushbufs %s", disk->loop,
	         tunes[_i], disk->loop, disk->loop, copy->loop, copy->loop);
	r[0] = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	r[1] = stage_request(&w, copy, "btrfs", MODE_SINGLE_NODE_WRITER);
	r[1].volume_id = "pvc-copy";
	r[1].staging_path = other;
	for (size_t i = 0; i < 4; i++) /* from the third call on they are already staged */
		stage_ok(&r[i % 2]);
	run_tool("touch %s/origin && touch %s/copy && ! test -e %s/origin", w.staging, other,
	         other);
	for (size_t i = 0; i < 2; i++) {
		struct err err = ERR_INIT;

		ck_assert_msg(
			node_unstage(&w.node, r[i].volume_id, r[i].staging_path, soon(), &err) == 0,
			"%s", err.msg);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(a_btrfs_of_several_devices_is_refused_with_their_number)
{
	struct stage_request r;
	struct err err = ERR_INIT;
	struct nvme_disk *second;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	second = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	run_tool("mkfs.btrfs -q -f %s %s >/dev/null", disk->loop, second->loop);
	if (_i) /* the other device is missing */
		run_tool("wipefs -qa %s && btrfs device scan -u", second->loop);
	r = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "spans 2 devices"), "%s: %s",
	              err_code_name(err.code), err.msg);
	ck_assert_uint_eq(mounts_below(w.staging), 0);
	node_world_clear(&w);
}
END_TEST

/* Its superblock has the size of both devices. */
START_TEST(a_btrfs_that_lacks_a_device_has_not_shrunk)
{
	struct err err = ERR_INIT;
	struct nvme_disk *second;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	second = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	run_tool("mkfs.btrfs -q -f -m raid0 -d raid0 %s %s >/dev/null && wipefs -qa %s && "
	         "btrfs device scan -u",
	         disk->loop, second->loop, second->loop);
	r = stage_request(&w, disk, "btrfs", MODE_SINGLE_NODE_WRITER);
	r.cap.mount_flags = (const char *const[]) { "degraded" };
	r.cap.n_mount_flags = 1;
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_msg(!strstr(err.msg, "larger than"), "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

/* The refused unstage of a reader-only volume leaves the switch behind. */
START_TEST(a_writer_ends_the_read_only_switch_of_a_reader)
{
	static const char *const types[] = { "ext4", "xfs", NULL };
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	if (types[_i])
		run_tool("mkfs.%s -q %s", types[_i], disk->loop);
	run_tool("blockdev --setro %s", disk->loop);
	r = stage_request(&w, disk, types[_i], MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	run_tool("test $(blockdev --getro %s) = 0", disk->loop);
	if (types[_i])
		run_tool("touch %s/file", w.staging);
	node_world_clear(&w);
}
END_TEST

START_TEST(mkfs_keys_reach_mkfs)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r.params.mkfs = (struct mkfs_params) { .block_size = 4096, .number_of_inodes = 1024 };
	stage_ok(&r);
	run_tool("dumpe2fs -h %s 2>/dev/null | grep -E '^Block size: *4096$'", disk->loop);
	run_tool("dumpe2fs -h %s 2>/dev/null | grep -E '^Inode count: *1024$'", disk->loop);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_reader_only_volume_is_mounted_read_only)
{
	static const struct {
		enum access_mode mode;
		const char *flags;
	} rows[] = {
		{ MODE_SINGLE_NODE_READER_ONLY, NULL },    { MODE_MULTI_NODE_READER_ONLY, NULL },
		{ MODE_MULTI_NODE_READER_ONLY, "rw" },     { MODE_MULTI_NODE_READER_ONLY, "ro,rw" },
		{ MODE_SINGLE_NODE_WRITER, "noatime,ro" }, { MODE_SINGLE_NODE_WRITER, "ro,rw" },
	};

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	run_tool("mkfs.ext4 -q %s", disk->loop);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stage_request r = stage_request(&w, disk, "ext4", rows[i].mode);

		r.cap.mount_flags = &rows[i].flags;
		r.cap.n_mount_flags = rows[i].flags ? 1 : 0;
		stage_ok(&r);
		stage_ok(&r);
		ck_assert(only_mount(w.staging)->read_only);
		run_tool("umount %s", w.staging);
	}
	node_world_clear(&w);
}
END_TEST

/* A filesystem whose journal has to be replayed, as after a crash of its writer's node. */
static void make_dirty(const char *fs_type)
{
	char *point AUTO(free) = xasprintf("%s/dirty", w.nvme.root);

	run_tool("mkfs.%s -q %s && mkdir %s && mount -t %s %s %s", fs_type, disk->loop, point,
	         fs_type, disk->loop, point);
	if (str_eq(fs_type, "xfs"))
		run_tool("echo data > %s/file && sync %s/file && xfs_io -x -c 'shutdown -f' %s && "
		         "umount %s",
		         point, point, point, point);
	else if (str_eq(fs_type, "btrfs"))
		run_tool("sync %s && touch %s/file && sync %s/file && umount %s", point, point,
		         point, point);
	else
		run_tool("umount %s && debugfs -w -R 'feature needs_recovery' %s >/dev/null 2>&1",
		         point, disk->loop);
	run_tool("blockdev --flushbufs %s", disk->loop);
}

static int read_only_switch(void)
{
	int ro = -1;

	ck_assert_int_eq(ioctl(disk->fd, BLKROGET, &ro), 0);
	return ro;
}

/*
 * Copies the image, which is sparse: through the loop device each read would cost ten times as
 * much.
 */
static void copy_disk(void)
{
	run_tool("blockdev --flushbufs %s && cp --sparse=always %s %s/copy", disk->loop,
	         disk->image, w.nvme.root);
}

static bool disk_is_unchanged(void)
{
	char *changed AUTO(free) = xasprintf("%s/changed", w.nvme.root);

	run_tool("blockdev --flushbufs %s && { cmp -s %s %s/copy || touch %s; }", disk->loop,
	         disk->image, w.nvme.root, changed);
	return !path_exists(changed);
}

START_TEST(a_reader_writes_nothing_not_even_what_the_journal_holds)
{
	static const struct {
		const char *fs_type;
		enum access_mode mode;
		const char *flag;
		bool same;
	} rows[] = {
		{ "ext4", MODE_SINGLE_NODE_READER_ONLY, NULL, true },
		{ "ext3", MODE_MULTI_NODE_READER_ONLY, NULL, true },
		{ "xfs", MODE_MULTI_NODE_READER_ONLY, NULL, true },
		{ "btrfs", MODE_MULTI_NODE_READER_ONLY, NULL, true },
		{ "xfs", MODE_SINGLE_NODE_READER_ONLY, "norecovery", true },
		/* A writer's volume mounted "ro": its files are first made consistent. */
		{ "ext4", MODE_SINGLE_NODE_WRITER, "ro", false },
		{ "xfs", MODE_SINGLE_NODE_WRITER, "ro", false },
	};
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	make_dirty(rows[_i].fs_type);
	copy_disk();
	r = stage_request(&w, disk, rows[_i].fs_type, rows[_i].mode);
	r.cap.mount_flags = &rows[_i].flag;
	r.cap.n_mount_flags = rows[_i].flag ? 1 : 0;
	stage_ok(&r);
	stage_ok(&r);
	ck_assert(only_mount(w.staging)->read_only);
	run_tool("ls %s >/dev/null", w.staging);
	run_tool("umount %s", w.staging);
	ck_assert_msg(disk_is_unchanged() == rows[_i].same, "%s: the disk was %s", rows[_i].fs_type,
	              rows[_i].same ? "written to" : "not replayed");
	node_world_clear(&w);
}
END_TEST

/* A file was removed while open: a mount of such an ext4 frees its blocks. */
START_TEST(a_reader_frees_no_file_that_its_writer_has_open)
{
	static const char *const fs_types[] = { "ext4", "ext3" };
	struct err err = ERR_INIT;
	struct stage_request r;
	struct stage_request writer;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkfs.%s -q -O ^orphan_file %s 2>/dev/null || mkfs.%s -q %s", fs_types[_i],
	         disk->loop, fs_types[_i], disk->loop);
	run_tool(
		"cd %s && head -c 40000 /dev/urandom >file && debugfs -w -R 'write file file' %s && "
		"n=$(debugfs -R 'stat file' %s | sed -n 's/^Inode: *\\([0-9]*\\) .*/\\1/p') && "
		"debugfs -w -R 'sif file links_count 0' %s && debugfs -w -R 'unlink file' %s && "
		"debugfs -w -R \"ssv last_orphan $n\" %s",
		w.nvme.root, disk->loop, disk->loop, disk->loop, disk->loop, disk->loop);
	run_tool("blockdev --flushbufs %s", disk->loop);
	copy_disk();
	r = stage_request(&w, disk, fs_types[_i], MODE_MULTI_NODE_READER_ONLY);
	stage_ok(&r);
	stage_ok(&r);
	ck_assert_int_eq(read_only_switch(), 1);
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err), 0);
	ck_assert_int_eq(read_only_switch(), 0);
	ck_assert(disk_is_unchanged());
	writer = stage_request(&w, disk, fs_types[_i], MODE_SINGLE_NODE_WRITER);
	stage_ok(&writer);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_write_protected_disk_with_a_journal_can_be_read)
{
	static const char *const ro_flag = "ro";
	static const char *const fs_types[] = { "ext4", "xfs" };
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	make_dirty(fs_types[_i]);
	run_tool("blockdev --setro %s", disk->loop);
	nvme_world_attr(disk, "ro", "1");
	r = stage_request(&w, disk, fs_types[_i], MODE_SINGLE_NODE_WRITER);
	r.cap.mount_flags = &ro_flag;
	r.cap.n_mount_flags = 1;
	stage_ok(&r);
	run_tool("ls %s >/dev/null && umount %s && blockdev --setrw %s", w.staging, w.staging,
	         disk->loop);
	node_world_clear(&w);
}
END_TEST

START_TEST(data_without_a_signature_is_formatted_only_when_told)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	nvme_disk_write(disk, 10 * MIB, "data", 4);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r.params.format_policy = FORMAT_UNFORMATTED;
	stage_ok(&r);
	node_world_clear(&w);
}
END_TEST

/* ---- raw block ---- */

START_TEST(raw_block_is_the_device_itself)
{
	struct stat st;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	nvme_disk_write(disk, 0, "anything", 8);
	r = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	stage_ok(&r);
	ck_assert_ptr_nonnull(only_mount(w.block_file));
	ck_assert_int_eq(stat(w.block_file, &st), 0);
	ck_assert(S_ISBLK(st.st_mode));
	ck_assert_uint_eq(st.st_rdev, disk->devno);
	run_tool("echo hello | dd of=%s bs=512 conv=sync,fsync 2>/dev/null", w.block_file);
	run_tool("head -c 5 %s | grep -q hello", disk->loop);
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_of_a_disk_that_somebody_has_mounted_is_refused)
{
	struct err err = ERR_INIT;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	run_tool("mkfs.ext4 -q %s", disk->loop);
	run_tool("mkdir %s/theirs && mount %s %s/theirs", w.nvme.root, disk->loop, w.nvme.root);
	r = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, "is in use: mounted"), "%s", err.msg);
	ck_assert_ptr_null(only_mount(w.block_file));
	run_tool("umount %s/theirs", w.nvme.root);
	err_clear(&err);
	stage_ok(&r);
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_that_is_only_read_cannot_be_written)
{
	struct err err = ERR_INIT;
	struct stage_request r;
	struct stage_request writer;
	int on;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	r = stage_request(&w, disk, NULL, MODE_MULTI_NODE_READER_ONLY);
	stage_ok(&r);
	stage_ok(&r);
	ck_assert_int_eq(read_only_switch(), 1);
	run_tool("! dd if=/dev/zero of=%s bs=512 count=1 2>/dev/null", w.block_file);
	/* A writer must not get it in that state. */
	writer = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	ck_assert_int_eq(node_stage(&w.node, &writer, soon(), &err), -1);
	ck_assert_int_eq(err.code, ERR_EXISTS);
	err_clear(&err);
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err), 0);
	ck_assert_int_eq(read_only_switch(), 0);

	/* A switch left by a crash is corrected for a writer. */
	on = 1;
	ck_assert_int_eq(ioctl(disk->fd, BLKROSET, &on), 0);
	stage_ok(&writer);
	ck_assert_int_eq(read_only_switch(), 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_failed_stage_puts_the_read_only_switch_back)
{
	struct err err = ERR_INIT;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	run_tool("echo data > %s", w.block_file);
	r = stage_request(&w, disk, NULL, MODE_MULTI_NODE_READER_ONLY);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_int_eq(read_only_switch(), 0);
	node_world_clear(&w);
}
END_TEST

/* ---- leftovers ---- */

START_TEST(a_mount_of_a_disk_that_has_gone_makes_room)
{
	static const char *const types[] = { "ext4", NULL };
	const char *type = types[_i];
	struct nvme_disk *gone;
	struct stage_request before;
	struct stage_request r;
	const struct mount *m;

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	gone = nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	before = stage_request(&w, gone, type, MODE_SINGLE_NODE_WRITER);
	stage_ok(&before);
	nvme_world_hide(&w.nvme, gone);
	r = stage_request(&w, disk, type, MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	m = only_mount(type ? w.staging : w.block_file);
	ck_assert_ptr_nonnull(m);
	if (type)
		ck_assert_uint_eq(m->devno, disk->devno);
	node_world_clear(&w);
}
END_TEST

START_TEST(an_empty_block_file_of_a_crash_is_used_again)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	run_tool("touch %s", w.block_file);
	r = stage_request(&w, disk, NULL, MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	node_world_clear(&w);
}
END_TEST

/* A tool of a killed driver still holds the driver's descriptor, and so its lock. */
START_TEST(a_tool_that_has_outlived_a_driver_is_waited_for)
{
	struct stage_request r;
	struct err err = ERR_INIT;
	int fd;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	fd = open(disk->node, O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	node_world_impatient(&w);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	node_world_patient(&w);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	ck_assert_ptr_nonnull(strstr(err.msg, "is locked by another process"));
	ck_assert_ptr_null(only_mount(NULL));
	close(fd);
	stage_ok(&r);
	ck_assert_ptr_nonnull(only_mount(w.staging));
	node_world_clear(&w);
}
END_TEST

START_TEST(a_staging_path_that_is_not_there_is_made)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	run_tool("rm -r %s/kubelet", w.nvme.root);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	ck_assert_ptr_nonnull(only_mount(w.staging));
	node_world_clear(&w);
}
END_TEST

START_TEST(a_staging_path_through_a_link_is_the_same_mountpoint)
{
	char path[256];
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(16 * MIB);
	run_tool("ln -s kubelet %s/link", w.nvme.root);
	snprintf(path, sizeof(path), "%s/link/staging", w.nvme.root);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r.staging_path = path;
	stage_ok(&r);
	stage_ok(&r);
	r.staging_path = w.staging;
	stage_ok(&r);
	ck_assert_ptr_nonnull(only_mount(w.staging));
	node_world_clear(&w);
}
END_TEST

/* ---- growth and time ---- */

START_TEST(a_filesystem_smaller_than_its_disk_grows)
{
	struct err err = ERR_INIT;
	struct fsprobe p;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkfs.xfs -q %s", disk->loop);
	nvme_world_resize(disk, 640 * MIB);
	r = stage_request(&w, disk, "xfs", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	run_tool("umount %s", w.staging);
	ck_assert_int_eq(fsprobe_fd(disk->fd, "disk", &p, &err), 0);
	ck_assert_uint_eq(p.size, 640 * MIB);
	node_world_clear(&w);
}
END_TEST

static char logged[4000];
static void keep_line(void *arg, const char *line)
{
	size_t n = strlen(logged);

	(void)arg;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

/* The rest of the first line that has this text, or NULL; valid until the next call. */
static const char *logged_line(const char *text)
{
	static char line[sizeof(logged)];
	const char *at = strstr(logged, text);

	if (!at)
		return NULL;
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
	return line;
}

START_TEST(the_log_names_disk_function_and_duration_of_what_was_done)
{
	static const struct {
		const char *fs_type;
		bool twice;
		const char *msg, *has[5];
	} rows[] = {
		{ "ext4", false, " formatting volume=pvc-1", { "fs=ext4" } },
		{ "ext4", false, " formatted volume=pvc-1", { "fs=ext4", " ms=" } },
		{ "ext4", false, " staged volume=pvc-1", { " uuid=" UUID, " ms=" } },
		{ NULL, false, " staged volume=pvc-1", { " uuid=" UUID, " ms=" } },
		{ "ext4", true, " already staged volume=pvc-1", { " uuid=" UUID, " ms=" } },
	};
	struct stage_request r;
	const char *line;
	char device[300];

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	log_redirect(keep_line, NULL);
	r = stage_request(&w, disk, rows[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	if (rows[_i].twice)
		stage_ok(&r);
	log_redirect(NULL, NULL);
	line = logged_line(rows[_i].msg);
	ck_assert_msg(line != NULL, "%s", logged);
	snprintf(device, sizeof(device), " device=%s/%s pci=%s", w.nvme.world.dev, disk->name,
	         r.want.pci);
	ck_assert_msg(strstr(line, device) != NULL, "no%s: %s", device, line);
	for (size_t i = 0; i < ARRAY_LEN(rows[_i].has) && rows[_i].has[i]; i++)
		ck_assert_msg(strstr(line, rows[_i].has[i]) != NULL, "%s", line);
	node_world_clear(&w);
}
END_TEST

START_TEST(growth_that_fails_is_told_but_does_not_keep_the_data_away)
{
	char *tools AUTO(free) = NULL;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkfs.ext4 -q %s && mkdir %s/tools && printf '#!/bin/sh\\necho no; exit 1\\n' > "
	         "%s/tools/resize2fs && chmod +x %s/tools/resize2fs",
	         disk->loop, w.nvme.root, w.nvme.root, w.nvme.root);
	nvme_world_resize(disk, 640 * MIB);
	tools = xasprintf("%s/tools", w.nvme.root);
	spawn_set_path(tools);
	log_redirect(keep_line, NULL);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	stage_ok(&r);
	log_redirect(NULL, NULL);
	spawn_set_path(NULL);
	ck_assert_msg(strstr(logged, "could not be grown to its device") != NULL, "%s", logged);
	ck_assert_ptr_nonnull(only_mount(w.staging));
	node_world_clear(&w);
}
END_TEST

START_TEST(mkfs_runs_to_its_end_when_the_caller_has_gone)
{
	struct cancel cancel = CANCEL_INIT;
	struct err err = ERR_INIT;
	struct fsprobe p;
	char *tools AUTO(free) = NULL;
	struct stage_request r;
	struct deadline d;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	run_tool("mkdir %s/tools && printf '#!/bin/sh\\nsleep 1\\nexec /sbin/mkfs.xfs \"$@\"\\n' > "
	         "%s/tools/mkfs.xfs && chmod +x %s/tools/mkfs.xfs",
	         w.nvme.root, w.nvme.root, w.nvme.root);
	tools = xasprintf("%s/tools", w.nvme.root);
	spawn_set_path(tools);
	r = stage_request(&w, disk, "xfs", MODE_SINGLE_NODE_WRITER);
	d = deadline_in_ms(400);
	d.cancel = &cancel;
	/* The result is not used; the disk must be complete after mkfs has ended. */
	ck_assert_int_eq(node_stage(&w.node, &r, d, &err), -1);
	err_clear(&err);
	ck_assert_msg(job_join(w.node.jobs, VOLUME_ID, soon(), &err) == 0, "%s", err.msg);
	spawn_set_path(NULL);
	ck_assert_int_eq(fsprobe_fd(disk->fd, "disk", &p, &err), 0);
	ck_assert_str_eq(p.type, "xfs");
	ck_assert(!p.unfinished);
	node_world_clear(&w);
}
END_TEST

START_TEST(volumes_are_staged_side_by_side)
{
	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	node_world_stage_many(&w, disk, 3, 64 * MIB);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 3);
	node_world_clear(&w);
}
END_TEST

/* ---- the gate ---- */

static struct gatekeeper *gate;
static int daemon_stream;

static void tell_nothing(void *stream, const struct gate_status *status)
{
	(void)stream;
	(void)status;
}

/* The daemon dies once mkfs runs. */
static void *close_gate(void *began)
{
	WAIT_UNTIL(path_exists(began));
	gatekeeper_left(gate, &daemon_stream);
	return NULL;
}

/* A mkfs.xfs that reports its start, and takes a second. */
static char *slow_mkfs(const char *began)
{
	char *tools = xasprintf("%s/tools", w.nvme.root);

	run_tool(
		"mkdir %s && printf '#!/bin/sh\\ntouch %s\\nsleep 1\\nexec /sbin/mkfs.xfs \"$@\"\\n' "
		"> %s/mkfs.xfs && chmod +x %s/mkfs.xfs",
		tools, began, tools, tools);
	spawn_set_path(tools);
	return tools;
}

START_TEST(a_format_keeps_its_function_when_the_gate_closes)
{
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = soon();
	struct err err = ERR_INIT;
	char *tools AUTO(free) = NULL, *began AUTO(free) = NULL, *driver AUTO(free) = NULL;
	struct stage_request r;
	pthread_t thread;

	SKIP_UNLESS_LOOP();
	begin(320 * MIB);
	nvme_world_unbind(&w.nvme, disk);
	began = xasprintf("%s/began", w.nvme.root);
	driver = xasprintf("%s/bus/pci/devices/%s/driver", w.nvme.sysfs, disk->pci);
	tools = slow_mkfs(began);
	gate = gatekeeper_new(&(struct gatekeeper_options) {
		.node_id = "n1", .socket = "gate.sock", .notify = tell_nothing });
	w.node.o.gate = gate;
	ck_assert_int_eq(gatekeeper_enable(gate, &daemon_stream, "n1", 1, &err), 0);
	r = stage_request(&w, disk, "xfs", MODE_SINGLE_NODE_WRITER);
	d.cancel = &cancel;
	ck_assert_int_eq(pthread_create(&thread, NULL, close_gate, began), 0);
	ck_assert_int_eq(node_stage(&w.node, &r, d, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "the gate was closed"), "%s",
	              err.msg);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_msg(path_exists(driver), "the function was given back under mkfs");
	err_clear(&err);
	ck_assert_msg(job_join(w.node.jobs, VOLUME_ID, soon(), &err) == 0, "%s", err.msg);
	spawn_set_path("/nonexistent"); /* nothing is formatted again */
	ck_assert_int_eq(gatekeeper_enable(gate, &daemon_stream, "n1", 1, &err), 0);
	stage_ok(&r);
	spawn_set_path(NULL);
	w.node.o.gate = NULL;
	gatekeeper_left(gate, &daemon_stream);
	gate = gatekeeper_free(gate);
	node_world_clear(&w);
}
END_TEST

/* How many times the metric was observed; adds their sum. */
static int64_t attach_to_stage_count(int64_t *sum_ns)
{
	int64_t n = 0;

	for (size_t i = 0; i < METRIC_BUCKETS; i++)
		n += metric_cell(METRIC_ATTACH_TO_STAGE, 0, i);
	*sum_ns = metric_cell(METRIC_ATTACH_TO_STAGE, 0, METRIC_BUCKETS);
	return n;
}

static const struct {
	const char *fs_type, *text; /* NULL: the time `age` ago */
	time_t age;
	bool counts;
} created[] = {
	{ "ext4", NULL, 100, true },
	{ NULL, NULL, 100, true },
	{ "ext4", NULL, 3700, false },
	{ "ext4", NULL, -100, false },
	{ "ext4", "", 0, false },
	{ "ext4", "yesterday", 0, false },
	{ "ext4", "2026-01-02T03:04:05+01:00", 0, false },
};

START_TEST(the_time_from_attach_to_stage_is_counted_once)
{
	time_t at = time(NULL) - created[_i].age;
	int64_t before_ns, sum_ns, before = attach_to_stage_count(&before_ns);
	struct stage_request r;
	char text[32];

	SKIP_UNLESS_LOOP();
	begin(64 * MIB);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime(&at));
	r = stage_request(&w, disk, created[_i].fs_type, MODE_SINGLE_NODE_WRITER);
	r.attachment_created = created[_i].text ? created[_i].text : text;
	node_world_stage(&w, &r);
	node_world_stage(&w, &r); /* a retry: it is staged already */
	ck_assert_int_eq(attach_to_stage_count(&sum_ns) - before, created[_i].counts);
	if (created[_i].counts)
		ck_assert_int_ge(sum_ns - before_ns, created[_i].age * INT64_C(1000000000));
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("stage", 60, LOOP(the_time_from_attach_to_stage_is_counted_once, ARRAY_LEN(created)),
              LOOP(a_blank_disk_becomes_the_filesystem_that_was_asked_for, 5),
              LOOP(a_mount_of_a_disk_that_has_gone_makes_room, 2),
              LOOP(a_reader_writes_nothing_not_even_what_the_journal_holds, 7),
              LOOP(a_write_protected_disk_with_a_journal_can_be_read, 2),
              LOOP(blocks_that_are_larger_than_pages_are_named_when_the_kernel_refuses_them, 3),
              without_a_wish_the_filesystem_that_is_there_is_taken, mount_flags_reach_the_mount,
              LOOP(a_filesystem_that_asks_for_a_panic_does_not_get_it, 2),
              a_btrfs_with_another_default_subvolume_is_staged_whole,
              LOOP(a_btrfs_and_its_copy_are_staged_side_by_side, 2),
              LOOP(a_btrfs_of_several_devices_is_refused_with_their_number, 2),
              a_btrfs_that_lacks_a_device_has_not_shrunk,
              LOOP(a_writer_ends_the_read_only_switch_of_a_reader, 3), mkfs_keys_reach_mkfs,
              LOOP(a_reader_frees_no_file_that_its_writer_has_open, 2),
              a_reader_only_volume_is_mounted_read_only,
              data_without_a_signature_is_formatted_only_when_told, raw_block_is_the_device_itself,
              raw_block_of_a_disk_that_somebody_has_mounted_is_refused,
              raw_block_that_is_only_read_cannot_be_written,
              a_failed_stage_puts_the_read_only_switch_back,
              an_empty_block_file_of_a_crash_is_used_again,
              a_tool_that_has_outlived_a_driver_is_waited_for,
              a_staging_path_that_is_not_there_is_made,
              a_staging_path_through_a_link_is_the_same_mountpoint,
              a_filesystem_smaller_than_its_disk_grows,
              LOOP(the_log_names_disk_function_and_duration_of_what_was_done, 5),
              growth_that_fails_is_told_but_does_not_keep_the_data_away,
              mkfs_runs_to_its_end_when_the_caller_has_gone,
              a_format_keeps_its_function_when_the_gate_closes, volumes_are_staged_side_by_side);
