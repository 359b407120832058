/* SPDX-License-Identifier: Apache-2.0 */
/* Argument lists, recorded by fake tools; the real tools on images; growth. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/mount/fsprobe.h"
#include "node/mount/mkfs.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

#define MIB (1024ULL * 1024)

static char tools[64];

/*
 * Tools that append their command line to <tools>/log and exit with the status in <tools>/status.
 */
static void fake_tools(void)
{
	static const char *const names[] = { "mkfs.ext4",  "mkfs.ext3", "mkfs.xfs",
		                             "mkfs.btrfs", "resize2fs", "btrfs" };

	snprintf(tools, sizeof(tools), "/tmp/mkfs-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(tools));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		run_tool("printf '#!/bin/sh\\necho \"${0##*/} $*\" >> %s/log\\necho last words\\n"
		         "exit $(cat %s/status)\\n' > %s/%s; chmod +x %s/%s; echo 0 > %s/status",
		         tools, tools, tools, names[i], tools, names[i], tools);
	spawn_set_path(tools);
}

static char *log_and_reset(void)
{
	char *path AUTO(free) = xasprintf("%s/log", tools);
	struct err err = ERR_INIT;
	char *text;

	ck_assert_int_eq(file_read_line(path, 1000, &text, &err), 0);
	unlink(path);
	return text;
}

static void no_fake_tools(void)
{
	spawn_set_path(NULL);
	run_tool("rm -rf %s", tools);
}

static int image_of(uint64_t size)
{
	char name[] = "/var/tmp/mkfs-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	return fd;
}

START_TEST(arguments_follow_the_volumes_keys_and_never_force)
{
	static const struct {
		const char *fs_type;
		struct mkfs_params params;
		const char *line;
		uint64_t size;
	} rows[] = {
		{ "ext4", { 0 }, "mkfs.ext4 -q -m0 -Enodiscard /proc/self/fd/3", 512 * MIB - 1 },
		{ "ext4", { 0 }, "mkfs.ext4 -q -m0 -Enodiscard -b4096 /proc/self/fd/3", 512 * MIB },
		{ "ext3",
		  { 0 },
		  "mkfs.ext3 -q -m0 -Enodiscard -b4096 /proc/self/fd/3",
		  8ULL << 40 },
		{ "ext4",
		  { .block_size = 2048 },
		  "mkfs.ext4 -q -m0 -Enodiscard -b2048 /proc/self/fd/3",
		  512 * MIB },
		{ "ext3",
		  { .block_size = 4096 },
		  "mkfs.ext3 -q -m0 -Enodiscard -b4096 /proc/self/fd/3",
		  0 },
		{ "ext4",
		  { .block_size = 1024,
		    .inode_size = 512,
		    .bytes_per_inode = 65536,
		    .number_of_inodes = 1000,
		    .ext4_bigalloc = true,
		    .ext4_cluster_size = 16384 },
		  "mkfs.ext4 -q -m0 -Enodiscard -b1024 -I512 -i65536 -N1000 -Obigalloc -C16384 "
		  "/proc/self/fd/3",
		  0 },
		{ "xfs", { 0 }, "mkfs.xfs -q -K -bsize=4096 /proc/self/fd/3", 0 },
		{ "xfs",
		  { .block_size = 1024, .inode_size = 1024 },
		  "mkfs.xfs -q -K -bsize=1024 -isize=1024 /proc/self/fd/3",
		  0 },
		{ "btrfs", { 0 }, "mkfs.btrfs -q -K -s4096 /proc/self/fd/3", 0 },
	};

	fake_tools();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = image_of(rows[i].size);
		struct err err = ERR_INIT;
		char *line AUTO(free) = NULL;

		ck_assert_int_eq(mkfs_run(rows[i].fs_type, &rows[i].params, fd, "dev", &err), 0);
		line = log_and_reset();
		ROW_STR_EQ(rows[i].fs_type, line, rows[i].line);
	}
	no_fake_tools();
}
END_TEST

START_TEST(a_failing_tool_is_quoted)
{
	struct mkfs_params none = { 0 };
	struct err err = ERR_INIT;

	fake_tools();
	run_tool("echo 3 > %s/status", tools);
	ck_assert_int_eq(mkfs_run("ext4", &none, 0, "/dev/x", &err), -1);
	ck_assert_int_eq(err.code, ERR_INTERNAL);
	ck_assert_str_eq(err.msg, "mkfs.ext4 of /dev/x failed (exit status 3): last words");
	no_fake_tools();
}
END_TEST

