/* SPDX-License-Identifier: Apache-2.0 */
/* When a superblock requests a check, and the meaning of e2fsck's exit status. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/spawn.h"
#include "common/str.h"
#include "node/mount/fsck.h"
#include "test/lib/nvme_world.h"

static char dir[64], image[80];

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/fsck-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(image, sizeof(image), "%s/image", dir);
	run_tool("truncate -s 16M %s && mkfs.ext4 -q -F %s", image, image);
}

static void end(void)
{
	spawn_set_path(NULL);
	run_tool("rm -rf %s", dir);
}

START_TEST(only_an_error_or_a_missing_unmount_asks_for_a_check)
{
	static const struct {
		const char *what, *edit, *asks;
		bool journal;
	} rows[] = {
		{ "fresh", "", NULL, false },
		{ "journal to be replayed", "feature +needs_recovery", NULL, true },
		{ "not unmounted", "ssv state 0", "it was not unmounted", false },
		{ "errors", "ssv state 3", "its error flag is set", false },
		{ "errors, not unmounted", "ssv state 2", "its error flag is set", false },
		{ "orphans", "ssv state 5", NULL, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ext_state state;
		struct err err = ERR_INIT;
		int fd AUTO(fd) = -1;
		const char *asks;

		begin();
		if (*rows[i].edit)
			run_tool("debugfs -w -R '%s' %s 2>/dev/null", rows[i].edit, image);
		fd = open(image, O_RDONLY);
		ck_assert_msg(ext_state_read(fd, "dev", &state, &err) == 0, "%s: %s", rows[i].what,
		              err.msg);
		ck_assert_msg(state.journal_dirty == rows[i].journal, "%s", rows[i].what);
		asks = ext_state_asks(&state);
		ROW_STR_EQ(rows[i].what, asks ? asks : "", rows[i].asks ? rows[i].asks : "");
		end();
	}
}
END_TEST

START_TEST(what_is_no_ext_any_more_is_told)
{
	struct ext_state state;
	struct err err = ERR_INIT;
	int fd AUTO(fd) = -1;

	begin();
	run_tool("truncate -s 0 %s && truncate -s 4096 %s", image, image);
	fd = open(image, O_RDONLY);
	ck_assert_int_eq(ext_state_read(fd, "dev", &state, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	err_clear(&err);
	run_tool("truncate -s 1024 %s", image);
	ck_assert_int_eq(ext_state_read(fd, "dev", &state, &err), -1);
	ck_assert_str_eq(err.msg, "read the superblock of dev: Input/output error");
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	end();
}
END_TEST

START_TEST(each_answer_of_e2fsck_has_its_meaning)
{
	static const struct {
		const char *script;
		enum err_code code;
		const char *text;
	} rows[] = {
		{ "exit 0", ERR_OK, "" },
		{ "exit 1", ERR_OK, "" },
		{ "echo a; echo last words; exit 4", ERR_PRECONDITION,
		  "e2fsck -p cannot repair /dev/x by itself (exit status 4): last words; by hand, "
		  "while it is not mounted: e2fsck -f /dev/x" },
		{ "echo /proc/self/fd/3: Inode 12 is bad.; echo /proc/self/fd/3: UNEXPECTED "
		  "INCONSISTENCY, RUN fsck MANUALLY.; echo without -p; exit 4",
		  ERR_PRECONDITION, "(exit status 4): Inode 12 is bad.; by hand" },
		{ "exit 2", ERR_PRECONDITION, "exit status 2" },
		{ "exit 8", ERR_PRECONDITION, "exit status 8" },
		{ "echo /proc/self/fd/3 has unsupported feature\\(s\\): FEATURE_R17; echo e2fsck: Get a "
		  "newer version of e2fsck!; exit 12",
		  ERR_PRECONDITION,
		  "e2fsck of /dev/x: it has unsupported feature(s): FEATURE_R17, which" },
		{ "kill -9 $$", ERR_INTERNAL, "e2fsck of /dev/x: e2fsck: killed by signal 9" },
	};

	begin();
	spawn_set_path(dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd AUTO(fd) = open("/dev/null", O_RDONLY);
		struct err err = ERR_INIT;

		run_tool("printf '#!/bin/sh\necho \"$*\" > %s/log\n%s\n' > %s/e2fsck; chmod +x "
		         "%s/e2fsck",
		         dir, rows[i].script, dir, dir);
		ck_assert_int_eq(fsck_run(fd, "/dev/x", false, &err), rows[i].code ? -1 : 0);
		ck_assert_msg(err.code == rows[i].code && strstr(err.msg, rows[i].text), "%s: %s",
		              rows[i].script, err.msg);
		run_tool("grep -qx -- '-p /proc/self/fd/3' %s/log", dir);
	}
	end();
}
END_TEST

SUITE("fsck", only_an_error_or_a_missing_unmount_asks_for_a_check, what_is_no_ext_any_more_is_told,
      each_answer_of_e2fsck_has_its_meaning);
