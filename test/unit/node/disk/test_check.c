/* SPDX-License-Identifier: Apache-2.0 */
/* A filesystem is checked before it is mounted if its superblock requests that, and only then. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/mount/fsck.h"
#include "node/work/disk_record.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

static struct node_world w;
static struct nvme_disk *disk;
static char *tools;

/* An e2fsck that records each of its runs. */
static void begin(const char *fs_type)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "", str_eq(fs_type, "xfs") ? 320 * MIB : 32 * MIB);
	run_tool("mkfs.%s -q %s", fs_type, disk->loop);
	tools = xasprintf("%s/tools", w.nvme.root);
	run_tool("mkdir %s && printf '#!/bin/sh\necho \"$*\" >> %s/notes\nexec /sbin/e2fsck "
	         "\"$@\"\n' "
	         "> %s/e2fsck && chmod +x %s/e2fsck && touch %s/notes",
	         tools, tools, tools, tools, tools);
	spawn_set_path(tools);
}

static void end(void)
{
	spawn_set_path(NULL);
	free(tools);
	node_world_clear(&w);
}

static void ran(unsigned times)
{
	run_tool("test $(wc -l < %s/notes) = %u", tools, times);
}

static int stage(const char *fs_type, enum access_mode mode, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, mode);

	return node_stage(&w.node, &r, soon(), err);
}

static void debugfs(const char *commands)
{
	run_tool("printf '%s' | debugfs -w -f /dev/stdin %s >/dev/null 2>&1", commands, disk->loop);
}

static struct ext_state state(void)
{
	struct ext_state ret;
	struct err err = ERR_INIT;

	ck_assert_msg(ext_state_read(disk->fd, "disk", &ret, &err) == 0, "%s", err.msg);
	return ret;
}

START_TEST(what_does_not_ask_is_not_checked)
{
	static const char *const types[] = { "ext4", "ext3", "xfs" };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	ck_assert_msg(stage(types[_i], MODE_SINGLE_NODE_WRITER, &err) == 0, "%s", err.msg);
	ran(0);
	end();
}
END_TEST

START_TEST(an_error_flag_is_checked_and_cleared)
{
	static const char *const types[] = { "ext4", "ext3" };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	debugfs("ssv state 3\n");
	ck_assert_msg(stage(types[_i], MODE_SINGLE_NODE_WRITER, &err) == 0, "%s", err.msg);
	ran(1);
	ck_assert(!state().errors);
	end();
}
END_TEST

