/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage by staging and by publish path, of filesystems and raw block, and of dead or hanging
 * filesystems.
 */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/target/guard.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(const char *fs_type)
{
	struct stage_request s;
	struct publish_request p;

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	s = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	p = publish_request(&w, w.target, fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &s);
	node_world_publish(&w, &p);
}

static void check_filesystem(const char *path, const char *fs_type)
{
	struct volume_stats s;
	struct err err = ERR_INIT;

	ck_assert_msg(node_stats(&w.node, VOLUME_ID, path, &s, &err) == 0, "%s", err.msg);
	ck_assert(!s.block);
	ck_assert_uint_gt(s.total_bytes, 200 * MIB);
	ck_assert_uint_le(s.total_bytes, 320 * MIB);
	ck_assert_uint_gt(s.used_bytes, 20 * MIB); /* the data written by the test */
	ck_assert_uint_gt(s.available_bytes, 100 * MIB);
	ck_assert_uint_le(s.used_bytes + s.available_bytes, s.total_bytes);
	if (strcmp(fs_type, "btrfs") != 0) {
		ck_assert_uint_gt(s.total_inodes, 1000);
		ck_assert_uint_eq(s.free_inodes + s.used_inodes, s.total_inodes);
	}
}

START_TEST(a_filesystem_by_staging_and_by_publish_path)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs" };

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	run_tool("head -c %llu /dev/urandom > %s/file && sync -f %s", 24 * MIB, w.staging,
	         w.staging);
	check_filesystem(w.staging, types[_i]);
	check_filesystem(w.target, types[_i]);
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_by_staging_and_by_publish_path)
{
	const char *paths[3];
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(NULL);
	paths[0] = w.staging;
	paths[1] = w.block_file;
	paths[2] = w.target;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct volume_stats s;

		ck_assert_msg(node_stats(&w.node, VOLUME_ID, paths[i], &s, &err) == 0, "%s: %s",
		              paths[i], err.msg);
		ck_assert(s.block);
		ck_assert_uint_eq(s.total_bytes, 320 * MIB);
	}
	node_world_clear(&w);
}
END_TEST

/*
 * Sets whether this thread, and those that it starts, may read files of other users:
 * capabilities(7).
 */
static void allow_others_files(bool allow)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { 0 } };
	uint32_t bits = 1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH;

	ck_assert_int_eq(syscall(SYS_capget, &head, caps), 0);
	caps[0].effective = allow ? caps[0].effective | bits : caps[0].effective & ~bits;
	ck_assert_int_eq(syscall(SYS_capset, &head, caps), 0);
}

/* As an export with root squash: the process may not list the root of the filesystem. */
START_TEST(a_root_that_may_not_be_listed_does_not_hide_the_numbers)
{
	struct volume_stats s;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	run_tool("chmod 0700 %s && chown 1234 %s", w.staging, w.staging);
	allow_others_files(false);
	ck_assert_msg(node_stats(&w.node, VOLUME_ID, w.staging, &s, &err) == 0, "%s", err.msg);
	ck_assert_uint_gt(s.total_bytes, 200 * MIB);
	allow_others_files(true);
	node_world_clear(&w);
}
END_TEST

