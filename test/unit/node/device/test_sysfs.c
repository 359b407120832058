/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing attributes: missing ones, and invalid ones. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/mem.h"
#include "node/device/sysfs.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

START_TEST(attributes_lose_their_newline_and_missing_ones_are_a_condition)
{
	struct tree t AUTO(tree_clear) = { 0 };
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	tree_unpack(&t, NULL);
	tree_write(&t, "/sys/a", "QEMU NVMe Ctrl   \n");
	tree_write(&t, "/sys/empty", "");
	ck_assert_int_eq(sysfs_attr(t.sysfs, "a", &text, &err), 0);
	ck_assert_str_eq(text, "QEMU NVMe Ctrl");
	free(TAKE(text));
	ck_assert_int_eq(sysfs_attr(t.sysfs, "empty", &text, &err), 0);
	ck_assert_str_eq(text, "");
	free(TAKE(text));
	ck_assert_int_eq(sysfs_attr(t.sysfs, "none", &text, &err), SYSFS_ABSENT);
	ck_assert_int_eq(sysfs_attr(t.sysfs, "a/below", &text, &err), SYSFS_ABSENT);
	ck_assert_int_eq(err.code, ERR_OK);
	/* A directory is not an attribute. */
	ck_assert_int_eq(sysfs_attr(t.root, "sys", &text, &err), -1);
}
END_TEST

