/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, booleans, UTF-8, Kubernetes names, FNV. */
#include <string.h>

#include "common/str.h"
#include "test/lib/suite.h"

START_TEST(whole_numbers_are_parsed_or_refused)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t value;
	} rows[] = {
		{ "0", 0, 0 },   { "18446744073709551615", 0, UINT64_MAX },
		{ "", -1, 0 },   { "18446744073709551616", -1, 0 },
		{ "-1", -1, 0 }, { "+1", -1, 0 },
		{ " 1", -1, 0 }, { "1 ", -1, 0 },
		{ "1x", -1, 0 }, { "0x10", -1, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		uint64_t v = 7;

		ck_assert_msg(parse_u64("nsid", rows[i].text, &v, &err) == rows[i].rc, "%s",
		              rows[i].text);
		ck_assert_uint_eq(v, rows[i].rc ? 7 : rows[i].value);
		if (rows[i].rc)
			ck_assert(str_has_prefix(err.msg, "nsid: "));
	}
}
END_TEST

START_TEST(signed_numbers_keep_their_range)
{
	struct err err = ERR_INIT;
	int64_t v;

	ck_assert_int_eq(parse_i64("n", "-9223372036854775808", &v, &err), 0);
	ck_assert_int_eq(v, INT64_MIN);
	ck_assert_int_eq(parse_i64("n", "9223372036854775808", &v, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(parse_i64("n", "--1", &v, &err), -1);
}
END_TEST

START_TEST(booleans_are_gos)
{
	struct err err = ERR_INIT;
	bool v = false;

	ck_assert_int_eq(parse_bool("hotplugFunction", "T", &v, &err), 0);
	ck_assert(v);
	ck_assert_int_eq(parse_bool("hotplugFunction", "False", &v, &err), 0);
	ck_assert(!v);
	ck_assert_int_eq(parse_bool("hotplugFunction", "yes", &v, &err), -1);
	ck_assert_str_eq(err.msg, "hotplugFunction: is not a boolean value");
}
END_TEST

START_TEST(times_of_kubernetes_are_read)
{
	static const struct {
		const char *text;
		time_t want; /* -1: it is not a time */
	} times[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2026-01-02T03:04:05Z", 1767323045 },
		{ "2026-01-02T03:04:05.678901Z", 1767323045 },
		{ "2026-01-02T03:04:05", -1 },
		{ "2026-01-02T03:04:05+01:00", -1 },
		{ "2026-01-02T03:04:05Zx", -1 },
		{ "2026-13-02T03:04:05Z", -1 },
		{ "x", -1 },
		{ "", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		time_t t = -1;

		ck_assert_msg(rfc3339_read(times[i].text, &t) == (times[i].want != -1) &&
		                      t == times[i].want,
		              "%s: %lld", times[i].text, (long long)t);
	}
}
END_TEST

START_TEST(utf8_is_told_from_bytes)
{
	static const struct {
		const char *bytes;
		bool valid;
	} rows[] = {
		{ "plain", true },         { "\xc3\xbc", true },      { "\xf0\x9f\x98\x80", true },
		{ "\xff", false },         { "\xc3", false },         { "\xc0\x80", false },
		{ "\xed\xa0\x80", false }, { "\xe0\x80\xaf", false }, { "\xf4\x90\x80\x80", false },
		{ "\x80", false },         { "\xe2\x82", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(utf8_valid(rows[i].bytes, strlen(rows[i].bytes)) == rows[i].valid,
		              "row %zu", i);
	ck_assert(!utf8_valid("a\0b", 3));
	/*
	 * ASCII is checked in words: the result is the same at each position in a word, before and
	 * after one.
	 */
	for (size_t i = 0; i <= ARRAY_LEN(rows); i++) {
		const char *bytes = i < ARRAY_LEN(rows) ? rows[i].bytes : "";
		size_t n = i < ARRAY_LEN(rows) ? strlen(bytes) : 1;
		bool valid = i < ARRAY_LEN(rows) && rows[i].valid;

		for (size_t before = 0; before < 20; before++) {
			char text[40];

			memset(text, 1 + (int)before * 6, sizeof(text));
			memcpy(text + before, bytes, n);
			ck_assert_msg(utf8_valid(text, before + n) == valid, "row %zu behind %zu",
			              i, before);
			ck_assert_msg(utf8_valid(text, sizeof(text)) == valid,
			              "row %zu behind %zu, and more", i, before);
		}
	}
}
END_TEST

START_TEST(what_a_reader_would_not_see_is_spelled_out)
{
	static const struct {
		const char *what, *text, *shown, *quoted;
	} rows[] = {
		{ "nothing", "", "", "" },
		{ "plain", "pvc-1 at 5%", "pvc-1 at 5%", "pvc-1 at 5%" },
		{ "letters and signs of any script", "\xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80",
		  "\xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80",
		  "\xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80" },
		{ "quotes and backslashes", "a \"b\\c\"", "a \"b\\c\"", "a \\\"b\\\\c\\\"" },
		{ "a new line", "a\nb", "a\\nb", "a\\nb" },
		{ "ESC, BEL, TAB, CR, DEL", "\x1b[2J\a\t\r\x7f",
		  "\\u001b[2J\\u0007\\u0009\\u000d\\u007f",
		  "\\u001b[2J\\u0007\\u0009\\u000d\\u007f" },
		{ "C1: U+0080, CSI, U+009F", "\xc2\x80\xc2\x9b\xc2\x9f", "\\u0080\\u009b\\u009f",
		  "\\u0080\\u009b\\u009f" },
		{ "the character after C1", "\xc2\xa0", "\xc2\xa0", "\xc2\xa0" },
		{ "right to left", "\xe2\x80\xaegnp.exe\xe2\x80\xac", "\\u202egnp.exe\\u202c",
		  "\\u202egnp.exe\\u202c" },
		{ "isolates", "\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069", "\\u2066x\\u2069" },
		{ "marks", "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c",
		  "\\u200e\\u200f\\u061c" },
		{ "line and paragraph separator", "\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029",
		  "\\u2028\\u2029" },
		{ "no width", "a\xe2\x80\x8bz\xef\xbb\xbf", "a\\u200bz\\ufeff",
		  "a\\u200bz\\ufeff" },
		{ "a tag beyond 16 bits", "\xf3\xa0\x81\x81", "\\udb40\\udc41", "\\udb40\\udc41" },
		{ "bytes that are no UTF-8", "a\xff\xc3(\x80", "a\\xff\\xc3(\\x80",
		  "a\\\\xff\\\\xc3(\\\\x80" },
		{ "a character that was cut", "\xe2\x82", "\\xe2\\x82", "\\\\xe2\\\\x82" },
		{ "a surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80", "\\\\xed\\\\xa0\\\\x80" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str shown AUTO(str_clear) = STR_INIT(100);
		struct str again AUTO(str_clear) = STR_INIT(100);
		struct str quoted AUTO(str_clear) = STR_INIT(100);

		str_add_shown(&shown, rows[i].text);
		str_add_shown(&again, shown.ptr);
		str_add_quoted(&quoted, rows[i].text);
		ROW_STR_EQ(rows[i].what, shown.ptr, rows[i].shown);
		ROW_STR_EQ(rows[i].what, again.ptr, rows[i].shown);
		ROW_STR_EQ(rows[i].what, quoted.ptr, rows[i].quoted);
		ck_assert_msg(shown.len <= SHOWN_BYTES_MAX * strlen(rows[i].text), "%s",
		              rows[i].what);
		ck_assert_msg(is_shown_as_it_is(rows[i].text) ==
		                      str_eq(rows[i].text, rows[i].shown),
		              "%s", rows[i].what);
	}
}
END_TEST

START_TEST(kubernetes_names_are_told_from_others)
{
	static const struct {
		const char *name;
		bool valid;
	} rows[] = {
		{ "pvc-1", true }, { "a.b-c.d", true }, { "csi.snap.nvidia.com", true },
		{ "0", true },     { "", false },       { "Pvc", false },
		{ "-a", false },   { "a-", false },     { "a..b", false },
		{ ".a", false },   { "a.", false },     { "a_b", false },
		{ "a.-b", false }, { "a-.b", false },   { "a/b", false },
	};
	char longest[255];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(dns1123_subdomain(rows[i].name) == rows[i].valid, "%s", rows[i].name);
	memset(longest, 'a', 254);
	longest[254] = '\0';
	ck_assert(!dns1123_subdomain(longest));
	longest[253] = '\0';
	ck_assert(dns1123_subdomain(longest));
}
END_TEST

START_TEST(fnv_agrees_with_the_known_vectors)
{
	char hex[33], node[201], volume[65] = "pvc-";

	fnv128_hex("", "", hex);
	ck_assert_str_eq(hex, "6c62272e07bb014262b821756295c58d");
	fnv128_hex("a", "", hex);
	ck_assert_str_eq(hex, "d228cb69101a8caf78912b704e4a141e");
	memset(node, 'n', 200);
	node[200] = '\0';
	memset(volume + 4, 'a', 60);
	volume[64] = '\0';
	fnv128_hex(node, volume, hex);
	ck_assert_str_eq(hex, "0244e6d3b81bd7cffdd745e9815e94bf");
}
END_TEST

START_TEST(control_characters_are_found_unless_they_are_allowed)
{
	static const struct {
		const char *text, *allowed;
		bool has;
	} rows[] = {
		{ "", "", false },
		{ "pvc-1 \xc3\xbc \xc2\xa0", "", false },
		{ "\x01", "", true },
		{ "a\nb", "", true },
		{ "a\nb", "\t\n", false },
		{ "a\rb", "\t\n", true },
		{ "\x1f", "\n", true },
		{ "\x7f", "", true },
		{ "\xc2\x80", "\n", true },
		{ "\xc2\x9f", "", true },
		{ "\x80\x9f\xc2", "", false },
		{ "\xff\n", "", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(has_control(rows[i].text, strlen(rows[i].text), rows[i].allowed) ==
		                      rows[i].has,
		              "row %zu", i);
}
END_TEST

START_TEST(sizes_read_well)
{
	char buf[64];

	ck_assert_str_eq(str_bytes(512, buf), "512 bytes");
	ck_assert_str_eq(str_bytes(1 << 30, buf), "1.0 GiB (1073741824 bytes)");
}
END_TEST

SUITE("text", whole_numbers_are_parsed_or_refused, signed_numbers_keep_their_range,
      booleans_are_gos, times_of_kubernetes_are_read, utf8_is_told_from_bytes,
      what_a_reader_would_not_see_is_spelled_out, kubernetes_names_are_told_from_others,
      fnv_agrees_with_the_known_vectors, control_characters_are_found_unless_they_are_allowed,
      sizes_read_well);
