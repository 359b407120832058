/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a disk that is being let go: which disk it is believed to be about. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/work/leaving.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(void)
{
	struct err err = ERR_INIT;
	struct leaving l = { .fs = makedev(0, 77) };

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 16 * MIB);
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &l.dev, &err), 0);
	ck_assert_msg(leaving_write(&w.node, VOLUME_ID, &l, &err) == 0, "%s", err.msg);
}

static int read_of(const char *volume_id, struct leaving *l)
{
	struct err err = ERR_INIT;
	int rc = leaving_read(&w.node, volume_id, l, &err);

	ck_assert_msg(rc >= 0, "%s", err.msg);
	return rc;
}

START_TEST(what_was_written_is_read_until_it_is_removed)
{
	struct leaving l;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(read_of(VOLUME_ID, &l), 0);
	ck_assert(l.dev.devno == disk->devno && l.fs == makedev(0, 77));
	ck_assert_str_eq(l.dev.uuid, UUID);
	ck_assert_int_eq(read_of("pvc-2", &l), LEAVING_NONE);
	ck_assert_int_eq(leaving_remove(&w.node, VOLUME_ID, &err), 0);
	ck_assert_int_eq(read_of(VOLUME_ID, &l), LEAVING_NONE);
	ck_assert_int_eq(leaving_remove(&w.node, VOLUME_ID, &err), 0);
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
		struct leaving l;

		begin();
		changed(rows[i].sed);
		ck_assert_msg(read_of(VOLUME_ID, &l) == LEAVING_NONE, "%s", rows[i].what);
		node_world_clear(&w);
	}
}
END_TEST

START_TEST(a_disk_that_has_gone_is_left)
{
	struct leaving l;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_hide(&w.nvme, disk);
	ck_assert_int_eq(read_of(VOLUME_ID, &l), LEAVING_NONE);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_record_that_cannot_be_written_or_read_is_an_error)
{
	struct leaving l = { .fs = 1 };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("cd %s/unstaging && f=$(ls) && rm $f && mkdir $f", w.plugin_dir);
	ck_assert_int_eq(leaving_read(&w.node, VOLUME_ID, &l, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	w.node.o.plugin_dir = "/proc/nowhere";
	ck_assert_int_eq(leaving_write(&w.node, VOLUME_ID, &l, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE &&
	                      strstr(err.msg, "record of its disk cannot be written") != NULL,
	              "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

START_TEST(records_of_other_boots_are_removed_at_the_start)
{
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct err err = ERR_INIT;
	struct leaving l;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("cd %s/unstaging && sed 's/^boot=.*/boot=that-boot/' * > other && echo > half.tmp",
	         w.plugin_dir);
	ck_assert_int_eq(leaving_remove_outdated(&w.node, &did, &err), 0);
	ck_assert_str_eq(did.ptr, "unstaging record half.tmp, unstaging record other");
	ck_assert_int_eq(read_of(VOLUME_ID, &l), 0);
	str_reset(&did);
	ck_assert_int_eq(leaving_remove_outdated(&w.node, &did, &err), 0);
	ck_assert_uint_eq(did.len, 0);
	run_tool("rm -r %s/unstaging", w.plugin_dir);
	ck_assert_int_eq(leaving_remove_outdated(&w.node, &did, &err), 0);
	node_world_clear(&w);
}
END_TEST

static void not_known(int rc, struct err *err)
{
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(err->code == ERR_UNAVAILABLE &&
	                      strstr(err->msg, "the boot's id cannot be read"),
	              "%s", err->msg);
	err_clear(err);
}

/* Which boot this is may be not known for lack of a descriptor. */
START_TEST(a_boot_that_cannot_be_named_is_not_taken_for_another_one)
{
	struct str did AUTO(str_clear) = STR_INIT(500);
	struct leaving l;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	node_world_restart(&w, false);
	not_known(leaving_read(&w.node, VOLUME_ID, &l, &err), &err);
	ck_assert_int_eq(read_of("pvc-2", &l), LEAVING_NONE);
	ck_assert_int_eq(leaving_remove_outdated(&w.node, &did, &err), 0);
	ck_assert_str_eq(did.ptr, "");
	node_world_tell_boot(&w);
	ck_assert_int_eq(read_of(VOLUME_ID, &l), 0);
	node_world_restart(&w, false);
	not_known(leaving_write(&w.node, "pvc-2", &l, &err), &err);
	node_world_tell_boot(&w);
	ck_assert_int_eq(read_of("pvc-2", &l), LEAVING_NONE);
	/* A driver that has read it once does not ask again. */
	node_world_restart(&w, true);
	run_tool("rm -r %s/proc/sys", w.nvme.root);
	ck_assert_int_eq(read_of(VOLUME_ID, &l), 0);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("leaving", 60, what_was_written_is_read_until_it_is_removed,
              another_disk_or_boot_is_not_what_it_is_about, a_disk_that_has_gone_is_left,
              a_record_that_cannot_be_written_or_read_is_an_error,
              records_of_other_boots_are_removed_at_the_start,
              a_boot_that_cannot_be_named_is_not_taken_for_another_one);
