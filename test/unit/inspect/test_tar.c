/* SPDX-License-Identifier: Apache-2.0 */
/* The archive, as tar(1) reads it. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "inspect/tar.h"

static char *output_of(const char *command)
{
	FILE *pipe = popen(command, "r");
	char buf[4096];
	size_t n;

	ck_assert_ptr_nonnull(pipe);
	n = fread(buf, 1, sizeof(buf) - 1, pipe);
	buf[n] = '\0';
	ck_assert_int_eq(pclose(pipe), 0);
	return xstrdup(buf);
}

START_TEST(tar_finds_the_files_as_they_were_added)
{
	char path[] = "/tmp/test_tar.XXXXXX", whole[1025], name[TAR_NAME_MAX + 1];
	int fd AUTO(fd) = mkstemp(path);
	struct tar t = { .folder = "a/", .fd = fd, .mtime = 1700000000 };
	struct err err = ERR_INIT;
	char *command AUTO(free) = xasprintf(
		"TZ=UTC tar -tvf %s 2>&1 && tar -xOf %s a/small.txt && tar -xOf %s a/whole "
		"| wc -c",
		path, path, path);
	char *said AUTO(free) = NULL;

	memset(whole, 'x', sizeof(whole));
	memset(name, 'n', TAR_NAME_MAX - 2);
	name[TAR_NAME_MAX - 2] = '\0';
	ck_assert_int_eq(tar_add(&t, "small.txt", "hello\n", 6, &err), 0);
	ck_assert_int_eq(tar_add(&t, "whole", whole, 1024, &err), 0);
	ck_assert_int_eq(tar_add(&t, "more", whole, 1025, &err), 0);
	ck_assert_int_eq(tar_add(&t, "empty", "", 0, &err), 0);
	ck_assert_int_eq(tar_add(&t, name, "", 0, &err), 0);
	ck_assert_int_eq(tar_end(&t, &err), 0);
	said = output_of(command);
	unlink(path);
	ck_assert_msg(strstr(said, "2023-11-14 22:13") != NULL, "%s", said);
	ck_assert_msg(strstr(said, "-rw-------") != NULL, "%s", said);
	ck_assert_msg(strstr(said, "a/small.txt") != NULL, "%s", said);
	ck_assert_msg(strstr(said, "hello\n1024\n") != NULL, "%s", said);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
	int fd AUTO(fd) = open("/dev/full", O_WRONLY);
	struct tar t = { .folder = "", .fd = fd };
	struct err err = ERR_INIT;

	ck_assert_int_eq(tar_add(&t, "a", "b", 1, &err), -1);
	ck_assert_msg(strstr(err.msg, "No space left") != NULL, "%s", err.msg);
}
END_TEST

SUITE("tar", tar_finds_the_files_as_they_were_added, a_full_disk_is_an_error);