static char logged[4000];
static void keep_line(void *arg, const char *line)
{
	size_t n = strlen(logged);

	(void)arg;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

START_TEST(the_log_says_what_is_checked_why_and_how_long_it_took)
{
	struct err err = ERR_INIT;
	char began[400], ended[400];
	const char *at;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	debugfs("ssv state 3\n");
	log_redirect(keep_line, NULL);
	ck_assert_msg(stage("ext4", MODE_SINGLE_NODE_WRITER, &err) == 0, "%s", err.msg);
	log_redirect(NULL, NULL);
	snprintf(began, sizeof(began),
	         " checking volume=" VOLUME_ID " device=%s/%s pci=%s fs=ext4 why=\"its error flag",
	         w.nvme.world.dev, disk->name, disk->pci);
	snprintf(ended, sizeof(ended),
	         " checked volume=" VOLUME_ID " device=%s/%s pci=%s fs=ext4 ms=", w.nvme.world.dev,
	         disk->name, disk->pci);
	at = strstr(logged, began);
	ck_assert_msg(at && strstr(at, ended), "%s", logged);
	end();
}
END_TEST

START_TEST(more_damage_than_e2fsck_repairs_unasked_is_left_as_it_is)
{
	char *before AUTO(free) = NULL;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	/* The root directory is a file: -p cannot repair that. */
	debugfs("sif <2> mode 0100644\nssv state 3\n");
	ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, "is damaged (its error flag is set) and is not mounted") &&
	                      strstr(err.msg, "Root inode is not a directory") &&
	                      strstr(err.msg, "by hand, while it is not mounted: e2fsck -f"),
	              "%s", err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	/* The next try does not mount it either, and never formats it. */
	err_clear(&err);
	ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
	ran(2);
	/* The command that the text advises. */
	run_tool("/sbin/e2fsck -fy %s >/dev/null 2>&1; true", disk->loop);
	err_clear(&err);
	ck_assert_msg(stage("ext4", MODE_SINGLE_NODE_WRITER, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

START_TEST(an_interrupted_check_is_begun_anew_and_looks_at_everything)
{
	char *record AUTO(free) = NULL;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_E2FSCK);
	debugfs("ssv state 3\n");
	/* e2fsck clears the flag that requested it, and is killed. */
	run_tool("printf '#!/bin/sh\necho \"$*\" >> %s/notes\necho ssv state 1 | debugfs -w -f "
	         "/dev/stdin %s >/dev/null 2>&1\ncp %s %s/record\nkill -9 $$\n' > %s/e2fsck",
	         tools, disk->loop, record, tools, tools);
	ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_int_eq(err.code, ERR_INTERNAL);
	ck_assert(!state().errors && path_exists(record));
	run_tool("grep -qx volume=" VOLUME_ID " %s/record", tools);
	run_tool("printf '#!/bin/sh\necho \"$*\" >> %s/notes\nexec /sbin/e2fsck \"$@\"\n' > "
	         "%s/e2fsck",
	         tools, tools);
	err_clear(&err);
	ck_assert_msg(stage("ext4", MODE_SINGLE_NODE_WRITER, &err) == 0, "%s", err.msg);
	ran(2);
	run_tool("tail -n 1 %s/notes | grep -q '^-p -f '", tools);
	ck_assert(!path_exists(record));
	end();
}
END_TEST

START_TEST(a_volume_that_is_only_read_is_not_checked)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	debugfs("ssv state 3\n");
	ck_assert_msg(stage("ext4", MODE_SINGLE_NODE_READER_ONLY, &err) == 0, "%s", err.msg);
	ran(0);
	ck_assert(state().errors);
	end();
}
END_TEST

START_TEST(a_device_in_use_is_not_checked)
{
	struct err err = ERR_INIT;
	int held;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	debugfs("ssv state 3\n");
	held = open(disk->loop, O_RDONLY | O_EXCL | O_CLOEXEC);
	ck_assert_int_ge(held, 0);
	ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "is in use"), "%s", err.msg);
	ran(0);
	close(held);
	end();
}
END_TEST

/* ---- between the decision and e2fsck ---- */

static const char *hook; /* run once, when the record is synced */
static char *record;

/* Replaces the C library's function for the driver. */
int fsync(int fd)
{
	char link[64], path[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (hook && strcmp(path, record) == 0) {
		run_tool("d=%s; r=%s; %s", disk->loop, w.nvme.root, hook);
		hook = NULL;
	}
	return (int)syscall(SYS_fsync, fd);
}

START_TEST(what_happens_to_the_disk_while_the_record_is_synced_is_seen)
{
	static const struct {
		const char *what, *text;
		bool before; /* an earlier check was interrupted */
	} rows[] = {
		{ "/sbin/mkfs.ext4 -q -F $d && sync $d", "now it contains ext4", false },
		{ "/sbin/wipefs -qa $d && sync $d", "now it contains no known signature", false },
		{ "mkdir $r/theirs && mount $d $r/theirs", "is in use", false },
		{ "mkdir $r/theirs && mount $d $r/theirs", "is in use", true },
	};
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_E2FSCK);
	debugfs("ssv state 3\n");
	if (rows[_i].before) {
		run_tool("mv %s/e2fsck %s/kept && printf '#!/bin/sh\nkill -9 $$\n' > %s/e2fsck && "
		         "chmod +x %s/e2fsck",
		         tools, tools, tools, tools);
		ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
		ck_assert(path_exists(record));
		run_tool("mv %s/kept %s/e2fsck", tools, tools);
		err_clear(&err);
	}
	hook = rows[_i].what;
	ck_assert_int_eq(stage("ext4", MODE_SINGLE_NODE_WRITER, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, rows[_i].text), "%s: %s",
	              err_code_name(err.code), err.msg);
	ran(0);
	ck_assert_int_eq(path_exists(record), rows[_i].before);
	free(record);
	end();
}
END_TEST

SUITE_TIMEOUT("check", 60, LOOP(what_does_not_ask_is_not_checked, 3),
              LOOP(an_error_flag_is_checked_and_cleared, 2),
              the_log_says_what_is_checked_why_and_how_long_it_took,
              more_damage_than_e2fsck_repairs_unasked_is_left_as_it_is,
              an_interrupted_check_is_begun_anew_and_looks_at_everything,
              LOOP(what_happens_to_the_disk_while_the_record_is_synced_is_seen, 4),
              a_volume_that_is_only_read_is_not_checked, a_device_in_use_is_not_checked);
