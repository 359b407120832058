/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aborting allocators and the per-call arena. The arena is a list of blocks; it frees everything at
 * once, never a single allocation.
 */
#include "common/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BLOCK 1024
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t size, used;
	max_align_t bytes[];
};

static void *or_abort(void *p)
{
	if (!p) {
		alarm(1); /* ends the process even if stderr blocks */
		fputs("snap-csi: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *xmalloc(size_t n)
{
	return or_abort(malloc(n ? n : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return or_abort(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
	return or_abort(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s)
{
	return or_abort(strdup(s));
}

char *xstrdup_or_null(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
	return or_abort(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return or_abort(n < 0 ? NULL : s);
}

static void *block_take(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	void *p;

	assert(n > 0 && n % ARENA_ALIGN == 0);
	if (!b || b->size - b->used < n) {
		size_t size = n > ARENA_BLOCK / 4 ? n : ARENA_BLOCK;

		b = xcalloc(1, sizeof(*b) + size);
		b->size = size;
		/*
		 * A large allocation gets its own block behind the head, so that the head's free
		 * space stays in use.
		 */
		if (a->head && n > ARENA_BLOCK / 4) {
			b->next = a->head->next;
			a->head->next = b;
		} else {
			b->next = a->head;
			a->head = b;
		}
	}
	p = (char *)b->bytes + b->used;
	b->used += n;
	assert(b->used <= b->size);
	return p;
}

static bool round_up(size_t *n)
{
	if (*n > SIZE_MAX / 2)
		return false;
	*n = (*n + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	if (*n == 0)
		*n = ARENA_ALIGN;
	return true;
}

void *arena_try_alloc(struct arena *a, size_t n)
{
	if (!round_up(&n) || (a->cap && (n > a->cap || a->used > a->cap - n)))
		return NULL;
	a->used += n;
	return block_take(a, n);
}

void *arena_alloc(struct arena *a, size_t n)
{
	if (!round_up(&n))
		or_abort(NULL);
	return block_take(a, n);
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(arena_alloc(a, n), s, n);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		or_abort(NULL);
	s = arena_alloc(a, (size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(s, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return s;
}

void arena_clear(struct arena *a)
{
	while (a->head) {
		struct arena_block *b = a->head;

		a->head = b->next;
		free(b);
	}
	a->used = 0;
}