START_TEST(where_nothing_is_mounted_nothing_is_measured)
{
	const char *paths[] = { "some/path", "/nonexistent", "/proc", NULL, NULL };
	char *inside AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	inside = xasprintf("%s/lost+found", w.target);
	paths[3] = inside;
	paths[4] = w.nvme.root;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct volume_stats s = { .total_bytes = 7 };
		struct err err = ERR_INIT;

		ck_assert_msg(node_stats(&w.node, VOLUME_ID, paths[i], &s, &err) == -1, "%s",
		              paths[i]);
		ck_assert_msg(err.code == ERR_NOT_FOUND, "%s: %s", err_code_name(err.code),
		              err.msg);
		ck_assert_uint_eq(s.total_bytes, 7);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_whose_device_has_gone_says_so)
{
	static const char *const types[] = { "ext4", "btrfs", NULL };
	struct volume_stats s;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	nvme_world_hide(&w.nvme, disk);
	ck_assert_int_eq(node_stats(&w.node, VOLUME_ID, w.target, &s, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "no longer exists: it was detached while in use") != NULL,
	              "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

static _Atomic bool hangs;
static int hang(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	while (hangs)
		usleep(10000);
	errno = EIO;
	return -1;
}

START_TEST(a_hung_filesystem_answers_within_seconds_and_others_go_on)
{
	struct volume_stats s;
	struct err err = ERR_INIT;
	struct deadline d = soon();
	int rc;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	hangs = true;
	guard_set_statvfs(w.node.guard, hang);
	ck_assert_int_eq(node_stats(&w.node, VOLUME_ID, w.target, &s, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "its device hangs") != NULL, "%s", err.msg);
	/*
	 * During the hang: returns at once. A thousand waiting calls would exceed the test's time
	 * limit.
	 */
	for (int i = 0; i < 1000; i++) {
		err_clear(&err);
		ck_assert_int_eq(node_stats(&w.node, VOLUME_ID, w.staging, &s, &err), -1);
	}
	hangs = false;
	guard_set_statvfs(w.node.guard, NULL);
	/* Once the hanging probe has ended. */
	do {
		err_clear(&err);
		rc = node_stats(&w.node, VOLUME_ID, w.target, &s, &err);
	} while (rc && !deadline_passed(d));
	ck_assert_msg(rc == 0, "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

/* ---- concurrently with unpublish and unstage ---- */

static atomic_bool looking, enough;

/* A probe that keeps its path open for a third of a second. */
static int look_slowly(const char *path, struct statvfs *ret)
{
	int fd AUTO(fd) = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	looking = fd >= 0;
	usleep(300000);
	return fstatvfs(fd, ret);
}

static void *measure_once(void *arg)
{
	struct volume_stats s;
	struct err ignored = ERR_INIT; /* it may be unpublished at this moment */

	IGNORE_RESULT(node_stats(&w.node, VOLUME_ID, arg, &s, &ignored));
	return NULL;
}

static void *measure_for_ever(void *arg)
{
	while (!enough)
		measure_once(arg);
	return NULL;
}

static pthread_t begin_to_measure(void *(*how)(void *), char *path)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, how, path), 0);
	return thread;
}

START_TEST(a_look_through_the_target_keeps_no_unpublish_waiting)
{
	struct err err = ERR_INIT;
	pthread_t thread;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	guard_set_statvfs(w.node.guard, look_slowly);
	thread = begin_to_measure(measure_once, w.target);
	while (!looking)
		usleep(1000);
	/* At once: the probe used the staging path. */
	ck_assert_int_eq(umount2(w.target, UMOUNT_NOFOLLOW), 0);
	ck_assert_msg(node_unpublish(&w.node, VOLUME_ID, w.target, &err) == 0, "%s", err.msg);
	/* The staging path is busy until the probe ends, and the unstage retries until then. */
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	pthread_join(thread, NULL);
	node_world_clear(&w);
}
END_TEST

START_TEST(statistics_in_a_loop_disturb_neither_publish_nor_unpublish)
{
	struct publish_request p;
	pthread_t threads[2];

	SKIP_UNLESS_LOOP();
	begin("ext4");
	p = publish_request(&w, w.target, "ext4", MODE_SINGLE_NODE_WRITER);
	threads[0] = begin_to_measure(measure_for_ever, w.target);
	threads[1] = begin_to_measure(measure_for_ever, w.staging);
	for (int i = 0; i < 200; i++) {
		struct err err = ERR_INIT;

		ck_assert_msg(node_unpublish(&w.node, VOLUME_ID, w.target, &err) == 0, "%d: %s", i,
		              err.msg);
		node_world_publish(&w, &p);
	}
	enough = true;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("stats", 60, LOOP(a_filesystem_by_staging_and_by_publish_path, 3),
              raw_block_by_staging_and_by_publish_path,
              a_root_that_may_not_be_listed_does_not_hide_the_numbers,
              where_nothing_is_mounted_nothing_is_measured,
              LOOP(a_volume_whose_device_has_gone_says_so, 3),
              a_hung_filesystem_answers_within_seconds_and_others_go_on,
              a_look_through_the_target_keeps_no_unpublish_waiting,
              statistics_in_a_loop_disturb_neither_publish_nor_unpublish);
