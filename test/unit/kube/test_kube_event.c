/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner of watch lines. */
#include "kube/kube_event.h"

#include <string.h>

#include "common/cleanup.h"
#include "test/lib/suite.h"

static const struct {
	const char *what, *line;
	bool good;
	enum event_type type;
	const char *name, *version, *uid; /* NULL: not there */
} rows[] = {
	{ "an event",
	  "{\"type\":\"ADDED\",\"object\":{\"kind\":\"X\",\"metadata\":{\"name\":\"a\","
	  "\"resourceVersion\":"
	  "\"12\",\"uid\":\"u\"},\"spec\":{\"n\":1}}}",
	  true, EVENT_ADDED, "a", "12", "u" },
	{ "members in another order, with spaces",
	  " { \"object\" : { \"spec\" : [ 1 , {\"metadata\":{\"name\":\"no\"}} ] , \"metadata\" : "
	  "{ "
	  "\"uid\" : \"u\" , \"name\" : \"a\" } } , \"type\" : \"DELETED\" } \r",
	  true, EVENT_DELETED, "a", NULL, "u" },
	{ "names elsewhere are not the object's",
	  "{\"type\":\"MODIFIED\",\"object\":{\"name\":\"no\",\"spec\":{\"name\":\"no\"},"
	  "\"metadata\":{"
	  "\"ownerReferences\":[{\"name\":\"no\",\"uid\":\"no\"}],\"labels\":{\"name\":\"no\"},"
	  "\"name\":"
	  "\"yes\"}}}",
	  true, EVENT_MODIFIED, "yes", NULL, NULL },
	{ "brackets, quotes and backslashes in strings",
	  "{\"type\":\"ADDED\",\"object\":{\"a\":\"}]\\\"{\\\\\",\"b\":\"\\\\\\\"\",\"metadata\":{"
	  "\"name\":"
	  "\"a\"}}}",
	  true, EVENT_ADDED, "a", NULL, NULL },
	{ "a bookmark",
	  "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\","
	  "\"creationTimestamp\":null}}}",
	  true, EVENT_BOOKMARK, NULL, "99", NULL },
	{ "an error",
	  "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"metadata\":{},\"code\":410}}",
	  true, EVENT_ERROR, NULL, NULL, NULL },
	{ "an error whose metadata is null",
	  "{\"type\":\"ERROR\",\"object\":{\"metadata\":null,\"code\":410}}", true, EVENT_ERROR,
	  NULL, NULL, NULL },
	{ "numbers and literals",
	  "{\"type\":\"ADDED\",\"x\":-1.5e3,\"y\":true,\"z\":null,\"object\":{\"n\":"
	  "9007199254740993}}",
	  true, EVENT_ADDED, NULL, NULL, NULL },
	{ "an empty object", "{\"type\":\"ADDED\",\"object\":{}}", true, EVENT_ADDED, NULL, NULL,
	  NULL },
	{ "nothing", "", false, 0, NULL, NULL, NULL },
	{ "an unknown type", "{\"type\":\"NEW\",\"object\":{}}", false, 0, NULL, NULL, NULL },
	{ "no object", "{\"type\":\"ADDED\"}", false, 0, NULL, NULL, NULL },
	{ "an object that is none", "{\"type\":\"ADDED\",\"object\":[]}", false, 0, NULL, NULL,
	  NULL },
	{ "cut in a string", "{\"type\":\"ADDED\",\"object\":{\"a\":\"b\\", false, 0, NULL, NULL,
	  NULL },
	{ "cut in an object", "{\"type\":\"ADDED\",\"object\":{\"a\":{", false, 0, NULL, NULL,
	  NULL },
	{ "bytes behind it", "{\"type\":\"ADDED\",\"object\":{}}x", false, 0, NULL, NULL, NULL },
	{ "a name that is a number", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":1}}}",
	  false, 0, NULL, NULL, NULL },
	{ "an array", "[]", false, 0, NULL, NULL, NULL },
	{ "no comma", "{\"type\":\"ADDED\" \"object\":{}}", false, 0, NULL, NULL, NULL },
};

static bool is(struct line_span s, const char *want)
{
	return want ? line_span_eq(s, want) : s.n == 0;
}

START_TEST(a_line_is_read_without_a_tree)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_event e = { 0 };
		bool good = kube_event_scan(rows[i].line, strlen(rows[i].line), &e);
		ck_assert_msg(good == rows[i].good, "%s", rows[i].what);
		if (!good)
			continue;
		ck_assert_msg(e.type == rows[i].type, "%s", rows[i].what);
		ck_assert_msg(is(e.name, rows[i].name), "%s: name", rows[i].what);
		ck_assert_msg(is(e.resource_version, rows[i].version), "%s: version", rows[i].what);
		ck_assert_msg(is(e.uid, rows[i].uid), "%s: uid", rows[i].what);
	}
}
END_TEST

/* Every prefix of every line in memory of exactly its size: ASan detects a read beyond the end. */
START_TEST(no_cut_of_a_line_is_read_beyond)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = strlen(rows[i].line);
		for (size_t cut = 0; cut < n; cut++) {
			struct kube_event e;
			char *part AUTO(free) = malloc(cut ? cut : 1);
			memcpy(part, rows[i].line, cut);
			(void)kube_event_scan(part, cut, &e);
		}
	}
}
END_TEST

