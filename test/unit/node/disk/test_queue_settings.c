/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a disk's request queue: from stage to unstage, across restarts, and refusals. */
#include "test/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/disk/queue_settings.h"
#include "node/host/recover.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define BEFORE "[none] mq-deadline 1023 128 1"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
	node_world_restart(&w, true); /* a later restart is in this boot */
}

static void queue_is(const char *wanted)
{
	static const char *const names[] = { "scheduler", "nr_requests", "read_ahead_kb",
		                             "rq_affinity" };
	struct str all AUTO(str_clear) = STR_INIT(200);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path AUTO(free) = xasprintf("%s/queue/%s", disk->dir, names[i]);
		char *text AUTO(free) = NULL;
		struct err err = ERR_INIT;

		ck_assert_msg(file_read_line(path, 100, &text, &err) == 0, "%s", err.msg);
		str_addf(&all, "%s%s", i ? " " : "", text);
	}
	ck_assert_str_eq(all.ptr, wanted);
}

static bool is_recorded(void)
{
	char *path AUTO(free) = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_SETTINGS);

	return path_exists(path);
}

/* NULL: not given. */
static struct volume_params params(const char *scheduler, const char *requests,
                                   const char *read_ahead, const char *affinity)
{
	const char *const given[] = { scheduler, requests, read_ahead, affinity };
	struct volume_params p = { .format_policy = FORMAT_BLANK };

	for (size_t i = 0; i < QUEUE_SETTINGS; i++)
		snprintf(p.settings[i], sizeof(p.settings[i]), "%s", given[i] ? given[i] : "");
	return p;
}

static int try_stage(const char *fs_type, struct volume_params p, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	r.params = p;
	return node_stage(&w.node, &r, soon(), err);
}

static void stage_with(const char *fs_type, struct volume_params p)
{
	struct err err = ERR_INIT;

	ck_assert_msg(try_stage(fs_type, p, &err) == 0, "%s", err.msg);
}

static void unstage(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert(!is_recorded());
}

static const struct {
	const char *fs_type;
	bool restart;
} life_rows[] = { { "ext4", false }, { NULL, false }, { "ext4", true }, { NULL, true } };

