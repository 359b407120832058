/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory allocation. Small allocations abort the process when memory is exhausted. CSI calls are
 * idempotent and kubelet restarts the pod, so no caller has to handle NULL. Allocations whose size
 * a peer controls are bounded by the message limit, by limits.h, and by an arena with a cap.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xstrdup_or_null(const char *s); /* NULL stays NULL */
char *xasprintf(const char *fmt, ...) PRINTF_(1, 2) __attribute__((returns_nonnull));

/*
 * Memory that is freed all at once. Each call has one arena for all its allocations. Not shared
 * between threads.
 */
struct arena_block;
struct arena {
	struct arena_block *head;
	size_t used, cap; /* bytes from arena_try_alloc(), and their maximum (0: no limit) */
};

#define ARENA_INIT(cap_)                               \
	{                                              \
		.head = NULL, .used = 0, .cap = (cap_) \
	}

/*
 * Returns zeroed memory, aligned for any type; NULL if the cap would be exceeded. For unpacking a
 * peer's messages.
 */
void *arena_try_alloc(struct arena *a, size_t n);
/*
 * Like arena_try_alloc(), but for the driver's own small allocations: ignores the cap, and aborts
 * instead of returning NULL.
 */
void *arena_alloc(struct arena *a, size_t n) __attribute__((returns_nonnull));
char *arena_strdup(struct arena *a, const char *s) __attribute__((returns_nonnull));
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_(2, 3)
	__attribute__((returns_nonnull));
/* Frees everything; the arena is empty and may be used again. */
void arena_clear(struct arena *a);
