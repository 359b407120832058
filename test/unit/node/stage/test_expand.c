/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth by staging and by publish path, of filesystems and raw block, and volumes that cannot
 * grow.
 */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "node/target/guard.h"
#include "test/lib/fs_state.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;
static struct nvme_disk *disk;

static void publish(const char *target, const char *fs_type, bool read_only)
{
	struct publish_request p = publish_request(&w, target, fs_type, MODE_SINGLE_NODE_WRITER);

	p.read_only = read_only;
	node_world_publish(&w, &p);
}

static void begin(const char *fs_type)
{
	struct stage_request s;

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", 320 * MIB);
	s = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &s);
	publish(w.target, fs_type, false);
}

static void expand_ok(const char *path, uint64_t required, uint64_t want)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .path = path, .required = required };
	struct err err = ERR_INIT;
	uint64_t bytes = 0;

	ck_assert_msg(node_expand(&w.node, &r, soon(), &bytes, &err) == 0, "%s: %s", path, err.msg);
	ck_assert_uint_eq(bytes, want);
}

static uint64_t filesystem_size(const char *path)
{
	struct volume_stats s;
	struct err err = ERR_INIT;

	ck_assert_msg(node_stats(&w.node, VOLUME_ID, path, &s, &err) == 0, "%s", err.msg);
	return s.total_bytes;
}

START_TEST(a_filesystem_follows_its_device)
{
	static const char *const types[] = { "xfs", "btrfs" };

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	expand_ok(w.target, 0, 320 * MIB); /* nothing to do */
	nvme_world_resize(disk, 640 * MIB);
	expand_ok(w.target, 640 * MIB, 640 * MIB);
	ck_assert_uint_gt(filesystem_size(w.target), 550 * MIB);
	expand_ok(w.target, 640 * MIB, 640 * MIB); /* again */
	nvme_world_resize(disk, 800 * MIB);
	expand_ok(w.staging, 700 * MIB, 800 * MIB);
	ck_assert_uint_gt(filesystem_size(w.staging), 700 * MIB);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_read_only_publish_grows_through_the_staging_mount)
{
	SKIP_UNLESS_LOOP();
	begin("xfs");
	publish(w.other_target, "xfs", true);
	nvme_world_resize(disk, 640 * MIB);
	expand_ok(w.other_target, 640 * MIB, 640 * MIB);
	ck_assert_uint_gt(filesystem_size(w.target), 550 * MIB);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_that_the_kernel_made_read_only_says_so)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .required = 640 * MIB };
	struct err err = ERR_INIT;
	uint64_t bytes = 0;

	SKIP_UNLESS_LOOP();
	begin("xfs");
	nvme_world_resize(disk, 640 * MIB);
	/* As errors=remount-ro does: the superblock is read-only, not the mount points. */
	run_tool("mount -i -o remount,ro -t xfs %s %s && mount -i -o remount,bind,rw %s",
	         disk->loop, w.staging, w.staging);
	r.path = w.target;
	ck_assert_int_eq(node_expand(&w.node, &r, soon(), &bytes, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "was made read-only by"),
	              "%s: %s", err_code_name(err.code), err.msg);
	run_tool("mount -i -o remount,rw -t xfs %s %s", disk->loop, w.staging);
	expand_ok(w.target, 640 * MIB, 640 * MIB);
	ck_assert_uint_gt(filesystem_size(w.target), 550 * MIB);
	node_world_clear(&w);
}
END_TEST

