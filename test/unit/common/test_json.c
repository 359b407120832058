/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: refusals, exact integers, paths, builders, merge patch. */
#include <string.h>

#include "common/json.h"
#include "common/str.h"
#include "test/lib/suite.h"

static struct json *parsed(const char *text)
{
	struct err err = ERR_INIT;
	struct json *j = NULL;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s: %s", text,
	              err.msg);
	return j;
}

START_TEST(what_is_not_one_sound_value_is_refused)
{
	static const char *const rows[] = {
		"", "{", "{}{}", "{\"a\":1} x", "\"a", "\"\\", "\"\\u00", "\xff", "nul", "\"\\x\"",
	};
	struct err err = ERR_INIT;
	struct json *j = NULL;
	char deep[1000];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ck_assert_msg(json_parse("body", rows[i], strlen(rows[i]), &j, &err) == -1, "%s",
		              rows[i]);
		ck_assert_int_eq(err.code, ERR_INVALID);
		ck_assert_int_eq(strncmp(err.msg, "body: not JSON", 14), 0);
		err_clear(&err);
	}
	memset(deep, '[', sizeof(deep));
	ck_assert_int_eq(json_parse("body", deep, sizeof(deep), &j, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(json_parse("body", "{\0}", 3, &j, &err), -1);
	ck_assert_str_eq(err.msg, "body: not JSON: it has a NUL byte");
}
END_TEST

#define BAD "\xef\xbf\xbd" /* U+FFFD */

START_TEST(no_text_makes_a_value_unreadable)
{
	static const struct {
		const char *text, *clean;
		size_t n; /* bytes of the text; 0: up to its NUL */
	} rows[] = {
		{ "\"a\\u0000b\"", "a" BAD "b", 0 },
		{ "\"\\u0000\"", BAD, 0 },
		{ "\"\\u0000\\u0000\"", BAD BAD, 0 },
		{ "\"a\0b\"", "a" BAD "b", 5 },
		{ "\"\\u00g1\"", BAD "00g1", 0 },
		{ "\"\\u\"", BAD, 0 },
		{ "\"\\ud800\"", BAD, 0 },
		{ "\"\\uDFFFx\"", BAD "x", 0 },
		{ "\"\\ud83d\\u0041\"", BAD "A", 0 },
		{ "\"\\ud83d\\ud83d\\ude00\"", BAD "\xf0\x9f\x98\x80", 0 },
		{ "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 0 },
		{ "\"\\ude00\\ud83d\"", BAD BAD, 0 },
		{ "\"a\xff"
		  "b\"",
		  "a" BAD "b", 0 },
		{ "\"\xc0\x80\"", BAD BAD, 0 },
		{ "\"\xed\xa0\x80\"", BAD BAD BAD, 0 },
		{ "\"\xf4\x90\x80\x80\"", BAD BAD BAD BAD, 0 },
		{ "\"\xe2\x82\"", BAD BAD, 0 },
		{ "\"\xff\\\"\xff\"", BAD "\"" BAD, 0 },
		{ "\"\xff\\\\\"", BAD "\\", 0 },
		{ "\"\xff{[\"", BAD "{[", 0 },
		{ "\"\x01\x1f\"", "\x01\x1f", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = rows[i].n ? rows[i].n : strlen(rows[i].text);
		struct json *j AUTO(json_free) = NULL;
		struct err err = ERR_INIT;

		ck_assert_msg(json_parse("it", rows[i].text, n, &j, &err) == 0, "row %zu: %s", i,
		              err.msg);
		ck_assert_str_eq(json_text(j), rows[i].clean);
	}
}
END_TEST

/* An annotation "a\u0000b" is not the annotation "a". */
START_TEST(a_name_that_is_cleaned_is_another_name)
{
	struct json *j AUTO(json_free) = parsed("{\"a\\u0000b\":1,\"a\":2,\"a\\ud800\":3,\"b\":4}");
	struct err err = ERR_INIT;
	int64_t a = 0;

	ck_assert_uint_eq(json_count(j), 4);
	ck_assert_ptr_nonnull(json_member(j, "a" BAD "b"));
	ck_assert_ptr_nonnull(json_member(j, "a" BAD));
	ck_assert_int_eq(json_get_i64(j, "a", &a, &err), 0);
	ck_assert_int_eq(a, 2);
}
END_TEST

/* This many nested lists, next to members that are needed. */
static struct json *parsed_deep(int depth)
{
	struct str text AUTO(str_clear) = STR_INIT(100000);

	str_add(&text, "{\"before\":\"]\",\"deep\":");
	for (int i = 0; i < depth; i++)
		str_add(&text, "[\"[\\\"\",");
	str_add(&text, "1");
	for (int i = 0; i < depth; i++)
		str_add(&text, ",{},\"]\"]");
	str_add(&text, ",\"after\":\"x\"}");
	return parsed(text.ptr);
}

START_TEST(what_is_nested_too_deeply_is_null)
{
	static const int depths[] = { 1, 198, 199, 200, 201, 900, 3000 };

	for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
		struct json *j AUTO(json_free) = parsed_deep(depths[i]);
		const struct json *at = json_at(j, "deep");
		int depth = 0;

		ck_assert_str_eq(json_str(j, "before"), "]");
		ck_assert_str_eq(json_str(j, "after"), "x");
		for (; json_is_array(at); depth++)
			at = json_at(at, "1");
		ck_assert_int_eq(depth, depths[i] < 199 ? depths[i] : 199);
	}
}
END_TEST

START_TEST(an_escaped_backslash_before_u0000_is_no_nul)
{
	struct json *j AUTO(json_free) = parsed("\"a\\\\u0000b\"");

	ck_assert_str_eq(json_text(j), "a\\u0000b");
}
END_TEST

START_TEST(values_are_found_by_path)
{
	struct json *j AUTO(json_free) =
		parsed("{\"a\":{\"b\":[{\"c\":\"x\"}],\"B\":1},\"n\":null,\"k.y/z\":\"v\"}");

	ck_assert_str_eq(json_str(j, "a.b.0.c"), "x");
	ck_assert_ptr_null(json_at(j, "a.b.1"));
	ck_assert_ptr_null(json_at(j, "A"));
	ck_assert_ptr_null(json_at(j, "n"));
	ck_assert_ptr_null(json_at(j, "a.b.0.c.d"));
	ck_assert_str_eq(json_text(json_member(j, "k.y/z")), "v");
	ck_assert_uint_eq(json_count(json_at(j, "a")), 2);
	ck_assert_ptr_null(json_at(NULL, "a"));
}
END_TEST

START_TEST(wrong_types_name_the_path)
{
	struct json *j AUTO(json_free) = parsed("{\"a\":{\"b\":\"x\"}}");
	struct err err = ERR_INIT;
	int64_t i = 5;
	bool b;

	ck_assert_int_eq(json_get_i64(j, "a.c", &i, &err), JSON_ABSENT);
	ck_assert_int_eq(json_get_i64(j, "a.b", &i, &err), -1);
	ck_assert_str_eq(err.msg, "a.b: is not a number");
	ck_assert_int_eq(i, 5);
	err_clear(&err);
	ck_assert_int_eq(json_get_bool(j, "a.b", &b, &err), -1);
}
END_TEST

START_TEST(integers_are_exact_or_refused)
{
	static const struct {
		const char *text;
		int rc;
		int64_t value;
	} rows[] = {
		{ "9007199254740991", 0, 9007199254740991 },
		{ "-9007199254740991", 0, -9007199254740991 },
		{ "9007199254740993", -1, 0 },
		{ "1e400", -1, 0 },
		{ "1.5", -1, 0 },
		{ "4294967296", 0, 4294967296 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *j = parsed(rows[i].text);
		struct err err = ERR_INIT;
		int64_t v = 0;

		ck_assert_msg(json_get_i64(j, "", &v, &err) == rows[i].rc, "%s", rows[i].text);
		ck_assert_int_eq(v, rows[i].value);
		json_free(j);
	}
}
END_TEST

START_TEST(integers_are_written_digit_by_digit)
{
	static const struct {
		int64_t value;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ 999999999999999, "999999999999999" },
		{ 1000000000000000, "1000000000000000" },
		{ 9007199254740993, "9007199254740993" },
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *j AUTO(json_free) = json_int(rows[i].value);
		char *text AUTO(free) = json_print(j);
		struct err err = ERR_INIT;
		int64_t back;

		ck_assert_str_eq(text, rows[i].text);
		ck_assert_int_eq(json_get_i64(j, "", &back, &err), 0);
		ck_assert_int_eq(back, rows[i].value);
	}
}
END_TEST

/* Names of files may be any bytes; readers of the output must be able to parse it. */
START_TEST(what_is_shown_is_utf8_whatever_the_texts_are)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{ "plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
		  "plain \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "a\xff", "a\\xff" },
		{ "\xc3", "\\xc3" },
		{ "\xe2\x82", "\\xe2\\x82" },
		{ "\xe2\x82z\xc3\xbc", "\\xe2\\x82z\xc3\xbc" },
		{ "\xed\xa0\x80\"", "\\xed\\xa0\\x80\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *j AUTO(json_free) = json_object(), *again AUTO(json_free) = NULL;
		struct err err = ERR_INIT;
		char *text AUTO(free) = NULL;

		json_set_str(j, "a", rows[i].text);
		text = json_print_shown(j);
		ck_assert_msg(!json_parse("shown", text, strlen(text), &again, &err), "%zu: %s", i,
		              err.msg);
		ck_assert_str_eq(json_str(again, "a"), rows[i].shown);
		if (utf8_valid(rows[i].text, strlen(rows[i].text)))
			continue;
		json_set(j, rows[i].text, json_string("a name, too"));
		free(text);
		text = json_print_shown(j);
		json_free(TAKE(again));
		ck_assert(!json_parse("shown", text, strlen(text), &again, &err));
	}
}
END_TEST

START_TEST(a_built_tree_prints_and_replaces)
{
	struct json *j AUTO(json_free) = json_object();
	char *text AUTO(free) = NULL;

	json_set_str(j, "a", "1");
	json_set_str(j, "a", "2");
	json_set_str(j, "none", NULL);
	json_set_bool(json_sub(json_sub(j, "s"), "t"), "on", true);
	json_set(j, "l", json_array());
	json_append(json_at_mut(j, "l"), json_int(1));
	text = json_print(j);
	ck_assert_str_eq(text, "{\"a\":\"2\",\"s\":{\"t\":{\"on\":true}},\"l\":[1]}");
}
END_TEST

START_TEST(a_merge_patch_follows_rfc_7386)
{
	static const char *const rows[][3] = {
		{ "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
		{ "{\"a\":\"b\"}", "{\"a\":null}", "{}" },
		{ "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}",
		  "{\"a\":{\"b\":\"d\"}}" },
		{ "{\"a\":[1]}", "{\"a\":[2,3]}", "{\"a\":[2,3]}" },
		{ "{\"a\":\"c\"}", "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"c\"}}" },
		{ "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json *target = parsed(rows[i][0]), *patch = parsed(rows[i][1]);
		struct json *want = parsed(rows[i][2]);

		json_merge_patch(target, patch);
		ck_assert_msg(json_equal(target, want), "row %zu", i);
		json_free(target);
		json_free(patch);
		json_free(want);
	}
}
END_TEST

SUITE("json", no_text_makes_a_value_unreadable, a_name_that_is_cleaned_is_another_name,
      what_is_nested_too_deeply_is_null, what_is_not_one_sound_value_is_refused,
      an_escaped_backslash_before_u0000_is_no_nul, values_are_found_by_path,
      wrong_types_name_the_path, integers_are_exact_or_refused, integers_are_written_digit_by_digit,
      what_is_shown_is_utf8_whatever_the_texts_are, a_built_tree_prints_and_replaces,
      a_merge_patch_follows_rfc_7386);