START_TEST(the_telling_line_is_quoted_wherever_it_stands)
{
	static const struct {
		const char *output, *quoted;
	} rows[] = {
		{ "one\\ntwo", "two" },
		{ "mkfs.ext4: no space\\nwritten: 3 of 4", "written: 3 of 4" },
		{ "mke2fs 1.47 (5-Feb-2023)\\nmkfs.ext4: no space\\nold = 3, new = 5",
		  "mkfs.ext4: no space" },
		{ "ERROR: no space\\nSee http://x", "ERROR: no space" },
		{ "mkfs.ext4: no space\\n/dev/x: is mounted", "mkfs.ext4: no space" },
		{ "block size 1024 is too small\\nUsage: mkfs.xfs\\n/* blocksize */ [-b size=num]",
		  "block size 1024 is too small" },
		{ "mkfs.ext4: invalid option\\nusage: mkfs.ext4 [-c]: all",
		  "mkfs.ext4: invalid option" },
		{ "Usage: mkfs.xfs", "Usage: mkfs.xfs" },
		{ "", "" },
	};
	struct mkfs_params none = { 0 };

	fake_tools();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		char *want AUTO(free) =
			xasprintf("mkfs.ext4 of dev failed (exit status 1): %s", rows[i].quoted);

		run_tool("printf '#!/bin/sh\\nprintf \"%s\"\\nexit 1\\n' > %s/mkfs.ext4",
		         rows[i].output, tools);
		ck_assert_int_eq(mkfs_run("ext4", &none, 0, "dev", &err), -1);
		ROW_STR_EQ(rows[i].output, err.msg, want);
	}
	no_fake_tools();
}
END_TEST

START_TEST(growth_is_asked_of_the_right_tool)
{
	static const struct {
		const char *fs_type, *line;
	} rows[] = {
		{ "ext4", "resize2fs /dev/x" },
		{ "ext3", "resize2fs /dev/x" },
		{ "btrfs", "btrfs filesystem resize max /mnt" },
	};
	struct err err = ERR_INIT;

	fake_tools();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *line AUTO(free) = NULL;

		ck_assert_int_eq(fs_grow(rows[i].fs_type, "/dev/x", "/mnt", wait_limit(), &err), 0);
		line = log_and_reset();
		ROW_STR_EQ(rows[i].fs_type, line, rows[i].line);
	}
	ck_assert_int_eq(fs_grow("vfat", "/dev/x", "/mnt", wait_limit(), &err), -1);
	no_fake_tools();
}
END_TEST

