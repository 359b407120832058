/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work that may hang in the kernel on a thread of its own; the caller waits for a bounded
 * time. An aside runs one piece of work at a time and starts no further thread while that work
 * hangs. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct aside;

struct aside *aside_new(void);
/* Work that still runs keeps its part of the aside. NULL is allowed; returns NULL. */
struct aside *aside_free(struct aside *a);

enum { ASIDE_RUNS = 1 };
/*
 * Waits until the previous work has ended, then calls `fn` on a new thread with a copy of the
 * `size` bytes at `box`, which is copied back when fn has returned. 0: fn has returned. ASIDE_RUNS:
 * this work, or the previous one, still ran at the deadline; `box` is unchanged. Pointers in the
 * box must stay valid until the work has ended: aside_wait(). -1 UNAVAILABLE: no thread can be
 * started. The deadline's cancellation is ignored.
 */
int aside_run(struct aside *a, void (*fn)(void *box), void *box, size_t size, struct deadline d,
              struct err *err) MUST_CHECK;
/* Waits until no work runs. False: it still does at the deadline. */
bool aside_wait(struct aside *a, struct deadline d) MUST_CHECK;
/* How long the current work has run, in seconds; 0: no work runs. */
double aside_seconds(struct aside *a);
DEFINE_AUTO(struct aside *, aside_free);