START_TEST(numbers_are_whole_or_refused)
{
	static const struct {
		const char *text;
		int dec; /* result of sysfs_attr_u64 */
		uint64_t dec_value;
		int hex;
		uint32_t hex_value;
	} rows[] = {
		{ "1048576\n", 0, 1048576, 0, 0x1048576 },
		{ "0x010802\n", -1, 0, 0, 0x010802 },
		{ "0x15B3\n", -1, 0, 0, 0x15b3 },
		{ "6001\n", 0, 6001, 0, 0x6001 },
		{ "ffffffff\n", -1, 0, 0, 0xffffffff },
		{ "0x123456789\n", -1, 0, -1, 0 },
		{ "18446744073709551615\n", 0, UINT64_MAX, -1, 0 },
		{ "18446744073709551616\n", -1, 0, -1, 0 },
		{ "-1\n", -1, 0, -1, 0 },
		{ "1 2\n", -1, 0, -1, 0 },
		{ "0x\n", -1, 0, -1, 0 },
		{ "\n", -1, 0, -1, 0 },
		{ "", -1, 0, -1, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree t AUTO(tree_clear) = { 0 };
		struct err dec_err = ERR_INIT, hex_err = ERR_INIT;
		uint64_t dec = 0;
		uint32_t hex = 0;

		tree_unpack(&t, NULL);
		tree_write(&t, "/sys/n", rows[i].text);
		ck_assert_msg(sysfs_attr_u64(t.sysfs, "n", &dec, &dec_err) == rows[i].dec, "\"%s\"",
		              rows[i].text);
		ck_assert_msg(sysfs_attr_hex(t.sysfs, "n", &hex, &hex_err) == rows[i].hex, "\"%s\"",
		              rows[i].text);
		ck_assert_uint_eq(dec, rows[i].dec_value);
		ck_assert_uint_eq(hex, rows[i].hex_value);
		if (rows[i].dec)
			ck_assert_int_eq(dec_err.code, ERR_PRECONDITION);
		if (rows[i].hex)
			ck_assert_msg(hex_err.code == ERR_PRECONDITION &&
			                      strstr(hex_err.msg, "/sys/n"),
			              "%s", hex_err.msg);
	}
}
END_TEST

START_TEST(missing_numbers_links_and_directories_are_conditions)
{
	struct tree t AUTO(tree_clear) = { 0 };
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *name AUTO(free) = NULL;
	char *bytes AUTO(free) = NULL;
	struct err err = ERR_INIT;
	uint64_t dec;
	uint32_t hex;
	size_t n;

	tree_unpack(&t, NULL);
	ck_assert_int_eq(sysfs_attr_u64(t.sysfs, "x", &dec, &err), SYSFS_ABSENT);
	ck_assert_int_eq(sysfs_attr_hex(t.sysfs, "x", &hex, &err), SYSFS_ABSENT);
	ck_assert_int_eq(sysfs_link(t.sysfs, "x", &name, &err), SYSFS_ABSENT);
	ck_assert_int_eq(sysfs_bytes(t.sysfs, "x", &bytes, &n, &err), SYSFS_ABSENT);
	ck_assert_int_eq(sysfs_list("/nonexistent/x", &names, &err), SYSFS_ABSENT);
	tree_write(&t, "/sys/b", "");
	tree_link(&t, "/sys/a", "../some/where/nvme");
	ck_assert_int_eq(sysfs_list(t.sysfs, &names, &err), 0);
	ck_assert_uint_eq(names.n, 2);
	ck_assert_str_eq(names.v[0], "a");
	ck_assert_int_eq(sysfs_link(t.sysfs, "a", &name, &err), 0);
	ck_assert_str_eq(name, "nvme");
	/* Not a link. */
	ck_assert_int_eq(sysfs_link(t.sysfs, "b", &name, &err), -1);
	ck_assert_int_eq(err.sys, EINVAL);
}
END_TEST

START_TEST(bytes_keep_their_nuls_and_have_a_limit)
{
	struct tree t AUTO(tree_clear) = { 0 };
	char *bytes AUTO(free) = NULL;
	char *large AUTO(free) = xcalloc(1, LIMIT_SYSFS_ATTR + 1);
	struct err err = ERR_INIT;
	size_t n = 0;

	tree_unpack(&t, NULL);
	tree_write_bytes(&t, "/sys/vpd", "a\0b\0", 4);
	ck_assert_int_eq(sysfs_bytes(t.sysfs, "vpd", &bytes, &n, &err), 0);
	ck_assert_uint_eq(n, 4);
	ck_assert_mem_eq(bytes, "a\0b\0", 4);
	free(TAKE(bytes));
	tree_write_bytes(&t, "/sys/vpd", large, LIMIT_SYSFS_ATTR + 1);
	ck_assert_int_eq(sysfs_bytes(t.sysfs, "vpd", &bytes, &n, &err), -1);
	ck_assert_int_eq(err.code, ERR_EXHAUSTED);
}
END_TEST

static int refuse(void *arg, const char *path, const char *text)
{
	ck_assert_str_eq(path, "/sys/bind");
	ck_assert_str_eq(text, "0000:01:00.1");
	return *(int *)arg;
}

START_TEST(writes_replace_the_text_and_give_their_errno)
{
	struct tree t AUTO(tree_clear) = { 0 };
	char *path AUTO(free) = NULL;
	char *got AUTO(free) = NULL;
	int errnum = EBUSY;
	struct sysfs_writer w = { refuse, &errnum };

	tree_unpack(&t, NULL);
	tree_write(&t, "/sys/driver_override", "(null)\n");
	path = tree_path(&t, "/sys/driver_override");
	ck_assert_int_eq(sysfs_write(NULL, path, "nvme\n"), 0);
	got = tree_read(&t, "/sys/driver_override");
	ck_assert_str_eq(got, "nvme");
	/* A missing file is never created. */
	ck_assert_int_eq(sysfs_write(NULL, "/nonexistent/bind", "x"), ENOENT);
	ck_assert_int_eq(sysfs_write(&w, "/sys/bind", "0000:01:00.1"), EBUSY);
	errnum = 0;
	ck_assert_int_eq(sysfs_write(&w, "/sys/bind", "0000:01:00.1"), 0);
}
END_TEST

static void *read_it(void *arg)
{
	struct err err = ERR_INIT;
	char *text = NULL;

	ck_assert_msg(!sysfs_attr(arg, "vpd", &text, &err), "%s", err.msg);
	return text;
}

START_TEST(what_a_thread_is_at_is_told_until_it_has_its_answer)
{
	struct strs at AUTO(strs_clear) = STRS_INIT;
	struct tree t AUTO(tree_clear) = { 0 };
	char *want AUTO(free) = NULL;
	pthread_t thread;
	void *text;

	tree_unpack(&t, NULL);
	tree_fifo(&t, "/sys/vpd");
	ck_assert_uint_eq(sysfs_hung(0, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, read_it, t.sysfs), 0);
	while (!sysfs_hung(0, NULL))
		usleep(1000);
	ck_assert_uint_eq(sysfs_hung(0, &at), 1);
	want = xasprintf("%s/vpd for ", t.sysfs);
	ck_assert_msg(str_has_prefix(at.v[0], want), "%s", at.v[0]);
	ck_assert_uint_eq(sysfs_hung(3600000, NULL), 0);
	tree_answer(&t, "/sys/vpd", "x\n");
	pthread_join(thread, &text);
	ck_assert_str_eq(text, "x");
	free(text);
	ck_assert_uint_eq(sysfs_hung(0, NULL), 0);
}
END_TEST

SUITE("sysfs", attributes_lose_their_newline_and_missing_ones_are_a_condition,
      numbers_are_whole_or_refused, missing_numbers_links_and_directories_are_conditions,
      bytes_keep_their_nuls_and_have_a_limit, writes_replace_the_text_and_give_their_errno,
      what_a_thread_is_at_is_told_until_it_has_its_answer);
