/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The features that are left out for a kernel, with tools that only print their version, and with
 * the real ones.
 */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "node/mount/mkfs_features.h"
#include "test/lib/nvme_world.h"

static char dir[] = "/tmp/mkfs-features-XXXXXX";

/* A mkfs.x in <dir> that prints this for -V, and records that it was run. */
static void begin(const char *tool, const char *says)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run_tool("printf '#!/bin/sh\\ntouch %s/asked\\necho \"%s\" >&2\\nexit 1\\n' >%s/%s; chmod "
	         "+x %s/%s",
	         dir, says, dir, tool, dir, tool);
	spawn_set_path(dir);
}

static void end(void)
{
	spawn_set_path(NULL);
	run_tool("rm -rf %s", dir);
}

static const struct feature_row {
	const char *fs_type, *version, *release, *words;
	bool asked;
} rows[] = {
	{ "ext4", "mke2fs 1.47.2 (1-Jan-2025)", "6.1.0-44-amd64", "", false },
	{ "ext4", "mke2fs 1.47.0 (5-Feb-2023)", "5.14.0-427.el9.x86_64", "-O^orphan_file", true },
	{ "ext4", "mke2fs 1.46.5 (30-Dec-2021)", "5.14.0-427.el9.x86_64", "", true },
	{ "ext4", "mke2fs 1.47.0 (5-Feb-2023)", "4.3.0", "-O^metadata_csum_seed -O^orphan_file",
	  true },
	{ "ext3", "mke2fs 1.47.0 (5-Feb-2023)", "4.3.0", "", false },
	{ "xfs", "mkfs.xfs version 6.1.0", "6.1.0", "", false },
	{ "xfs", "mkfs.xfs version 6.6.0", "5.15.0-100-generic", "-inrext64=0", true },
	{ "xfs", "mkfs.xfs version 6.1.0", "4.18.0-553.el8_10.x86_64",
	  "-mbigtime=0 -minobtcount=0 -inrext64=0", true },
	{ "xfs", "mkfs.xfs version 5.0.0", "4.18.0-553.el8_10.x86_64", "", true },
	{ "btrfs", "mkfs.btrfs, part of btrfs-progs v6.6.3", "5.15.0", "-O^block-group-tree",
	  true },
	{ "btrfs", "mkfs.btrfs, part of btrfs-progs v6.2", "6.10.3", "", false },
	{ "xfs", "mkfs.xfs version 6.1.0", "no kernel that we know", "", false },
};

START_TEST(features_that_the_kernel_does_not_know_are_left_out)
{
	const struct feature_row *r = &rows[_i];
	char *tool AUTO(free) = xasprintf("mkfs.%s", r->fs_type);
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	begin(tool, r->version);
	ck_assert_msg(mkfs_features_off(r->fs_type, tool, r->release, &words, &err) == 0, "%s",
	              err.msg);
	text = strs_join(&words, " ");
	ck_assert_str_eq(text, r->words);
	run_tool("test %s -e %s/asked", r->asked ? "" : "!", dir);
	end();
}
END_TEST

START_TEST(a_tool_that_cannot_be_asked_is_no_reason_to_guess)
{
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	begin("mkfs.xfs", "usage");
	ck_assert_int_eq(mkfs_features_off("xfs", "mkfs.xfs", "4.18.0", &words, &err), -1);
	ck_assert_str_eq(err.msg, "mkfs.xfs -V does not print its version: usage");
	end();
	err_clear(&err);
	ck_assert_int_eq(mkfs_features_off("xfs", "mkfs.absent", "4.18.0", &words, &err), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
}
END_TEST

/* The installed tools accept the words for an old kernel, and leave the features out. */
START_TEST(the_real_tools_understand)
{
	static const struct {
		const char *fs_type, *release, *says, *never;
	} real[] = {
		{ "ext4", "4.3.0", "dumpe2fs -h", "orphan_file\\|metadata_csum_seed" },
		{ "xfs", "4.8.0", "xfs_db -r -c version",
		  "BIGTIME\\|INOBTCNT\\|REFLINK\\|NREXT64" },
		{ "btrfs", "4.8.0", "btrfs inspect-internal dump-super",
		  "FREE_SPACE_TREE\\|BLOCK_GROUP_TREE" },
	};
	char *tool AUTO(free) = xasprintf("mkfs.%s", real[_i].fs_type);
	struct strs words AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_msg(mkfs_features_off(real[_i].fs_type, tool, real[_i].release, &words, &err) ==
	                      0,
	              "%s", err.msg);
	ck_assert_uint_gt(words.n, 0);
	text = strs_join(&words, " ");
	run_tool("truncate -s 400M %s/image && %s -q %s %s/image && %s %s/image >%s/super 2>&1 && "
	         "test -s %s/super && ! grep -i '%s' %s/super",
	         dir, tool, text, dir, real[_i].says, dir, dir, dir, real[_i].never, dir);
	run_tool("rm -rf %s", dir);
}
END_TEST

SUITE_TIMEOUT("mkfs features", 60,
              LOOP(features_that_the_kernel_does_not_know_are_left_out, ARRAY_LEN(rows)),
              a_tool_that_cannot_be_asked_is_no_reason_to_guess,
              LOOP(the_real_tools_understand, 3));
