/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each piece is preceded by the address of its block, or by NULL if the piece came directly from
 * malloc(). A block counts its pieces, plus one for the parser of its text until the parser has
 * ended or the block is full. The count is not atomic, because all pieces of a block belong to one
 * tree, and a tree belongs to one thread at a time.
 */
#include "common/json_memory.h"

#include <assert.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/sanitizer.h"

/* Lets AddressSanitizer detect accesses to freed memory and between two pieces. */
#if SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define ALIGN sizeof(double)
/* An object of DPF takes four times the size of its text. */
#define BYTES_PER_BYTE 4
#define BLOCK_MIN 1024
#define BLOCK_MAX 8192 /* limits the waste in the last block of a long text */

struct json_block {
	size_t pieces;
	size_t bytes; /* after this header */
};

/* The header before a piece. */
struct piece {
	struct json_block *block;
#if SANITIZE_ADDRESS
	size_t bytes; /* including this header */
#endif
};

_Static_assert(sizeof(struct piece) % ALIGN == 0 && sizeof(struct json_block) % ALIGN == 0 &&
                       ALIGN % _Alignof(void *) == 0,
               "a piece is aligned");

static _Thread_local struct json_text_memory *parsing;

static void release(struct json_block *b)
{
	assert(b->pieces > 0);
	if (--b->pieces)
		return;
	UNPOISON(b + 1, b->bytes);
	free(b);
}

static void next_block(struct json_text_memory *m, size_t n)
{
	size_t bytes = n > m->block_bytes ? n : m->block_bytes;
	struct json_block *b = xmalloc(sizeof(*b) + bytes);

	if (m->block)
		release(m->block);
	*b = (struct json_block) { .pieces = 1, .bytes = bytes };
	m->block = b;
	m->at = (char *)(b + 1);
	m->end = m->at + bytes;
	POISON(m->at, bytes);
}

static struct piece *json_memory_cut(struct json_text_memory *m, size_t n)
{
	struct piece *p;

	if (!m->block || (size_t)(m->end - m->at) < n)
		next_block(m, n);
	p = (void *)m->at;
	m->at += n;
	m->block->pieces++;
	UNPOISON(p, n);
	p->block = m->block;
#if SANITIZE_ADDRESS
	p->bytes = n;
#endif
	POISON(p, sizeof(*p));
	return p;
}

static size_t block_bytes(size_t text_bytes)
{
	if (text_bytes > BLOCK_MAX / BYTES_PER_BYTE)
		return BLOCK_MAX;
	return text_bytes < BLOCK_MIN / BYTES_PER_BYTE ? BLOCK_MIN : text_bytes * BYTES_PER_BYTE;
}

void json_memory_begin(struct json_text_memory *m, size_t text_bytes)
{
	assert(!parsing);
	*m = (struct json_text_memory) { .block_bytes = block_bytes(text_bytes) / ALIGN * ALIGN };
	parsing = m;
}

void json_memory_end(struct json_text_memory *m)
{
	assert(parsing == m);
	parsing = NULL;
	if (m->block)
		release(m->block);
}

void *json_memory_take(size_t n)
{
	size_t whole = (n + sizeof(struct piece) + ALIGN - 1) / ALIGN * ALIGN;
	struct piece *p;

	if (parsing)
		return json_memory_cut(parsing, whole) + 1;
	p = xmalloc(whole);
	p->block = NULL;
	return p + 1;
}

void json_memory_give(void *bytes)
{
	struct json_block *b;
	struct piece *p;

	if (!bytes)
		return;
	p = (struct piece *)bytes - 1;
	UNPOISON(p, sizeof(*p));
	if (!p->block) {
		free(p);
		return;
	}
	b = p->block;
#if SANITIZE_ADDRESS
	POISON(p, p->bytes);
#endif
	release(b);
}
