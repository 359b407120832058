/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may hang in the kernel, on a detached thread. The thread and all callers that wait for
 * the work share one box, which the last of them frees: a caller can leave at its deadline, and
 * another one can wait for the same work later. Work that never returns keeps its thread, its stack
 * and its box. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct detached;

/*
 * Calls `run` on a new thread. `free_box` is called with the last reference, of which the caller
 * gets one and the thread has one until `run` has returned. NULL, UNAVAILABLE: no thread can be
 * started; the box stays the caller's.
 */
struct detached *detached_start(void (*run)(void *box), void (*free_box)(void *box), void *box,
                                struct err *err) MUST_CHECK;
struct detached *detached_get(struct detached *d); /* one more reference; returns d */
/* Returns one reference. NULL is allowed; returns NULL. */
struct detached *detached_put(struct detached *d);
/*
 * Waits until `run` has returned; after that the thread has no reference and does not use the box.
 * False: it still runs, and the deadline has passed or is cancelled.
 */
bool detached_wait(struct detached *d, struct deadline until) MUST_CHECK;
bool detached_ended(struct detached *d);
/* Seconds since the start; 0: it has ended. NULL: 0. */
double detached_seconds(struct detached *d);

/* A slot runs one piece of work at a time, and starts no further thread while that one hangs. */
struct detached_slot;

struct detached_slot *detached_slot_new(void);
/* Work that still runs goes on. NULL is allowed; returns NULL. */
struct detached_slot *detached_slot_free(struct detached_slot *s);

enum { DETACHED_RUNS = 1 };
/*
 * Waits until the previous work has ended, then calls `fn` on a new thread with a copy of the
 * `size` bytes at `box`, which is copied back when fn has returned. 0: fn has returned.
 * DETACHED_RUNS: this work, or the previous one, still ran at the deadline; `box` is unchanged.
 * Pointers in the box must stay valid until the work has ended: detached_slot_wait(). -1
 * UNAVAILABLE: no thread can be started. The deadline's cancellation is ignored.
 */
int detached_slot_run(struct detached_slot *s, void (*fn)(void *box), void *box, size_t size,
                      struct deadline d, struct err *err) MUST_CHECK;
/* Waits until no work runs. False: it still does at the deadline; cancellation is ignored. */
bool detached_slot_wait(struct detached_slot *s, struct deadline d) MUST_CHECK;
/* Seconds that the current work has run; 0: no work runs. */
double detached_slot_seconds(struct detached_slot *s);
DEFINE_AUTO(struct detached_slot *, detached_slot_free);
