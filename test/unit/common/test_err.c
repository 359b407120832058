/* SPDX-License-Identifier: Apache-2.0 */
/* The error value: texts, wrapping, truncation, codes. */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"
#include "test/lib/suite.h"

START_TEST(an_errno_gives_code_and_description)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(err_sys(&err, ENOENT, "open %s", "/x"), -1);
	ck_assert_int_eq(err.code, ERR_NOT_FOUND);
	ck_assert_int_eq(err.sys, ENOENT);
	ck_assert_str_eq(err.msg, "open /x: No such file or directory");
}
END_TEST

START_TEST(a_shortage_says_what_to_do)
{
	static const struct {
		int sys;
		const char *text;
	} rows[] = {
		{ EMFILE, "ulimit -n" },
		{ ENFILE, "fs.file-max" },
		{ ENOMEM, "driver's limit" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		err_sys(&err, rows[i].sys, "open /x");
		ck_assert_msg(strstr(err.msg, rows[i].text) != NULL, "%s", err.msg);
	}
}
END_TEST

START_TEST(an_errno_means_what_its_system_call_says)
{
	static const struct {
		enum err_call call;
		int sys;
		enum err_code code;
		const char *text, *not ;
	} rows[] = {
		{ ERR_CALL_INOTIFY, EMFILE, ERR_UNAVAILABLE, "fs.inotify.max_user_instances",
		  "(the" },
		{ ERR_CALL_INOTIFY, ENOSPC, ERR_UNAVAILABLE, "max_user_watches", "No space" },
		{ ERR_CALL_TASK, EAGAIN, ERR_UNAVAILABLE, "pids.max", "Resource temporarily" },
		{ ERR_CALL_MOUNT, ENOSPC, ERR_EXHAUSTED, "fs.mount-max", "No space" },
		{ ERR_CALL_MOUNT, EEXIST, ERR_UNAVAILABLE, "is a copy", "File exists" },
		{ ERR_CALL_MOUNT, ENOENT, ERR_UNAVAILABLE, "is missing", "No such" },
		{ ERR_CALL_MOUNT, EBUSY, ERR_UNAVAILABLE, "busy", "next" },
		{ ERR_CALL_LOCK, ENOLCK, ERR_UNAVAILABLE, "no memory", "No locks" },
		/* Any other errno has its usual meaning. */
		{ ERR_CALL_INOTIFY, ENOENT, ERR_NOT_FOUND, ": No such file", "next" },
		{ ERR_CALL_TASK, ENOMEM, ERR_UNAVAILABLE, "driver's limit", "pids" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		err_sys_of(&err, rows[i].call, rows[i].sys, "do x");
		ck_assert_int_eq(err.code, rows[i].code);
		ck_assert_int_eq(err.sys, rows[i].sys);
		ck_assert_msg(strstr(err.msg, rows[i].text) && !strstr(err.msg, rows[i].not ), "%s",
		              err.msg);
	}
}
END_TEST

START_TEST(wrapping_puts_words_in_front_and_keeps_the_code)
{
	struct err err = ERR_INIT;

	err_sys(&err, EBUSY, "mount /a");
	ck_assert_int_eq(err_wrap(&err, "stage volume %s", "pvc-1"), -1);
	ck_assert_str_eq(err.msg, "stage volume pvc-1: mount /a: Device or resource busy");
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(err.sys, EBUSY);
}
END_TEST

START_TEST(a_kind_lasts_until_the_error_is_cleared)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_PRECONDITION, "/dev/nvme0n1 is in use");
	ck_assert_int_eq(err.kind, ERR_KIND_NONE);
	ck_assert_int_eq(err_set_kind(&err, ERR_KIND_HELD), -1);
	err_wrap(&err, "unstage volume %s", "pvc-1");
	err_recode(&err, ERR_UNAVAILABLE);
	ck_assert_int_eq(err.kind, ERR_KIND_HELD);
	err_clear(&err);
	ck_assert_int_eq(err.kind, ERR_KIND_NONE);
}
END_TEST

START_TEST(a_text_that_is_too_long_keeps_its_outer_words)
{
	struct err err = ERR_INIT;
	char longest[2 * ERR_MSG_MAX];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	err_set(&err, ERR_INTERNAL, "%s", longest);
	ck_assert_uint_eq(strlen(err.msg), ERR_MSG_MAX - 1);
	err_wrap(&err, "outer");
	ck_assert_int_eq(strncmp(err.msg, "outer: xxx", 10), 0);
	ck_assert_uint_eq(strlen(err.msg), ERR_MSG_MAX - 1);
}
END_TEST

