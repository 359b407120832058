/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: zeroed, aligned, capped, reusable. */
#include <string.h>

#include "common/mem.h"
#include "test/lib/suite.h"

START_TEST(what_an_arena_gives_is_zeroed_and_aligned)
{
	struct arena a = ARENA_INIT(0);

	for (size_t n = 0; n < 3000; n += 7) {
		unsigned char *p = arena_alloc(&a, n);

		ck_assert_uint_eq((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < n; i++)
			ck_assert_uint_eq(p[i], 0);
		memset(p, 0xff, n);
	}
	arena_clear(&a);
}
END_TEST

START_TEST(the_cap_is_kept_and_our_own_needs_pass_it)
{
	struct arena a = ARENA_INIT(1024);

	ck_assert_ptr_nonnull(arena_try_alloc(&a, 1000));
	ck_assert_ptr_null(arena_try_alloc(&a, 1000));
	ck_assert_ptr_null(arena_try_alloc(&a, SIZE_MAX));
	ck_assert_ptr_nonnull(arena_alloc(&a, 100000));
	arena_clear(&a);
	ck_assert_ptr_nonnull(arena_try_alloc(&a, 1000));
	arena_clear(&a);
}
END_TEST

START_TEST(a_large_piece_does_not_spoil_the_small_block)
{
	struct arena a = ARENA_INIT(0);
	char *first = arena_strdup(&a, "first"), *third;

	memset(arena_alloc(&a, 100000), 1, 100000);
	third = arena_printf(&a, "%s-%d", "third", 3);
	ck_assert_str_eq(first, "first");
	ck_assert_str_eq(third, "third-3");
	ck_assert(third - first < 4096);
	arena_clear(&a);
}
END_TEST

SUITE("mem", what_an_arena_gives_is_zeroed_and_aligned, the_cap_is_kept_and_our_own_needs_pass_it,
      a_large_piece_does_not_spoil_the_small_block);
