/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of features that current mkfs tools enable by default, each with the first kernel that
 * mounts it read-write and the first tool version that knows its name. Distribution kernels
 * backport features (RHEL 9's 5.14 knows more than 5.14). Disabling a feature that such a kernel
 * supports costs little; with a feature that the kernel does not support, the volume could not be
 * mounted. No state, any thread.
 *
 * Sources: ext4 Documentation/filesystems/ext4, xfs(5) and mkfs.xfs(8) with xfsprogs' release
 * notes, btrfs(5) "Filesystem features", e2fsprogs' release notes.
 */
#include "node/mount/mkfs_features.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/spawn.h"

struct version {
	unsigned major, minor;
};

static const struct feature {
	const char *fs_type;
	struct version kernel, tool;
	const char *word;
} features[] = {
	{ "ext4", { 4, 4 }, { 1, 43 }, "-O^metadata_csum_seed" },
	{ "ext4", { 5, 15 }, { 1, 47 }, "-O^orphan_file" },
	{ "xfs", { 4, 9 }, { 4, 9 }, "-mreflink=0" },
	{ "xfs", { 4, 10 }, { 4, 9 }, "-mrmapbt=0" },
	{ "xfs", { 5, 10 }, { 5, 10 }, "-mbigtime=0" },
	{ "xfs", { 5, 10 }, { 5, 10 }, "-minobtcount=0" },
	{ "xfs", { 5, 19 }, { 5, 19 }, "-inrext64=0" },
	{ "btrfs", { 4, 9 }, { 5, 15 }, "-R^free-space-tree" },
	{ "btrfs", { 6, 1 }, { 6, 3 }, "-O^block-group-tree" },
};

static bool older(struct version a, struct version b)
{
	return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

/* Finds the first "number.number" of a text. */
static bool find_version(const char *text, struct version *ret)
{
	for (const char *at = text; *at; at++) {
		if (isdigit((unsigned char)*at) &&
		    sscanf(at, "%9u.%9u", &ret->major, &ret->minor) == 2)
			return true;
		while (isdigit((unsigned char)at[0]) && isdigit((unsigned char)at[1]))
			at++;
	}
	return false;
}

static bool lacks_any(const char *fs_type, struct version kernel)
{
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		if (str_eq(features[i].fs_type, fs_type) && older(kernel, features[i].kernel))
			return true;
	return false;
}

static int tool_version(const char *tool, struct version *ret, struct err *err)
{
	struct str output AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	int rc;

	strs_add(&argv, tool);
	strs_add(&argv, "-V");
	rc = spawn_run(&argv, deadline_in_ms(10000), &output, err);
	if (rc < 0)
		return err_wrap(err, "%s -V", tool);
	if (!find_version(output.ptr, ret))
		return err_set(err, ERR_INTERNAL, "%s -V does not print its version: %s", tool,
		               spawn_last_line(&output));
	return 0;
}

int mkfs_features_off(const char *fs_type, const char *tool, const char *release,
                      struct strs *words, struct err *err)
{
	struct version kernel, known;

	if (!find_version(release, &kernel) || !lacks_any(fs_type, kernel))
		return 0;
	if (tool_version(tool, &known, err))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		const struct feature *f = &features[i];

		if (!str_eq(f->fs_type, fs_type) || !older(kernel, f->kernel) ||
		    older(known, f->tool))
			continue;
		strs_add(words, f->word);
	}
	return 0;
}