/* Each character is cut once after each of its bytes. */
START_TEST(a_text_that_is_too_long_ends_with_a_whole_character)
{
	static const char *const characters[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	for (size_t i = 0; i < ARRAY_LEN(characters) * 4; i++) {
		struct err set = ERR_INIT, sys = ERR_INIT, wrapped = ERR_INIT;
		char text[ERR_MSG_MAX + 16];
		size_t n = i % 4, whole = strlen(characters[i / 4]);
		memset(text, 'x', n);
		for (; n < ERR_MSG_MAX + 4; n += whole)
			memcpy(text + n, characters[i / 4], whole + 1);
		err_set(&set, ERR_INTERNAL, "%s", text);
		err_sys(&sys, ENOENT, "%s", text);
		err_set(&wrapped, ERR_INTERNAL, "%s", text);
		err_wrap(&wrapped, "outer");
		ck_assert_msg(utf8_valid(set.msg, strlen(set.msg)), "set, %zu", i);
		ck_assert_msg(utf8_valid(sys.msg, strlen(sys.msg)), "sys, %zu", i);
		ck_assert_msg(utf8_valid(wrapped.msg, strlen(wrapped.msg)), "wrap, %zu", i);
		ck_assert_uint_ge(strlen(set.msg), ERR_MSG_MAX - 4);
	}
}
END_TEST

/* The length is unchanged: a text that ends with a multi-byte character loses nothing. */
START_TEST(a_whole_character_at_the_end_stays)
{
	static const char *const rows[] = { "caf\xc3\xa9", "5 \xe2\x82\xac", "\xf0\x9f\x98\x80",
		                            "x" };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		err_set(&err, ERR_INTERNAL, "%s", rows[i]);
		ck_assert_str_eq(err.msg, rows[i]);
	}
}
END_TEST

START_TEST(a_handled_error_can_be_set_again)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_NOT_FOUND, "gone");
	ck_assert_int_eq(err_recode(&err, ERR_ABORTED), -1);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	err_clear(&err);
	ck_assert_int_eq(err.code, ERR_OK);
	err_set(&err, ERR_INTERNAL, "again");
	ck_assert_str_eq(err.msg, "again");
}
END_TEST

START_TEST(every_code_has_grpcs_name)
{
	ck_assert_str_eq(err_code_name(ERR_INVALID), "INVALID_ARGUMENT");
	ck_assert_str_eq(err_code_name(ERR_UNAUTHENTICATED), "UNAUTHENTICATED");
	ck_assert_str_eq(err_code_name((enum err_code)99), "UNKNOWN");
}
END_TEST

START_TEST(errnos_map_to_codes)
{
	static const struct {
		int sys;
		enum err_code code;
	} rows[] = {
		{ EACCES, ERR_PERMISSION },  { EPERM, ERR_PERMISSION },
		{ ENOENT, ERR_NOT_FOUND },   { ENODEV, ERR_UNAVAILABLE },
		{ EIO, ERR_UNAVAILABLE },    { ENOSPC, ERR_EXHAUSTED },
		{ ETIMEDOUT, ERR_DEADLINE }, { EROFS, ERR_PRECONDITION },
		{ 123456, ERR_INTERNAL },    { EMFILE, ERR_UNAVAILABLE },
		{ ENFILE, ERR_UNAVAILABLE }, { ENOMEM, ERR_UNAVAILABLE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(err_code_from_errno(rows[i].sys) == rows[i].code, "errno %d",
		              rows[i].sys);
}
END_TEST

SUITE("err", an_errno_gives_code_and_description, a_shortage_says_what_to_do,
      an_errno_means_what_its_system_call_says, wrapping_puts_words_in_front_and_keeps_the_code,
      a_kind_lasts_until_the_error_is_cleared, a_text_that_is_too_long_keeps_its_outer_words,
      a_text_that_is_too_long_ends_with_a_whole_character, a_whole_character_at_the_end_stays,
      a_handled_error_can_be_set_again, every_code_has_grpcs_name, errnos_map_to_codes);
