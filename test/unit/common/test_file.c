/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and directories. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "test/lib/suite.h"

static char dir[] = "/tmp/test-file-XXXXXX";

static const char *in(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

START_TEST(a_replaced_file_reads_back_and_leaves_no_temporary)
{
	struct err err = ERR_INIT;
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *text AUTO(free) = NULL;
	size_t n;

	memcpy(dir, "/tmp/test-file-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(file_replace(in("a"), "one\n\n", 5, 0600, &err), 0);
	ck_assert_int_eq(file_replace(in("a"), "two\n", 4, 0600, &err), 0);
	ck_assert_int_eq(file_read(in("a"), 100, &text, &n, &err), 0);
	ck_assert_str_eq(text, "two\n");
	ck_assert_uint_eq(n, 4);
	ck_assert_int_eq(dir_list(dir, &names, &err), 0);
	ck_assert_uint_eq(names.n, 1);
	ck_assert_int_eq(file_remove(in("a"), &err), 0);
	ck_assert_int_eq(file_remove(in("a"), &err), 0);
	rmdir(dir);
}
END_TEST

START_TEST(a_file_is_written_in_its_place)
{
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;
	size_t n;

	memcpy(dir, "/tmp/test-file-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(file_write_synced(in("a"), "a long one\n", 11, 0600, &err), 0);
	ck_assert_int_eq(file_write_synced(in("a"), "two\n", 4, 0600, &err), 0);
	ck_assert_int_eq(file_read(in("a"), 100, &text, &n, &err), 0);
	ck_assert_str_eq(text, "two\n");
	ck_assert_int_eq(file_write_synced(in("b/c"), "x", 1, 0600, &err), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
	ck_assert_int_eq(unlink(in("a")), 0);
	rmdir(dir);
}
END_TEST

START_TEST(errors_name_the_path)
{
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_int_eq(file_read("/nonexistent/x", 100, &text, NULL, &err), -1);
	ck_assert_str_eq(err.msg, "open /nonexistent/x: No such file or directory");
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
	err_clear(&err);
	ck_assert_int_eq(file_write("/nonexistent/x", "1", &err), -1);
	err_clear(&err);
	ck_assert_int_eq(file_read("/proc/self/status", 10, &text, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
}
END_TEST

START_TEST(an_attribute_loses_its_newline)
{
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	ck_assert_int_eq(file_read_line("/proc/sys/kernel/ostype", 100, &text, &err), 0);
	ck_assert_str_eq(text, "Linux");
}
END_TEST

START_TEST(directories_are_made_with_their_parents)
{
	struct err err = ERR_INIT;

	memcpy(dir, "/tmp/test-file-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(dir_make(in("a/b/c"), 0750, &err), 0);
	ck_assert_int_eq(dir_make(in("a/b/c"), 0750, &err), 0);
	ck_assert_int_eq(file_replace(in("a/f"), "", 0, 0600, &err), 0);
	ck_assert_int_eq(dir_make(in("a/f"), 0750, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(dir_make(in("a/f/g"), 0750, &err), -1);
	unlink(in("a/f"));
	rmdir(in("a/b/c"));
	rmdir(in("a/b"));
	rmdir(in("a"));
	rmdir(dir);
}
END_TEST

START_TEST(a_path_is_spelled_as_the_mount_table_does)
{
	static const struct {
		const char *path, *want;
	} rows[] = {
		{ "", "" },
		{ "/", "" },
		{ "//dir//", "/dir" },
		{ "/link", "/dir" },
		{ "/link/x", "/dir/x" },
		{ "/dir/./x/", "/dir/x" },
		{ "/none//x/", "/none/x" },
	};

	memcpy(dir, "/tmp/test-file-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert(!mkdir(in("dir"), 0755) && !mkdir(in("dir/x"), 0755) &&
	          !symlink("dir", in("link")));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path AUTO(free) = xasprintf("%s%s", dir, rows[i].path);
		char *want AUTO(free) = xasprintf("%s%s", dir, rows[i].want);
		char *is AUTO(free) = path_canonical(path);

		ck_assert_str_eq(is, want);
	}
	ck_assert(!unlink(in("link")) && !rmdir(in("dir/x")) && !rmdir(in("dir")) && !rmdir(dir));
}
END_TEST

START_TEST(a_link_gives_its_last_component)
{
	struct err err = ERR_INIT;
	char *name AUTO(free) = NULL;

	memcpy(dir, "/tmp/test-file-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(link_basename("/proc/self/nonexistent", &name, &err), LINK_ABSENT);
	ck_assert_int_eq(symlink("../../bus/pci/drivers/nvme", in("link")), 0);
	ck_assert_int_eq(link_basename(in("link"), &name, &err), 0);
	unlink(in("link"));
	ck_assert_str_eq(name, "nvme");
	ck_assert(!path_exists(in("link")));
	rmdir(dir);
}
END_TEST

SUITE("file", a_replaced_file_reads_back_and_leaves_no_temporary, a_file_is_written_in_its_place,
      errors_name_the_path, an_attribute_loses_its_newline, directories_are_made_with_their_parents,
      a_path_is_spelled_as_the_mount_table_does, a_link_gives_its_last_component);
