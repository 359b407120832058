/* SPDX-License-Identifier: Apache-2.0 */
/* Mount points: created ones, those removed by an undo, and files that are never touched. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/target/target.h"
#include "test/lib/nvme_world.h"

static char root[64];

static char *path_of(const char *name)
{
	return xasprintf("%s/%s", root, name);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/target-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	run_tool("cd %s && mkdir dir full && touch full/x empty && echo 1 > data && ln -s dir link "
	         "&& "
	         "mkfifo fifo",
	         root);
}

static void end(void)
{
	run_tool("rm -rf %s", root);
}

START_TEST(levels_that_are_missing_are_made_and_taken_back)
{
	static const struct {
		const char *what, *path;
		enum target_kind kind;
		unsigned made;
		const char *error; /* NULL: accepted */
	} rows[] = {
		{ "a directory", "new", TARGET_DIR, 1, NULL },
		{ "with its parents", "a/b/c", TARGET_DIR, 3, NULL },
		{ "a file with its parents", "a/b/c", TARGET_FILE, 3, NULL },
		{ "a directory that is there", "dir", TARGET_DIR, 0, NULL },
		{ "one that has something in it", "full", TARGET_DIR, 0, NULL },
		{ "an empty file that is there", "empty", TARGET_FILE, 0, NULL },
		{ "slash at the end", "new/", TARGET_DIR, 1, NULL },
		{ "a file in the way of a directory", "empty", TARGET_DIR, 0,
		  "is not a directory" },
		{ "a directory in the way of a file", "dir", TARGET_FILE, 0, "is not a file" },
		{ "a file with data", "data", TARGET_FILE, 0, "2 bytes of data" },
		{ "a link to a directory", "link", TARGET_DIR, 0, "is not a directory" },
		{ "a fifo", "fifo", TARGET_FILE, 0, "is not a file" },
		{ "below a file", "empty/x/y", TARGET_DIR, 0, "not a directory" },
		{ "below a link", "link/x", TARGET_DIR, 0, "is a symbolic link" },
		{ "a file below a link", "link/x", TARGET_FILE, 0, "is a symbolic link" },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = path_of(rows[i].path);
		struct err err = ERR_INIT;
		unsigned made = 0;
		int rc = target_make(path, rows[i].kind, &made, &err);

		ck_assert_msg(rc == (rows[i].error ? -1 : 0), "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(made == rows[i].made, "%s: %u", rows[i].what, made);
		if (rc)
			ck_assert_msg(strstr(err.msg, rows[i].error) != NULL, "%s: %s",
			              rows[i].what, err.msg);
		else
			target_unmake(path, made);
		run_tool("cd %s && test \"$(find . | sort | tr '\\n' ' ')\" = "
		         "'. ./data ./dir ./empty ./fifo ./full ./full/x ./link '",
		         root);
	}
	end();
}
END_TEST

START_TEST(taking_back_stops_where_somebody_has_put_something)
{
	char *path AUTO(free) = NULL;
	struct err err = ERR_INIT;
	unsigned made = 0;

	begin();
	path = path_of("a/b/c");
	ck_assert_int_eq(target_make(path, TARGET_DIR, &made, &err), 0);
	run_tool("touch %s/a/x", root);
	target_unmake(path, made);
	run_tool("cd %s && test -e a/x && ! test -e a/b && rm a/x && rmdir a", root);

	ck_assert_int_eq(target_make(path, TARGET_FILE, &made, &err), 0);
	run_tool("echo rows > %s", path);
	target_unmake(path, made);
	run_tool("grep -q rows %s && rm %s && ln -s %s/data %s", path, path, root, path);
	target_unmake(path, made);
	run_tool("test -L %s && test -s %s/data", path, root);

	/* Nor behind a link that has replaced a directory. */
	run_tool("cd %s && rm -r a && mkdir -p full/c && ln -s full a", root);
	free(TAKE(path));
	path = path_of("a/c");
	target_unmake(path, 1);
	run_tool("test -d %s/full/c", root);
	end();
}
END_TEST

START_TEST(only_what_is_empty_is_removed)
{
	static const struct {
		const char *name;
		const char *error; /* NULL: removed */
	} rows[] = {
		{ "dir", NULL },
		{ "empty", NULL },
		{ "nothing", NULL },
		{ "nothing/below", NULL },
		{ "data/below", NULL },
		{ "full", "1 entries, among them x" },
		{ "data", "is left alone" },
		{ "link", "is left alone" },
		{ "fifo", "is left alone" },
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = path_of(rows[i].name);
		struct err err = ERR_INIT;
		bool was_there = path_exists(path);
		int rc = target_remove(path, &err);

		ck_assert_msg(rc == (rows[i].error ? -1 : 0), "%s: %s", rows[i].name, err.msg);
		if (rc) {
			ck_assert_int_eq(err.code, ERR_PRECONDITION);
			ck_assert_msg(strstr(err.msg, rows[i].error) != NULL, "%s", err.msg);
		}
		ck_assert_msg(path_exists(path) == (rc != 0 && was_there), "%s", rows[i].name);
	}
	end();
}
END_TEST

SUITE("target", levels_that_are_missing_are_made_and_taken_back,
      taking_back_stops_where_somebody_has_put_something, only_what_is_empty_is_removed);
