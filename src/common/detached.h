/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an operation that may hang in the kernel on a detached thread. The thread and all callers
 * that wait for the operation share one box, which the last of them frees. So a caller can leave at
 * its deadline, and another caller can wait for the same operation later. An operation that never
 * returns keeps its thread, its stack and its box. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/err.h"

struct detached;

/*
 * Calls `run` on a new thread. The caller gets a reference, and the thread holds one until `run`
 * has returned. `free_box` is called when the last reference is dropped. Returns NULL with
 * UNAVAILABLE if no thread can be started; the caller then still owns the box.
 */
struct detached *detached_start(void (*run)(void *box), void (*free_box)(void *box), void *box,
                                struct err *err) MUST_CHECK;
struct detached *detached_get(struct detached *d); /* adds a reference; returns d */
/* Drops one reference. NULL is allowed; returns NULL. */
struct detached *detached_put(struct detached *d);
/*
 * Waits until `run` has returned; after that the thread holds no reference and does not use the
 * box. Returns false if the deadline has passed or is cancelled before that.
 */
bool detached_wait(struct detached *d, struct deadline until) MUST_CHECK;
bool detached_ended(struct detached *d);
/* Returns the seconds since the start; 0 if `run` has returned, or if d is NULL. */
double detached_seconds(struct detached *d);

/* A slot runs one operation at a time, and starts no other thread while that operation hangs. */
struct detached_slot;

struct detached_slot *detached_slot_new(void);
/* Frees the slot; an operation that is still running continues. NULL is allowed; returns NULL. */
struct detached_slot *detached_slot_free(struct detached_slot *s);

enum { DETACHED_RUNS = 1 };
/*
 * Waits until the previous operation has ended, then calls `fn` on a new thread with a copy of the
 * `size` bytes at `box`. The copy is copied back after fn has returned. Returns 0 if fn has
 * returned. Returns DETACHED_RUNS if this operation, or the previous one, was still running at the
 * deadline; `box` is then unchanged. Pointers in the box must stay valid until the operation has
 * ended: detached_slot_wait(). Returns -1 with UNAVAILABLE if no thread can be started. The
 * deadline's cancellation is ignored.
 */
int detached_slot_run(struct detached_slot *s, void (*fn)(void *box), void *box, size_t size,
                      struct deadline d, struct err *err) MUST_CHECK;
/*
 * Waits until no operation runs. Returns false if one still runs at the deadline; cancellation is
 * ignored.
 */
bool detached_slot_wait(struct detached_slot *s, struct deadline d) MUST_CHECK;
/* Returns the seconds for which the current operation has run; 0 if none runs. */
double detached_slot_seconds(struct detached_slot *s);
DEFINE_AUTO(struct detached_slot *, detached_slot_free);
