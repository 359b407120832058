/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities, exact to the byte. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "dpf/quantity.h"

static const struct {
	const char *text;
	int64_t bytes; /* -1: refused */
} rows[] = {
	{ "0", 0 },
	{ "1", 1 },
	{ "+7", 7 },
	{ "007", 7 },
	{ "1Ki", 1024 },
	{ "1Gi", 1073741824 },
	{ "1073741824", 1073741824 },
	{ "1.5Gi", 1610612736 },
	{ "1.50Gi", 1610612736 },
	{ "0.5Ki", 512 },
	{ ".5Ki", 512 },
	{ "5.", 5 },
	{ "1k", 1000 },
	{ "10G", 10000000000 },
	{ "1e9", 1000000000 },
	{ "1E9", 1000000000 },
	{ "1e+3", 1000 },
	{ "12e-1", 2 },
	{ "1E", 1000000000000000000 },
	{ "100m", 1 },
	{ "1000m", 1 },
	{ "1001m", 2 },
	{ "1n", 1 },
	{ "1u", 1 },
	{ "0m", 0 },
	{ "1.1", 2 },
	{ "1.000000000000000001", 2 },
	{ "1.0000000000000000000000", 1 },
	{ "0.3333Ki", 342 },
	{ "7Ei", 8070450532247928832 },
	{ "9007199254740993", 9007199254740993 },
	{ "9223372036854775807", 9223372036854775807 },
	{ "9223372036854775808", -1 },
	{ "8Ei", -1 },
	{ "10E", -1 },
	{ "99999999999999999999", -1 },
	{ "1.0000000000000000001", -1 },
	{ "", -1 },
	{ ".", -1 },
	{ "Gi", -1 },
	{ "-1", -1 },
	{ "1 Gi", -1 },
	{ " 1", -1 },
	{ "1gi", -1 },
	{ "1K", -1 },
	{ "1GiB", -1 },
	{ "1e", -1 },
	{ "1e99", -1 },
	{ "1ee3", -1 },
	{ "0x10", -1 },
	{ "1.2.3", -1 },
};

START_TEST(a_quantity_is_a_number_of_bytes_rounded_up)
{
	struct err err = ERR_INIT;
	int64_t got = -2;
	int rc = quantity_parse("size", rows[_i].text, &got, &err);

	if (rows[_i].bytes < 0) {
		ck_assert_msg(rc == -1, "\"%s\" was taken as %lld", rows[_i].text, (long long)got);
		ck_assert_int_eq(err.code, ERR_INVALID);
		ck_assert_int_eq(strncmp(err.msg, "size: ", 6), 0);
		ck_assert_msg(got == -2, "the output was touched");
	} else {
		ck_assert_msg(rc == 0, "\"%s\": %s", rows[_i].text, err.msg);
		ck_assert_msg(got == rows[_i].bytes, "\"%s\" gave %lld", rows[_i].text,
		              (long long)got);
	}
}
END_TEST

START_TEST(bytes_are_written_shortest_and_exact)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} out[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ 1000, "1000" },
		{ 1024, "1Ki" },
		{ 1073741824, "1Gi" },
		{ 1610612736, "1536Mi" },
		{ 1073741825, "1073741825" },
		{ 9007199254740993, "9007199254740993" },
		{ 1LL << 62, "4Ei" },
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_LEN(out); i++)
		ck_assert_str_eq(quantity_text(out[i].bytes, buf), out[i].text);
}
END_TEST

START_TEST(a_quantity_in_json_may_be_text_or_number)
{
	const char *text = "{\"a\":\"1Gi\",\"b\":4096,\"c\":true,\"d\":-1,\"e\":null}";
	struct json *j AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t v = 0;

	ck_assert_int_eq(json_parse("test", text, strlen(text), &j, &err), 0);
	ck_assert_int_eq(quantity_get(j, "a", &v, &err), 0);
	ck_assert_int_eq(v, 1073741824);
	ck_assert_int_eq(quantity_get(j, "b", &v, &err), 0);
	ck_assert_int_eq(v, 4096);
	ck_assert_int_eq(quantity_get(j, "e", &v, &err), JSON_ABSENT);
	ck_assert_int_eq(quantity_get(j, "f", &v, &err), JSON_ABSENT);
	ck_assert_int_eq(quantity_get(j, "c", &v, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(quantity_get(j, "d", &v, &err), -1);
	ck_assert_str_eq(err.msg, "d: -1 is negative");
}
END_TEST

SUITE("quantity", LOOP(a_quantity_is_a_number_of_bytes_rounded_up, ARRAY_LEN(rows)),
      bytes_are_written_shortest_and_exact, a_quantity_in_json_may_be_text_or_number);
