/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of JSON trees: how little a text needs, and that all of it is freed. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/json_memory.h"
#include "common/mem.h"
#include "test/lib/suite.h"

#define PIECES 300
#define WARM 10
#define TIMES 20

/* Bytes allocated from malloc; 0 with a sanitizer, which detects leaks itself. */
static size_t in_use(void)
{
	return mallinfo2().uordblks;
}

/* malloc and libc keep some memory from the first calls. */
static void leaves_nothing(void (*fn)(size_t row), size_t row)
{
	size_t before;

	for (int i = 0; i < WARM; i++)
		fn(row);
	before = in_use();
	for (int i = 0; i < TIMES; i++)
		fn(row);
	ck_assert_uint_eq(in_use(), before);
}

static void free_in_another_order(char **pieces, size_t n)
{
	unsigned state = 1;

	while (n > 0) {
		size_t i = (state = state * 1103515245 + 12345) / 65536 % n;

		json_memory_give(pieces[i]);
		pieces[i] = pieces[--n];
	}
}

static void take_and_give(size_t text_bytes)
{
	struct json_text_memory m;
	size_t sizes[PIECES];
	char *pieces[PIECES];

	json_memory_begin(&m, text_bytes);
	for (size_t i = 0; i < PIECES; i++) {
		sizes[i] = i == 100 ? 50000 : i * 7 % 200;
		pieces[i] = json_memory_take(sizes[i]);
		ck_assert_uint_eq((uintptr_t)pieces[i] % _Alignof(double), 0);
		memset(pieces[i], (int)i & 0xff, sizes[i]);
		if (i % 10 == 9) /* even while the text is parsed */
			json_memory_give(TAKE(pieces[i]));
	}
	json_memory_end(&m);
	for (size_t i = 0; i < PIECES; i++)
		for (size_t j = 0; pieces[i] && j < sizes[i]; j++)
			if ((unsigned char)pieces[i][j] != (i & 0xff))
				ck_abort_msg("byte %zu of piece %zu", j, i);
	free_in_another_order(pieces, PIECES);
}

START_TEST(pieces_keep_what_is_written_and_their_blocks_go_with_the_last)
{
	static const size_t texts[] = { 0, 4, 1000, 5000, 100000 };

	leaves_nothing(take_and_give, texts[_i]);
}
END_TEST

static void take_outside(size_t n)
{
	char *p = json_memory_take(n);

	memset(p, 1, n);
	json_memory_give(p);
	json_memory_give(NULL);
}

START_TEST(outside_of_a_text_each_piece_is_one_of_malloc)
{
	leaves_nothing(take_outside, 10);
}
END_TEST

static struct json *parsed(const char *text)
{
	struct err err = ERR_INIT;
	struct json *j = NULL;

	ck_assert_msg(json_parse("test", text, strlen(text), &j, &err) == 0, "%s", err.msg);
	return j;
}

/* Parsed, copied and hand-built values in one tree, freed piece by piece. */
static void change_a_tree(size_t row)
{
	struct json *j AUTO(json_free) =
		parsed("{\"a\":{\"b\":[1,2,{\"c\":\"x\"}]},\"d\":\"y\",\"e\":null}");
	struct json *copy = json_copy(j);
	char *text AUTO(free) = NULL;

	(void)row;
	json_remove(j, "a");
	json_set_str(j, "d", "another");
	json_set(j, "copy", copy);
	json_remove(json_sub(j, "copy"), "d");
	json_set(j, "parsed", parsed("[true,{}]"));
	text = json_print(j);
	ck_assert_str_eq(
		text,
		"{\"e\":null,\"d\":\"another\",\"copy\":{\"a\":{\"b\":[1,2,{\"c\":\"x\"}]},\"e\":null},\"parsed\":[true,{}]}");
}

START_TEST(a_tree_of_all_kinds_is_changed_and_leaves_nothing)
{
	leaves_nothing(change_a_tree, 0);
}
END_TEST

static void refuse(size_t row)
{
	static const char *const rows[] = { "{\"a\":[1,2,{\"b\":\"c\"},", "{} {}",
		                            "[\"a\",\"b\" 1]" };
	struct err err = ERR_INIT;
	struct json *j = NULL;

	ck_assert_int_eq(json_parse("test", rows[row], strlen(rows[row]), &j, &err), -1);
	err_clear(&err);
}

START_TEST(what_is_no_json_leaves_nothing)
{
	leaves_nothing(refuse, (size_t)_i);
}
END_TEST

/* malloc() would allocate 50 of them, and free them one by one. */
START_TEST(pieces_of_one_text_are_one_piece_for_malloc)
{
	struct json_text_memory m;
	char *pieces[50];
	size_t before;

	json_memory_begin(&m, 1000);
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
		pieces[i] = json_memory_take(40);
	json_memory_end(&m);
	before = in_use();
	free_in_another_order(pieces + 1, ARRAY_LEN(pieces) - 1);
	ck_assert_uint_eq(in_use(), before);
	json_memory_give(pieces[0]);
	if (before)
		ck_assert_uint_lt(in_use(), before - 50 * 40);
}
END_TEST

SUITE("json_memory", LOOP(pieces_keep_what_is_written_and_their_blocks_go_with_the_last, 5),
      outside_of_a_text_each_piece_is_one_of_malloc,
      a_tree_of_all_kinds_is_changed_and_leaves_nothing, LOOP(what_is_no_json_leaves_nothing, 3),
      pieces_of_one_text_are_one_piece_for_malloc);
