/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, and the memory of a process with thousands of them, of which nearly all wait.
 */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/sanitizer.h"

/* At the top of main(), before any thread: one heap, of which malloc_trim() gives back all. */
void thread_one_heap(void);
/* At the top of main(), too: thousands of threads will wait, and each is to be woken fast. */
void thread_many_waits(void);
/* At the start of a thread whose waits give pages back. */
void thread_begin(void);
/*
 * Before a wait that may take long: gives back the pages of the stack below the caller, which work
 * before the wait has touched. Does nothing on a thread without thread_begin(). The pages cost some
 * microseconds when they are touched again, so a wait that is mostly short calls it only after
 * THREAD_REST_AFTER_MS.
 */
void thread_rest(void);
#define THREAD_REST_AFTER_MS 250

/* The deepest handler needs a quarter of it. Sanitizers need more for the same frames. */
#define THREAD_STACK_BYTES ((size_t)(SANITIZED ? 4096 : 256) * 1024)
/* Calls `fn` on a detached thread with a stack of THREAD_STACK_BYTES. 0, or an errno. */
int thread_start(void *(*fn)(void *arg), void *arg) MUST_CHECK;

/*
 * For a function with large locals that is called on the way to a wait, or after it. The compiler
 * would make it a part of its caller, whose frame stays on the stack while it waits.
 */
#define FRAME_OF_ITS_OWN __attribute__((noinline))