START_TEST(what_cannot_become_this_filesystem_is_refused_before)
{
	static const struct {
		const char *what, *fs_type;
		uint64_t size;
		struct mkfs_params params;
		const char *error; /* NULL: accepted */
	} rows[] = {
		{ "ext4", "ext4", 16 * MIB, { 0 }, NULL },
		{ "xfs", "xfs", 300 * MIB, { 0 }, NULL },
		{ "small xfs",
		  "xfs",
		  299 * MIB,
		  { 0 },
		  "xfs needs at least 300.0 MiB (314572800 bytes), the volume has 299.0 MiB "
		  "(313524224 bytes)" },
		{ "small btrfs",
		  "btrfs",
		  100 * MIB,
		  { 0 },
		  "btrfs needs at least 109.0 MiB (114294784 bytes), the volume has 100.0 MiB "
		  "(104857600 bytes)" },
		{ "ext3 that would have no journal",
		  "ext3",
		  7 * MIB,
		  { .block_size = 4096 },
		  "ext3 with these keys needs at least 8.0 MiB (8388608 bytes), the volume has 7.0 "
		  "MiB (7340032 bytes)" },
		{ "ext4 without room for its inodes",
		  "ext4",
		  16 * MIB,
		  { .number_of_inodes = 100000 },
		  "ext4 with these keys needs at least 40.1 MiB (42008576 bytes), the volume has 16.0 "
		  "MiB (16777216 bytes)" },
		{ "btrfs with keys",
		  "btrfs",
		  1000 * MIB,
		  { .block_size = 4096 },
		  "btrfs does not support mkfs keys" },
		{ "ext3 of 16 TiB less a block", "ext3", (16ULL << 40) - 4096, { 0 }, NULL },
		{ "ext3 of 16 TiB",
		  "ext3",
		  16ULL << 40,
		  { 0 },
		  "ext3 has at most 16.0 TiB (17592186040320 bytes) with blocks of this size, the "
		  "volume has 16.0 TiB (17592186044416 bytes); next: use ext4 "
		  "(csi.storage.k8s.io/fstype of the StorageClass)" },
		{ "ext4 of 32 TiB", "ext4", 32ULL << 40, { 0 }, NULL },
		{ "vfat",
		  "vfat",
		  1000 * MIB,
		  { 0 },
		  "filesystem vfat is not one that this driver creates" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		int rc = mkfs_check(rows[i].fs_type, rows[i].size, &rows[i].params, &err);

		ck_assert_msg(rc == (rows[i].error ? -1 : 0), "%s", rows[i].what);
		if (rc)
			ROW_STR_EQ(rows[i].what, err.msg, rows[i].error);
	}
}
END_TEST

/* The smallest size that mkfs_check() accepts must be sufficient for the tool. */
START_TEST(the_real_tools_make_what_is_asked)
{
	static const struct {
		const char *what, *fs_type;
		uint64_t size;
		struct mkfs_params params;
		uint64_t block_size; /* from its superblock */
	} rows[] = {
		{ "ext4", "ext4", 1 * MIB, { 0 }, 1024 },
		{ "ext4 whose blocks are larger", "ext4", 512 * MIB, { 0 }, 4096 },
		{ "large ext4", "ext4", 1ULL << 40, { 0 }, 4096 },
		{ "ext3", "ext3", 4 * MIB, { 0 }, 1024 },
		{ "xfs", "xfs", 300 * MIB, { 0 }, 4096 },
		{ "btrfs", "btrfs", 109 * MIB, { 0 }, 4096 },
		{ "ext4 with keys",
		  "ext4",
		  64 * MIB,
		  { .block_size = 4096,
		    .inode_size = 512,
		    .bytes_per_inode = 65536,
		    .ext4_bigalloc = true,
		    .ext4_cluster_size = 65536 },
		  4096 },
		{ "xfs with keys",
		  "xfs",
		  400 * MIB,
		  { .block_size = 1024, .inode_size = 512 },
		  1024 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* The file has no name any more; the tool can use it anyway. */
		int fd AUTO(fd) = image_of(rows[i].size);
		struct err err = ERR_INIT;
		struct fsprobe p;

		if (str_eq(rows[i].fs_type, "btrfs") && geteuid() != 0)
			continue; /* it needs access to loop devices */
		ck_assert_msg(mkfs_run(rows[i].fs_type, &rows[i].params, fd, "img", &err) == 0,
		              "%s: %s", rows[i].what, err.msg);
		ck_assert_int_eq(fsprobe_fd(fd, "img", &p, &err), 0);
		ROW_STR_EQ(rows[i].what, p.type, rows[i].fs_type);
		ck_assert_msg(p.block_size == rows[i].block_size, "%s: blocks of %ju bytes",
		              rows[i].what, (uintmax_t)p.block_size);
	}
}
END_TEST

START_TEST(only_an_unfinished_xfs_is_forgotten)
{
	char name[] = "/var/tmp/mkfs-XXXXXX";
	int fd AUTO(fd) = mkstemp(name);
	struct err err = ERR_INIT;
	struct fsprobe p;

	ck_assert_int_eq(ftruncate(fd, 320 * MIB), 0);
	run_tool("mkfs.xfs -q %s", name);
	ck_assert_int_eq(mkfs_forget_unfinished(fd, "img", &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	err_clear(&err);
	ck_assert_int_eq(pwrite(fd, "\1", 1, 126), 1);
	ck_assert_int_eq(mkfs_forget_unfinished(fd, "img", &err), 0);
	ck_assert_int_eq(fsprobe_fd(fd, "img", &p, &err), 0);
	ck_assert_int_eq(p.kind, FSPROBE_NOTHING);
	unlink(name);
}
END_TEST

START_TEST(xfs_grows_to_its_device)
{
	struct nvme_world w;
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	struct fsprobe p;
	char *at AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 320 * MIB);
	at = xasprintf("%s/at", w.root);
	run_tool("mkfs.xfs -q %s && mkdir %s && mount %s %s", d->loop, at, d->loop, at);
	ck_assert_int_eq(fs_grow("xfs", d->node, at, wait_limit(), &err), 0); /* nothing to do */
	nvme_world_resize(d, 640 * MIB);
	ck_assert_msg(fs_grow("xfs", d->node, at, wait_limit(), &err) == 0, "%s", err.msg);
	run_tool("umount %s", at);
	ck_assert_int_eq(fsprobe_fd(d->fd, "img", &p, &err), 0);
	ck_assert_uint_eq(p.size, 640 * MIB);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("mkfs", 120, arguments_follow_the_volumes_keys_and_never_force,
              a_failing_tool_is_quoted, the_telling_line_is_quoted_wherever_it_stands,
              growth_is_asked_of_the_right_tool,
              what_cannot_become_this_filesystem_is_refused_before,
              the_real_tools_make_what_is_asked, only_an_unfinished_xfs_is_forgotten,
              xfs_grows_to_its_device);
