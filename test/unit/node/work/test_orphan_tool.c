/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver on the host is killed while its mkfs or e2fsck works, but the tool is not. The tool
 * continues; until it has ended, the next driver neither stages the volume nor reports it as
 * unstaged.
 */
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/work/disk_record.h"
#include "node/mount/mount.h"
#include "node/work/orphan_tool.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

static const struct {
	const char *fs_type, *tool;
	bool check;
} kinds[] = {
	{ "ext4", "mkfs.ext4", false },
	{ "xfs", "mkfs.xfs", false },
	{ "btrfs", "mkfs.btrfs", false },
	{ "ext4", "e2fsck", true },
};

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
}

/* A tool that counts concurrent runs, until <root>/go exists. */
static void slow_tool(const char *name)
{
	static char dir[256];

	snprintf(dir, sizeof(dir), "%s/tools", w.nvme.root);
	run_tool("mkdir -p %s && cd %s && printf '#!/bin/sh\\n"
	         "test -e %s/busy && touch %s/two\\ntouch %s/busy\\n"
	         "until test -e %s/go; do sleep 0.05; done\\n/sbin/%s \"$@\"\\nrc=$?\\n"
	         "rm %s/busy\\nexit $rc\\n' > %s && chmod +x %s",
	         dir, dir, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, name, w.nvme.root,
	         name, name);
	spawn_set_path(dir);
}

static bool there(const char *name)
{
	char *path AUTO(free) = xasprintf("%s/%s", w.nvme.root, name);

	return path_exists(path);
}

static int stage(const char *fs_type, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	err_clear(err);
	return node_stage(&w.node, &r, soon(), err);
}

static int unstage(struct err *err)
{
	err_clear(err);
	return node_unstage(&w.node, VOLUME_ID, w.staging, soon(), err);
}

/* The driver is another process, and gets SIGKILL once its tool runs. */
static void kill_driver_during(const char *fs_type)
{
	pid_t driver = fork();
	struct err err = ERR_INIT;

	if (driver == 0)
		_exit(stage(fs_type, &err) ? 1 : 0);
	WAIT_UNTIL(there("busy"));
	ck_assert_int_eq(kill(driver, SIGKILL), 0);
	ck_assert_int_eq(waitpid(driver, NULL, 0), driver);
}

static void aborted(int rc, const struct err *err, const char *tool)
{
	ck_assert_msg(rc == -1 && err->code == ERR_ABORTED, "%s: %s", err_code_name(err->code),
	              err->msg);
	ck_assert_msg(strstr(err->msg, "still runs (pid ") && strstr(err->msg, tool), "%s",
	              err->msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
}

START_TEST(a_volume_whose_tool_outlived_the_driver_is_neither_staged_nor_unstaged)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	if (kinds[_i].check)
		run_tool("mkfs.ext4 -q %s && debugfs -w -R 'ssv state 2' %s 2>/dev/null",
		         disk->loop, disk->loop);
	slow_tool(kinds[_i].tool);
	kill_driver_during(kinds[_i].fs_type);
	node_world_impatient(&w);
	for (int again = 0; again < 2; again++) {
		aborted(unstage(&err), &err, kinds[_i].tool);
		aborted(stage(kinds[_i].fs_type, &err), &err, kinds[_i].tool);
	}
	node_world_patient(&w);
	run_tool("touch %s/go", w.nvme.root);
	WAIT_UNTIL(!there("busy"));
	/* The lock ends with the tool's last process, a moment later. */
	WAIT_UNTIL(unstage(&err) == 0);
	ck_assert_msg(stage(kinds[_i].fs_type, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.staging), 1);
	ck_assert_msg(!there("two"), "two %s at once", kinds[_i].tool);
	ck_assert_msg(unstage(&err) == 0, "%s", err.msg);
	spawn_set_path(NULL);
	node_world_clear(&w);
}
END_TEST

/*
 * The disk that a record leads to. If it differs from this disk, it says nothing about this volume.
 */
START_TEST(a_record_leads_to_its_own_disk_only)
{
	static const struct {
		const char *what, *sed;
		bool leads;
	} rows[] = {
		{ "as it was written", "", true },
		{ "of another boot", "s/^boot=.*/boot=that-boot/", false },
		{ "another disk with this number", "s/^diskseq=.*/diskseq=1/", false },
		{ "another UUID", "s/^uuid=.*/uuid=2/", false },
		{ "another namespace id", "s/^nsid=.*/nsid=9/", false },
		{ "a number that no disk has", "s/^device=.*/device=999:1/", false },
		{ "of a driver that wrote no number", "/^device/d", false },
		{ "half of it", "2,$d", false },
	};
	struct disk_record r = { .volume_id = VOLUME_ID, .fs_type = "ext4" };
	struct device dev;
	struct err err = ERR_INIT;
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL;
	int fd;

	SKIP_UNLESS_LOOP();
	begin();
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	r.dev = &dev;
	r.diskseq = dev.diskseq;
	path = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
	ck_assert_int_eq(disk_record_text(&w.node, DISK_RECORD_MKFS, &r, &text, &err), 0);
	fd = open(disk->node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	node_world_impatient(&w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc;

		run_tool("mkdir -p $(dirname %s)", path);
		ck_assert_int_eq(file_replace(path, text, strlen(text), 0600, &err), 0);
		run_tool("sed -i '%s' %s", rows[i].sed, path);
		err_clear(&err);
		rc = orphan_tool_check(&w.node, VOLUME_ID, soon(), &err);
		ck_assert_msg((rc == -1) == rows[i].leads, "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(!rc || err.code == ERR_ABORTED, "%s: %s", rows[i].what, err.msg);
		err_clear(&err);
	}
	node_world_patient(&w);
	close(fd);
	ck_assert_int_eq(file_replace(path, text, strlen(text), 0600, &err), 0);
	ck_assert_int_eq(orphan_tool_check(&w.node, VOLUME_ID, soon(), &err), 0);
	nvme_world_hide(&w.nvme, disk);
	ck_assert_int_eq(orphan_tool_check(&w.node, VOLUME_ID, soon(), &err), 0);
	run_tool("rm %s && mkdir %s", path, path);
	ck_assert_int_eq(orphan_tool_check(&w.node, VOLUME_ID, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, path), "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

/* The driver is started while descriptors are short, and cannot read the boot id. */
START_TEST(a_tool_is_not_passed_over_while_the_boot_is_not_known)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	slow_tool("mkfs.ext4");
	kill_driver_during("ext4");
	node_world_restart(&w, false);
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(unstage(&err), -1);
		ck_assert_msg(err.code == ERR_UNAVAILABLE &&
		                      strstr(err.msg, "cannot read the boot ID"),
		              "%s: %s", err_code_name(err.code), err.msg);
	}
	node_world_tell_boot(&w);
	/* The holder of the lock is invisible in this procfs. */
	node_world_impatient(&w);
	ck_assert_int_eq(unstage(&err), -1);
	node_world_patient(&w);
	ck_assert_msg(err.code == ERR_ABORTED && strstr(err.msg, "still runs"), "%s: %s",
	              err_code_name(err.code), err.msg);
	run_tool("touch %s/go", w.nvme.root);
	WAIT_UNTIL(!there("busy"));
	WAIT_UNTIL(unstage(&err) == 0);
	spawn_set_path(NULL);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("orphan_tool", 60,
              LOOP(a_volume_whose_tool_outlived_the_driver_is_neither_staged_nor_unstaged,
                   ARRAY_LEN(kinds)),
              a_record_leads_to_its_own_disk_only,
              a_tool_is_not_passed_over_while_the_boot_is_not_known);
