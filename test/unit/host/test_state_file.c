/* SPDX-License-Identifier: Apache-2.0 */
/* The state file of a volume, and the lock between two commands. */
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "host/state_file.h"
#include "host/lock.h"

static char dir[] = "/tmp/test_state_file.XXXXXX";

static const struct host_state data = {
	.volume = "data-1",
	.attachment = "node-data-1",
	.uid = "u",
	.node = "node",
	.kind = EMULATION_VIRTIOFS,
	.pci = "0000:26:00.1",
	.device = "",
	.uuid = "",
	.tag = "t",
	.nsid = 4000000000,
	.mount = "/srv/a \"b\"",
	.fs_type = "",
	.options = "ro",
	.read_only = true,
	.key_value = true,
	.since = 1767225600,
};

static void begin(void)
{
	struct err err = ERR_INIT;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_msg(host_state_write(dir, "boot-1", &data, &err) == 0, "%s", err.msg);
}

/* Removes the files of the test; rmdir() fails for a folder that is not empty. */
static void end(void)
{
	static const char *const names[] = { "volumes/data-1.json", "volumes", "locks", "" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path AUTO(free) = xasprintf("%s/%s", dir, names[i]);

		remove(path);
	}
}

START_TEST(a_record_is_read_as_it_was_written)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	begin();
	ck_assert_int_eq(host_state_read(dir, "boot-1", "data-1", &is, &err), 0);
	ck_assert_str_eq(is.volume, "data-1");
	ck_assert_str_eq(is.mount, "/srv/a \"b\"");
	ck_assert_str_eq(is.tag, "t");
	ck_assert_int_eq(is.nsid, 4000000000);
	ck_assert_int_eq(is.kind, EMULATION_VIRTIOFS);
	ck_assert(is.read_only && is.key_value);
	ck_assert_int_eq(is.since, 1767225600);
	ck_assert_int_eq(host_state_list(dir, &names, &err), 0);
	ck_assert_uint_eq(names.n, 1);
	ck_assert_str_eq(names.v[0], "data-1");
	ck_assert_int_eq(host_state_remove(dir, "data-1", &err), 0);
	ck_assert_int_eq(host_state_remove(dir, "data-1", &err), 0);
	host_state_clear(&is);
	ck_assert_int_eq(host_state_read(dir, "boot-1", "data-1", &is, &err), HOST_STATE_NONE);
	end();
}
END_TEST

/* `host attach --mount` accepts such bytes; JSON cannot represent them. */
START_TEST(a_mount_point_that_is_no_utf8_is_read_as_it_was_written)
{
	struct host_state odd = data;
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	begin();
	odd.mount = "/srv/\xff\x01\"caf\xe9";
	ck_assert_msg(host_state_write(dir, "boot-1", &odd, &err) == 0, "%s", err.msg);
	ck_assert_msg(host_state_read(dir, "boot-1", "data-1", &is, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(is.mount, odd.mount);
	ck_assert_str_eq(is.options, "ro");
	end();
}
END_TEST

START_TEST(a_record_of_another_boot_says_nothing)
{
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	begin();
	ck_assert_int_eq(host_state_read(dir, "boot-2", "data-1", &is, &err), HOST_STATE_NONE);
	ck_assert_ptr_null(is.tree);
	end();
}
END_TEST

static const struct {
	const char *what, *text;
} damaged[] = {
	{ "nothing", "" },
	{ "a part", "{\"volume\":\"da" },
	{ "a text", "\"x\"x" },
	{ "a namespace that is text",
	  "{\"volume\":\"data-1\",\"boot\":\"boot-1\",\"nsid\":\"1\"}" },
	{ "half a byte", "{\"volume\":\"data-1\",\"boot\":\"boot-1\",\"mount.bytes\":\"2f7\"}" },
	{ "a byte of other letters",
	  "{\"volume\":\"data-1\",\"boot\":\"boot-1\",\"mount.bytes\":\"2fFF\"}" },
	{ "a byte that ends the text",
	  "{\"volume\":\"data-1\",\"boot\":\"boot-1\",\"mount.bytes\":\"2f00ff\"}" },
};

START_TEST(a_damaged_record_is_named)
{
	char *path AUTO(free) = NULL;
	struct host_state is AUTO(host_state_clear) = { .tree = NULL };
	struct err err = ERR_INIT;

	begin();
	path = xasprintf("%s/volumes/data-1.json", dir);
	ck_assert_int_eq(file_replace(path, damaged[_i].text, strlen(damaged[_i].text), 0600, &err),
	                 0);
	ck_assert_msg(host_state_read(dir, "boot-1", "data-1", &is, &err) == -1, "%s",
	              damaged[_i].what);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "data-1") != NULL, "%s", err.msg);
	end();
}
END_TEST

START_TEST(one_command_has_the_lock_and_leaves_no_file)
{
	struct host_lock one AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct host_lock two AUTO(host_lock_release) = HOST_LOCK_INIT;
	struct strs left AUTO(strs_clear) = STRS_INIT;
	char *folder AUTO(free) = NULL;
	struct err err = ERR_INIT;

	begin();
	folder = xasprintf("%s/locks", dir);
	ck_assert_int_eq(host_lock_take(&one, dir, "data-1", "data-1", wait_limit(), &err), 0);
	ck_assert_int_eq(host_lock_take(&two, dir, "data-1", "data-1", deadline_in_ms(50), &err),
	                 -1);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	host_lock_release(&two);
	host_lock_release(&one);
	err_clear(&err);
	ck_assert_int_eq(host_lock_take(&two, dir, "data-1", "data-1", wait_limit(), &err), 0);
	host_lock_release(&two);
	ck_assert_int_eq(dir_list(folder, &left, &err), 0);
	ck_assert_uint_eq(left.n, 0);
	end();
}
END_TEST

SUITE("host state files", a_record_is_read_as_it_was_written,
      a_mount_point_that_is_no_utf8_is_read_as_it_was_written,
      a_record_of_another_boot_says_nothing, LOOP(a_damaged_record_is_named, ARRAY_LEN(damaged)),
      one_command_has_the_lock_and_leaves_no_file);