START_TEST(the_object_is_the_whole_object)
{
	static const char line[] = "{\"type\":\"ADDED\",\"object\": {\"a\":[1,2]} }";
	struct kube_event e;
	ck_assert(kube_event_scan(line, strlen(line), &e));
	ck_assert(line_span_eq(e.object, "{\"a\":[1,2]}"));
}
END_TEST

START_TEST(members_are_found_by_their_name)
{
	static const struct {
		const char *what, *object;
		bool good;
		const char *a, *b; /* "": not there */
		bool plain;        /* a is a text without escapes */
	} cases[] = {
		{ "in any order", " { \"b\" : {\"a\":1} , \"c\":[], \"a\" : \"x\" } ", true,
		  "\"x\"", "{\"a\":1}", true },
		{ "not there", "{\"A\":1}", true, "", "", false },
		{ "an escape", "{\"a\":\"\\u0061\"}", true, "\"\\u0061\"", "", false },
		{ "no text", "{\"a\":null}", true, "null", "", false },
		{ "empty", "{\"a\":\"\"}", true, "\"\"", "", true },
		{ "no object", "[]", false, "", "", false },
		{ "cut", "{\"a\":\"x", false, "", "", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct line_span object = { cases[i].object, strlen(cases[i].object) }, text;
		struct kube_member m[] = { { .name = "a" }, { .name = "b" } };
		ck_assert_msg(kube_members(object, m, 2) == cases[i].good, "%s", cases[i].what);
		if (!cases[i].good)
			continue;
		ck_assert_msg(is(m[0].value, *cases[i].a ? cases[i].a : NULL), "%s", cases[i].what);
		ck_assert_msg(is(m[1].value, *cases[i].b ? cases[i].b : NULL), "%s", cases[i].what);
		ck_assert_msg(kube_plain_text(m[0].value, &text) == cases[i].plain, "%s",
		              cases[i].what);
	}
}
END_TEST

/*
 * The parser sees the rest of the object unchanged; a text that is not such an object is not
 * touched.
 */
START_TEST(what_nobody_reads_is_blanked_and_nothing_else)
{
	static const struct {
		const char *what, *before, *after;
	} blanks[] = {
		{ "an object",
		  "{\"metadata\":{\"managedFields\":[{\"f:a\":\"}]\"}],\"uid\":\"u\"},\"spec\":{}}",
		  "{\"metadata\":{\"managedFields\":[]            ,\"uid\":\"u\"},\"spec\":{}}" },
		{ "spaces, and behind other members",
		  "{\"spec\":[1],\"metadata\" : {\"uid\":\"u\",\"managedFields\" : [ 1 ] }}",
		  "{\"spec\":[1],\"metadata\" : {\"uid\":\"u\",\"managedFields\" : []    }}" },
		{ "empty", "{\"metadata\":{\"managedFields\":[]}}",
		  "{\"metadata\":{\"managedFields\":[]}}" },
		{ "elsewhere", "{\"spec\":{\"managedFields\":[1]},\"metadata\":{}}", NULL },
		{ "deeper", "{\"metadata\":{\"labels\":{\"managedFields\":[1]}}}", NULL },
		{ "no list", "{\"metadata\":{\"managedFields\":{\"a\":1}}}", NULL },
		{ "null", "{\"metadata\":{\"managedFields\":null}}", NULL },
		{ "metadata that is none", "{\"metadata\":[{\"managedFields\":[1]}]}", NULL },
		{ "no object", "[{\"metadata\":{\"managedFields\":[1]}}]", NULL },
		{ "cut", "{\"metadata\":{\"managedFields\":[1,2", NULL },
		{ "nothing", "", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(blanks); i++) {
		const char *after = blanks[i].after ? blanks[i].after : blanks[i].before;
		size_t n = strlen(blanks[i].before);
		char *text AUTO(free) = malloc(n + 1);

		memcpy(text, blanks[i].before, n + 1);
		kube_blank_unread(text, n);
		ROW_STR_EQ(blanks[i].what, text, after);
	}
}
END_TEST

START_TEST(a_version_is_a_number_or_unknown)
{
	static const struct {
		const char *text;
		uint64_t number;
	} versions[] = {
		{ "1", 1 },
		{ "4005", 4005 },
		{ "18446744073709551615", UINT64_MAX },
		{ "18446744073709551616", 0 },
		{ "99999999999999999999999", 0 },
		{ "", 0 },
		{ "0", 0 },
		{ "07", 0 },
		{ "-7", 0 },
		{ "7 ", 0 },
		{ "7a", 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		ck_assert_msg(kube_version_number((struct line_span) {
				      versions[i].text, strlen(versions[i].text) }) ==
		                      versions[i].number,
		              "%s", versions[i].text);
}
END_TEST

SUITE("kube_event", what_nobody_reads_is_blanked_and_nothing_else, members_are_found_by_their_name,
      a_line_is_read_without_a_tree, no_cut_of_a_line_is_read_beyond,
      the_object_is_the_whole_object, a_version_is_a_number_or_unknown);
