/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a disk that is being unstaged: the disk that it matches. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/work/disk_record.h"
#include "node/host/recover.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

struct found {
	struct device dev;
	dev_t fs;
};

static int write_of(const char *volume_id, const struct found *f, struct err *err)
{
	return disk_record_put_unstage(&w.node,
	                               &(struct disk_record) { .volume_id = volume_id,
	                                                       .dev = &f->dev,
	                                                       .diskseq = f->dev.diskseq,
	                                                       .fs = f->fs },
	                               err);
}

static int try_read(const char *volume_id, struct found *f, struct err *err)
{
	return disk_record_read(&w.node, volume_id, DISK_RECORD_UNSTAGE, &f->dev, &f->fs, err);
}

/* The node's start. */
static void tidy(const char *removed)
{
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct err err = ERR_INIT;

	ck_assert_msg(node_recover_records(&w.node, &did, &unfinished, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(did.len ? did.ptr : "", removed);
	ck_assert_uint_eq(unfinished.n, 0);
}

static void begin(void)
{
	struct err err = ERR_INIT;
	struct found f = { .fs = makedev(0, 77) };

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 16 * MIB);
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &f.dev, &err), 0);
	ck_assert_msg(write_of(VOLUME_ID, &f, &err) == 0, "%s", err.msg);
}

static int read_of(const char *volume_id, struct found *f)
{
	struct err err = ERR_INIT;
	int rc = try_read(volume_id, f, &err);

	ck_assert_msg(rc >= 0, "%s", err.msg);
	return rc;
}

START_TEST(what_was_written_is_read_until_it_is_removed)
{
	struct found f;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(read_of(VOLUME_ID, &f), 0);
	ck_assert(f.dev.devno == disk->devno && f.fs == makedev(0, 77));
	ck_assert_str_eq(f.dev.uuid, UUID);
	ck_assert_int_eq(read_of("pvc-2", &f), DISK_RECORD_ABSENT);
	ck_assert_int_eq(disk_record_remove_unstage(&w.node, VOLUME_ID, &err), 0);
	ck_assert_int_eq(read_of(VOLUME_ID, &f), DISK_RECORD_ABSENT);
	ck_assert_int_eq(disk_record_remove_unstage(&w.node, VOLUME_ID, &err), 0);
	node_world_clear(&w);
}
END_TEST

static void changed(const char *sed)
{
	run_tool("sed -i '%s' %s/unstaging/*", sed, w.plugin_dir);
}

START_TEST(another_disk_or_boot_is_not_what_it_is_about)
{
	static const struct {
		const char *what, *sed;
	} rows[] = {
		{ "another volume", "s/^volume=.*/volume=pvc-9/" },
		{ "another boot", "s/^boot=.*/boot=that-boot/" },
		{ "another disk with this number", "s/^diskseq=.*/diskseq=1/" },
		{ "another UUID", "s/^uuid=.*/uuid=2/" },
		{ "another namespace id", "s/^nsid=.*/nsid=9/" },
		{ "a number that no disk has", "s/^device=[0-9:]*/device=999:1/" },
		{ "half a record", "2,$d" },
		{ "garbage", "s/device//" },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct found f;

		begin();
		changed(rows[i].sed);
		ck_assert_msg(read_of(VOLUME_ID, &f) == DISK_RECORD_ABSENT, "%s", rows[i].what);
		node_world_clear(&w);
	}
}
END_TEST

START_TEST(a_disk_that_has_gone_is_left)
{
	struct found f;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_hide(&w.nvme, disk);
	ck_assert_int_eq(read_of(VOLUME_ID, &f), DISK_RECORD_ABSENT);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_record_that_cannot_be_written_or_read_is_an_error)
{
	struct found f = { .fs = 1 };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("cd %s/unstaging && f=$(ls) && rm $f && mkdir $f", w.plugin_dir);
	ck_assert_int_eq(try_read(VOLUME_ID, &f, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	w.node.o.plugin_dir = "/proc/nowhere";
	ck_assert_int_eq(write_of(VOLUME_ID, &f, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE &&
	                      strstr(err.msg, "record of its disk cannot be written") != NULL,
	              "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

START_TEST(records_of_other_boots_are_removed_at_the_start)
{
	struct found f;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("cd %s/unstaging && sed 's/^boot=.*/boot=that-boot/' * > other && echo > half.tmp",
	         w.plugin_dir);
	tidy("unstaging record half.tmp, unstaging record other");
	ck_assert_int_eq(read_of(VOLUME_ID, &f), 0);
	tidy("");
	run_tool("rm -r %s/unstaging", w.plugin_dir);
	tidy("");
	node_world_clear(&w);
}
END_TEST

static void not_known(int rc, struct err *err)
{
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(err->code == ERR_UNAVAILABLE && strstr(err->msg, "cannot read the boot ID"),
	              "%s", err->msg);
	err_clear(err);
}

/* The boot may be unknown for lack of a descriptor. */
START_TEST(a_boot_that_cannot_be_named_is_not_taken_for_another_one)
{
	struct found f;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	node_world_restart(&w, false);
	not_known(try_read(VOLUME_ID, &f, &err), &err);
	ck_assert_int_eq(read_of("pvc-2", &f), DISK_RECORD_ABSENT);
	tidy("");
	node_world_tell_boot(&w);
	ck_assert_int_eq(read_of(VOLUME_ID, &f), 0);
	node_world_restart(&w, false);
	not_known(write_of("pvc-2", &f, &err), &err);
	node_world_tell_boot(&w);
	ck_assert_int_eq(read_of("pvc-2", &f), DISK_RECORD_ABSENT);
	/* A driver that has read it once does not read it again. */
	node_world_restart(&w, true);
	run_tool("rm -r %s/proc/sys", w.nvme.root);
	ck_assert_int_eq(read_of(VOLUME_ID, &f), 0);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("disk_record_unstage", 60, what_was_written_is_read_until_it_is_removed,
              another_disk_or_boot_is_not_what_it_is_about, a_disk_that_has_gone_is_left,
              a_record_that_cannot_be_written_or_read_is_an_error,
              records_of_other_boots_are_removed_at_the_start,
              a_boot_that_cannot_be_named_is_not_taken_for_another_one);
