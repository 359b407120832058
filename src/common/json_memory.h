/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of JSON trees, for common/json.c. A text of 2 KB becomes 150 pieces. Taken from
 * malloc() one by one, while other threads do the same, they were a fifth of the controller's CPU.
 * So what belongs to one text that is parsed is cut out of blocks, which are freed with the last of
 * their pieces.
 */
#pragma once

#include <stddef.h>

/* On the stack of who parses. Of this file's functions only. */
struct json_text_memory {
	struct json_block *block; /* of which pieces are cut; NULL: none yet */
	char *at, *end;           /* its room */
	size_t block_bytes;       /* of the next one */
};

/*
 * Between the two, what this thread takes is cut out of blocks, whose size goes by the length of
 * the text. What was taken is freed in any order, before or behind the end, and by one thread at a
 * time. They cannot be nested.
 */
void json_memory_begin(struct json_text_memory *m, size_t text_bytes);
void json_memory_end(struct json_text_memory *m);

/* Aligned for pointers and doubles. Never NULL: the process ends when there is no memory. */
void *json_memory_take(size_t n) __attribute__((malloc, returns_nonnull));
void json_memory_give(void *p); /* NULL is fine */
