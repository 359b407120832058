/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of JSON trees, for common/json.c. A text of 2 KB needs 150 allocations. With
 * malloc() in several threads these took a fifth of the controller's CPU time. So the allocations
 * during the parse of one text are cut out of blocks; a block is freed with the last of its pieces.
 */
#pragma once

#include <stddef.h>

/* On the parser's stack. Used only by this file's functions. */
struct json_text_memory {
	struct json_block *block; /* the current block, from which pieces are cut; NULL: none yet */
	char *at, *end;           /* its free range */
	size_t block_bytes;       /* size of the next block */
};

/*
 * Between the two calls, this thread's allocations are cut out of blocks, whose size depends on the
 * length of the text. Pieces may be freed in any order, before or after json_memory_end(), by one
 * thread at a time. The calls cannot be nested.
 */
void json_memory_begin(struct json_text_memory *m, size_t text_bytes);
void json_memory_end(struct json_text_memory *m);

/*
 * Allocates a piece, aligned for pointers and doubles. Never NULL: the process aborts when it is
 * out of memory.
 */
void *json_memory_take(size_t n) __attribute__((malloc, returns_nonnull));
void json_memory_give(void *p); /* NULL is allowed */
