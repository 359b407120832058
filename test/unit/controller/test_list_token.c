/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens return unchanged, are short where possible, and no others are accepted. */
#include "controller/list_token.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "test/lib/suite.h"

/* {"v":"meta.k8s.io/v1","rv":123456789,"start":"pvc-01234567-89ab-cdef-0123-456789abcdef\u0000"} */
#define OF_AN_API_SERVER                                                                       \
	"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNDU2Nzg5LCJzdGFydCI6InB2Yy0wMTIzNDU2Ny04OWFi" \
	"LWNkZWYtMDEyMy00NTY3ODlhYmNkZWZcdTAwMDAifQ"

static const struct {
	const char *what, *token;
	char form;
	size_t most; /* bytes */
} rows[] = {
	{ "of an API server", OF_AN_API_SERVER, 't', 128 },
	{ "of snap-sim", "17:dpf/pvc-1", 'r', 64 },
	{ "base64url of what cannot be printed", "AAECAw", 'r', 64 },
	{ "base64url with a rest that is not zero", "YWJ", 'r', 64 },
	{ "base64url that is no whole text", "YWJjZ", 'r', 64 },
	{ "base64 with its padding", "YWI=", 'r', 64 },
	{ "one byte", "x", 'r', 64 },
	{ "other characters", "\xc3\xa4\n", 'r', 64 },
};

START_TEST(a_token_comes_back_as_it_went_out)
{
	struct arena arena = { 0 };
	const char *made = list_token_make("dpf", rows[_i].token, &arena);
	const char *back = list_token_read("dpf", made, &arena);

	ck_assert_msg(made[0] == rows[_i].form && strlen(made) <= rows[_i].most, "%s: %s",
	              rows[_i].what, made);
	ck_assert_msg(str_eq(back, rows[_i].token), "%s: %s", rows[_i].what, back ? back : "none");
	ck_assert_ptr_null(list_token_read("another", made, &arena));
	arena_clear(&arena);
}
END_TEST

START_TEST(a_changed_token_is_none)
{
	struct arena arena = { 0 };
	char *made = arena_strdup(&arena, list_token_make("dpf", OF_AN_API_SERVER, &arena));

	for (size_t i = 0; made[i]; i++) {
		char was = made[i];

		made[i] = was == 'a' ? 'b' : 'a';
		ck_assert_msg(!list_token_read("dpf", made, &arena), "%s", made);
		made[i] = 0;
		ck_assert_msg(i == 0 || !list_token_read("dpf", made, &arena), "%s", made);
		made[i] = was;
	}
	ck_assert_ptr_nonnull(list_token_read("dpf", made, &arena));
	arena_clear(&arena);
}
END_TEST

START_TEST(what_nobody_gave_out_is_none)
{
	static const char *const tokens[] = {
		"invalid-token", "t", "r12345678.", "t00000000.x", "r00000000.x", OF_AN_API_SERVER,
	};
	struct arena arena = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
		ck_assert_msg(!list_token_read("dpf", tokens[i], &arena), "%s", tokens[i]);
	ck_assert_str_eq(list_token_read("dpf", "", &arena), "");
	ck_assert_str_eq(list_token_read("dpf", NULL, &arena), "");
	ck_assert_str_eq(list_token_make("dpf", "", &arena), "");
	arena_clear(&arena);
}
END_TEST

/* The checksum is not a secret: a caller may put a valid one in front of another form. */
START_TEST(a_token_in_another_form_than_it_is_given_out_in_is_none)
{
	static const struct {
		const char *token, *form, *body;
	} others[] = {
		{ "AQID", "t", "\x01\x02\x03" },
		{ "YWJj", "r", "YWJj" },
		{ "YQo", "t", "a\n" },
	};
	struct arena arena = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const char *made = list_token_make("dpf", others[i].token, &arena);
		const char *forged =
			arena_printf(&arena, "%s%.9s%s", others[i].form, made + 1, others[i].body);

		ck_assert_str_ne(made, forged);
		ck_assert_msg(!list_token_read("dpf", forged, &arena), "%s", forged);
	}
	arena_clear(&arena);
}
END_TEST

SUITE("list_token", LOOP(a_token_comes_back_as_it_went_out, ARRAY_LEN(rows)),
      a_changed_token_is_none, a_token_in_another_form_than_it_is_given_out_in_is_none,
      what_nobody_gave_out_is_none);
