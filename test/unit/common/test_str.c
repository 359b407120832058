/* SPDX-License-Identifier: Apache-2.0 */
/* Growing strings and string lists. */
#include <string.h>

#include "common/str.h"
#include "test/lib/suite.h"

START_TEST(a_string_grows_and_is_taken)
{
	struct str s = STR_INIT(100000);
	char *taken;

	for (int i = 0; i < 5000; i++)
		ck_assert(str_addf(&s, "%d,", i % 10));
	ck_assert_uint_eq(s.len, 10000);
	taken = str_take(&s);
	ck_assert_uint_eq(strlen(taken), 10000);
	ck_assert_str_eq(s.ptr, "");
	free(taken);
	taken = str_take(&s);
	ck_assert_str_eq(taken, "");
	free(taken);
}
END_TEST

START_TEST(what_passes_the_maximum_is_cut_and_said)
{
	struct str s AUTO(str_clear) = STR_INIT(5);

	ck_assert(str_add(&s, "abc"));
	ck_assert(!str_add(&s, "defg"));
	ck_assert_str_eq(s.ptr, "abcde");
	ck_assert(s.cut);
	ck_assert(!str_add(&s, "x"));
	str_reset(&s);
	ck_assert(!s.cut);
	ck_assert(str_add(&s, "12345"));
}
END_TEST

START_TEST(a_list_owns_sorts_finds_and_joins)
{
	struct strs l AUTO(strs_clear) = STRS_INIT;
	char *joined;

	ck_assert(!strs_has(&l, "b"));
	strs_add(&l, "b");
	strs_addf(&l, "%s%d", "a", 1);
	strs_sort(&l);
	ck_assert(strs_has(&l, "b"));
	ck_assert_ptr_null(l.v[2]);
	joined = strs_join(&l, ", ");
	ck_assert_str_eq(joined, "a1, b");
	free(joined);
}
END_TEST

START_TEST(prefixes_and_suffixes)
{
	ck_assert(str_has_prefix("nvme0n1", "nvme"));
	ck_assert(!str_has_prefix("nv", "nvme"));
	ck_assert(str_has_suffix("a.tmp", ".tmp"));
	ck_assert(!str_has_suffix("tmp", ".tmp"));
	ck_assert(str_eq("a", "a") && !str_eq("a", NULL) && !str_eq(NULL, NULL));
	ck_assert(str_empty(NULL) && str_empty("") && !str_empty("x"));
}
END_TEST

static const struct {
	const char *a, *b;
	bool alike;
} pairs[] = {
	{ "inspect", "inspect", true },
	{ "inspct", "inspect", true },
	{ "inspects", "inspect", true },
	{ "inspekt", "inspect", true },
	{ "isnpect", "inspect", true },
	{ "INSPECT", "inspect", true },
	{ "log-levle", "log-level", true },
	{ "", "a", true },
	{ "inspct", "inspector", false },
	{ "attach", "detach", false },
	{ "", "host", false },
};

START_TEST(a_word_resembles_another_by_one_letter)
{
	ck_assert_msg(str_resembles(pairs[_i].a, pairs[_i].b) == pairs[_i].alike, "%s, %s",
	              pairs[_i].a, pairs[_i].b);
	ck_assert_msg(str_resembles(pairs[_i].b, pairs[_i].a) == pairs[_i].alike, "%s, %s",
	              pairs[_i].b, pairs[_i].a);
}
END_TEST

SUITE("str", a_string_grows_and_is_taken, what_passes_the_maximum_is_cut_and_said,
      a_list_owns_sorts_finds_and_joins, prefixes_and_suffixes,
      LOOP(a_word_resembles_another_by_one_letter, ARRAY_LEN(pairs)));