START_TEST(settings_last_from_stage_to_unstage)
{
	SKIP_UNLESS_LOOP();
	begin();
	for (int again = 0; again < 2; again++) {
		stage_with(life_rows[_i].fs_type, params("mq-deadline", "64", "4096", "2"));
		queue_is("none [mq-deadline] 64 4096 2");
		stage_with(life_rows[_i].fs_type, params("mq-deadline", "64", "4096", "2"));
		ck_assert(is_recorded());
		if (life_rows[_i].restart)
			node_world_restart(&w, true);
		unstage();
		queue_is(BEFORE);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(without_settings_nothing_is_written_or_recorded)
{
	char *folder AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage_with("ext4", params(NULL, NULL, NULL, NULL));
	folder = xasprintf("%s/settings", w.plugin_dir);
	ck_assert(!path_exists(folder));
	nvme_world_attr(disk, "queue/read_ahead_kb", "256"); /* an administrator's */
	unstage();
	queue_is("[none] mq-deadline 1023 256 1");
	node_world_clear(&w);
}
END_TEST

START_TEST(a_setting_that_is_not_given_stays_as_it_is)
{
	SKIP_UNLESS_LOOP();
	begin();
	stage_with("ext4", params(NULL, NULL, "0", NULL));
	queue_is("[none] mq-deadline 1023 0 1");
	nvme_world_attr(disk, "queue/rq_affinity", "2");
	unstage();
	queue_is("[none] mq-deadline 1023 128 2");
	node_world_clear(&w);
}
END_TEST

/* The kernel sets its own default of nr_requests when the scheduler changes. */
START_TEST(a_change_of_the_scheduler_loses_no_number_of_requests)
{
	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_attr(disk, "queue/nr_requests", "500");
	stage_with(NULL, params("mq-deadline", NULL, NULL, NULL));
	queue_is("none [mq-deadline] 256 128 1");
	unstage();
	queue_is("[none] mq-deadline 500 128 1");
	node_world_clear(&w);
}
END_TEST

/*
 * A driver that was killed between two settings: its new values are not recorded as the old ones.
 */
START_TEST(a_repeated_stage_keeps_the_first_record)
{
	const struct volume_params p = params("mq-deadline", "64", NULL, "0");
	struct device dev;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	ck_assert_int_eq(queue_settings_write(&w.node, VOLUME_ID, &dev, &p, &err), 0);
	node_world_restart(&w, true);
	stage_with("ext4", p);
	queue_is("none [mq-deadline] 64 128 0");
	unstage();
	queue_is(BEFORE);
	/* The volume was never mounted: its unstage restores them as well. */
	ck_assert_int_eq(queue_settings_write(&w.node, VOLUME_ID, &dev, &p, &err), 0);
	unstage();
	queue_is(BEFORE);
	node_world_clear(&w);
}
END_TEST

static const struct {
	const char *scheduler, *requests, *removed, *text;
} refused_rows[] = {
	{ "bfq", "64", NULL, "the kernel rejected csi.snap.nvidia.com/ioScheduler \"bfq\" (" },
	{ "mq-deadline", "4096", NULL,
	  "the kernel rejected csi.snap.nvidia.com/nrRequests \"4096\" (" },
	{ "mq-deadline", NULL, "scheduler", "; next: leave csi.snap.nvidia.com/ioScheduler out" },
};

START_TEST(a_setting_that_the_kernel_refuses_refuses_the_stage)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	if (refused_rows[_i].removed)
		run_tool("rm %s/queue/%s", disk->dir, refused_rows[_i].removed);
	ck_assert_int_eq(try_stage("ext4",
	                           params(refused_rows[_i].scheduler, refused_rows[_i].requests,
	                                  "4096", NULL),
	                           &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, refused_rows[_i].text) != NULL, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	ck_assert(!is_recorded());
	if (!refused_rows[_i].removed)
		queue_is(BEFORE);
	node_world_clear(&w);
}
END_TEST

static int write_nothing(void *arg, const char *path, const char *text)
{
	(void)arg;
	(void)path;
	(void)text;
	return 0;
}

/* Some kernels accept a value and use another one: pages of 64 KiB, drivers with one queue. */
START_TEST(a_setting_that_reads_back_as_another_refuses_the_stage)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	w.nvme.writer.write = write_nothing;
	ck_assert_int_eq(try_stage(NULL, params(NULL, NULL, "4", NULL), &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, "no error; current value \"128\"") != NULL, "%s", err.msg);
	ck_assert(!is_recorded());
	node_world_clear(&w);
}
END_TEST

static int refuse_write(void *arg, const char *path, const char *text)
{
	(void)arg;
	(void)path;
	(void)text;
	return EBUSY;
}

/* A setting must not delay the user of the volume. */
START_TEST(a_setting_that_cannot_be_restored_keeps_no_volume_staged)
{
	SKIP_UNLESS_LOOP();
	begin();
	stage_with(NULL, params(NULL, NULL, "4", "2"));
	w.nvme.writer.write = refuse_write;
	unstage();
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	queue_is("[none] mq-deadline 1023 4 2");
	node_world_clear(&w);
}
END_TEST

/* A driver that was killed while it wrote the record has changed no setting yet. */
START_TEST(a_record_that_is_cut_is_written_again)
{
	const char *const cuts[] = { ": >", "sed -i /read_ahead/d", "truncate -s -1" };

	SKIP_UNLESS_LOOP();
	begin();
	stage_with(NULL, params(NULL, NULL, "128", NULL)); /* its present value */
	run_tool("umount %s && %s %s/settings/*", w.block_file, cuts[_i], w.plugin_dir);
	stage_with(NULL, params(NULL, NULL, "4096", NULL));
	queue_is("[none] mq-deadline 1023 4096 1");
	unstage();
	queue_is(BEFORE);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_record_that_cannot_be_read_refuses_the_stage)
{
	char *path AUTO(free) = NULL;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	path = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_SETTINGS);
	run_tool("mkdir -p %s", path);
	ck_assert_int_eq(try_stage(NULL, params(NULL, NULL, "4", NULL), &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	queue_is(BEFORE);
	err_clear(&err);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	node_world_clear(&w);
}
END_TEST

/*
 * The number now belongs to another disk, or the same disk was attached again: it has its own
 * settings.
 */
START_TEST(settings_are_restored_to_no_other_disk)
{
	const struct volume_params p = params(NULL, NULL, "4", NULL);
	struct device dev;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	ck_assert_int_eq(queue_settings_write(&w.node, VOLUME_ID, &dev, &p, &err), 0);
	nvme_world_attr(disk, "diskseq", "123456789");
	queue_settings_restore(&w.node, VOLUME_ID);
	queue_is("[none] mq-deadline 1023 4 1");
	ck_assert(!is_recorded());
	node_world_clear(&w);
}
END_TEST

START_TEST(a_start_after_a_reboot_removes_the_record)
{
	const struct volume_params p = params(NULL, NULL, "4", NULL);
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct device dev;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	ck_assert_int_eq(queue_settings_write(&w.node, VOLUME_ID, &dev, &p, &err), 0);
	ck_assert_int_eq(node_recover_records(&w.node, &did, &unfinished, &err), 0);
	ck_assert(is_recorded());
	run_tool("sed -i s/^boot=.*/boot=another/ %s/settings/*", w.plugin_dir);
	ck_assert_int_eq(node_recover_records(&w.node, &did, &unfinished, &err), 0);
	ck_assert(!is_recorded());
	ck_assert_msg(strstr(did.ptr, "settings record ") != NULL, "%s", did.ptr);
	node_world_clear(&w);
}
END_TEST

SUITE("queue_settings", LOOP(settings_last_from_stage_to_unstage, ARRAY_LEN(life_rows)),
      without_settings_nothing_is_written_or_recorded, a_setting_that_is_not_given_stays_as_it_is,
      a_change_of_the_scheduler_loses_no_number_of_requests,
      a_repeated_stage_keeps_the_first_record,
      LOOP(a_setting_that_the_kernel_refuses_refuses_the_stage, ARRAY_LEN(refused_rows)),
      a_setting_that_reads_back_as_another_refuses_the_stage,
      a_setting_that_cannot_be_restored_keeps_no_volume_staged,
      LOOP(a_record_that_is_cut_is_written_again, 3),
      a_record_that_cannot_be_read_refuses_the_stage, settings_are_restored_to_no_other_disk,
      a_start_after_a_reboot_removes_the_record);
