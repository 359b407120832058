/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may hang in the kernel, on a thread of its own: the caller waits for a bounded time and
 * leaves it then. Of one aside one piece of work runs at a time; while it hangs, no further thread
 * is started. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct aside;

struct aside *aside_new(void);
/* Work that still runs keeps what it needs of the aside. NULL is fine; returns NULL. */
struct aside *aside_free(struct aside *a);

enum { ASIDE_RUNS = 1 };
/*
 * Waits until the work before has ended, and calls `fn` on a new thread with a copy of the `size`
 * bytes at `box`, which is copied back when fn has returned. 0: fn has returned. ASIDE_RUNS: at the
 * deadline this work, or the one before, still ran; `box` is as it was. What pointers in the box
 * lead to must outlive the work: aside_wait(). -1 UNAVAILABLE: no thread can be started. The
 * deadline's cancellation is not looked at.
 */
int aside_run(struct aside *a, void (*fn)(void *box), void *box, size_t size, struct deadline d,
              struct err *err) MUST_CHECK;
/* Waits until no work runs. False: it still does at the deadline. */
bool aside_wait(struct aside *a, struct deadline d) MUST_CHECK;
/* For how long the work that runs now has run, in seconds; 0: none runs. */
double aside_seconds(struct aside *a);
DEFINE_AUTO(struct aside *, aside_free);