/* Needs CAP_SYS_RESOURCE; without it the error has the tool's own text. */
START_TEST(ext4_grows_or_says_why_not)
{
	struct expand_request r = { .volume_id = VOLUME_ID, .required = 640 * MIB };
	struct err err = ERR_INIT;
	uint64_t bytes = 0;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	expand_ok(w.target, 0, 320 * MIB);
	nvme_world_resize(disk, 640 * MIB);
	r.path = w.target;
	if (node_expand(&w.node, &r, soon(), &bytes, &err) == 0) {
		ck_assert_uint_gt(filesystem_size(w.target), 550 * MIB);
	} else {
		ck_assert_int_eq(err.code, ERR_INTERNAL);
		ck_assert_msg(strstr(err.msg, "resize2fs of ") &&
		                      strstr(err.msg, "Permission denied"),
		              "%s", err.msg);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_has_grown_with_its_device)
{
	SKIP_UNLESS_LOOP();
	begin(NULL);
	nvme_world_resize(disk, 640 * MIB);
	expand_ok(w.target, 640 * MIB, 640 * MIB);
	expand_ok(w.staging, 640 * MIB, 640 * MIB);
	expand_ok(w.block_file, 640 * MIB, 640 * MIB);
	node_world_clear(&w);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
	static const struct volume_cap block = { .type = ACCESS_BLOCK,
		                                 .mode = MODE_SINGLE_NODE_WRITER };
	static const struct {
		const char *what;
		uint64_t required, limit;
		const struct volume_cap *cap;
		const char *path; /* NULL: the target */
		enum err_code code;
		const char *text;
	} rows[] = {
		{ "more than the device", 640 * MIB, 0, NULL, NULL, ERR_RANGE,
		  "640.0 MiB (671088640 bytes) requested, but its device " },
		{ "both sizes are named", 640 * MIB, 0, NULL, NULL, ERR_RANGE,
		  "has 320.0 MiB (335544320 bytes)" },
		{ "less than the device", 1, 100 * MIB, NULL, NULL, ERR_RANGE,
		  "at most 100.0 MiB (104857600 bytes) requested" },
		{ "the wrong type", 0, 0, &block, NULL, ERR_INVALID, "is for block" },
		{ "no volume there", 0, 0, NULL, "some/path", ERR_NOT_FOUND,
		  "no volume is staged" },
	};

	SKIP_UNLESS_LOOP();
	begin("xfs");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct expand_request r = { .volume_id = VOLUME_ID,
			                    .path = rows[i].path ? rows[i].path : w.target,
			                    .required = rows[i].required,
			                    .limit = rows[i].limit,
			                    .cap = rows[i].cap };
		struct err err = ERR_INIT;
		uint64_t bytes = 7;

		ck_assert_msg(node_expand(&w.node, &r, soon(), &bytes, &err) == -1, "%s",
		              rows[i].what);
		ck_assert_msg(err.code == rows[i].code && strstr(err.msg, rows[i].text),
		              "%s: %s: %s", rows[i].what, err_code_name(err.code), err.msg);
		ck_assert_uint_eq(bytes, 7);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_whose_device_has_gone_does_not_grow)
{
	struct expand_request r = { .volume_id = VOLUME_ID };
	struct err err = ERR_INIT;
	uint64_t bytes;

	SKIP_UNLESS_LOOP();
	begin("xfs");
	nvme_world_hide(&w.nvme, disk);
	r.path = w.target;
	ck_assert_int_eq(node_expand(&w.node, &r, soon(), &bytes, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_frozen_filesystem_grows_once_it_is_thawed)
{
	static const char *const types[] = { "xfs", "btrfs" };
	struct expand_request r = { .volume_id = VOLUME_ID, .required = 640 * MIB };
	struct err err = ERR_INIT;
	uint64_t bytes = 0;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	nvme_world_resize(disk, 640 * MIB);
	r.path = w.target;
	fs_state_set(FS_STATE_FROZEN, types[_i], disk->loop, w.staging);
	w.node.o.tuning.guard_ms = 1000;
	ck_assert_int_eq(node_expand(&w.node, &r, soon(), &bytes, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "fsfreeze -u "), "%s: %s",
	              err_code_name(err.code), err.msg);
	fs_state_thaw(w.staging, w.node.guard, disk->devno);
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	expand_ok(w.target, 640 * MIB, 640 * MIB);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("expand", 60, LOOP(a_frozen_filesystem_grows_once_it_is_thawed, 2),
              LOOP(a_filesystem_follows_its_device, 2),
              a_read_only_publish_grows_through_the_staging_mount,
              a_filesystem_that_the_kernel_made_read_only_says_so, ext4_grows_or_says_why_not,
              raw_block_has_grown_with_its_device, what_does_not_fit_is_refused,
              a_volume_whose_device_has_gone_does_not_grow);
