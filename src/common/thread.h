/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, and memory settings for a process with thousands of threads, most of which wait. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/sanitizer.h"

/*
 * Makes all threads share one heap, which malloc_trim() can release completely. Call it at the top
 * of main(), before any thread exists.
 */
void thread_one_heap(void);
/*
 * Prepares the process for thousands of waiting threads, each of which must wake fast. Call it at
 * the top of main(), too.
 */
void thread_many_waits(void);
/* Call it at the start of a thread whose waits release pages. */
void thread_begin(void);
/*
 * Releases the pages of the stack below the caller, which earlier calls have touched. Call it
 * before a wait that may be long. Does nothing on a thread without thread_begin(). Because touching
 * the pages again costs some microseconds, a wait that is mostly short calls it only after
 * THREAD_REST_AFTER_MS.
 */
void thread_rest(void);
#define THREAD_REST_AFTER_MS 250

/* The deepest handler needs a quarter of this size. With sanitizers, frames are larger. */
#define THREAD_STACK_BYTES ((size_t)(SANITIZED ? 4096 : 256) * 1024)
/* Calls `fn` on a detached thread with a stack of THREAD_STACK_BYTES. Returns 0, or an errno. */
int thread_start(void *(*fn)(void *arg), void *arg) MUST_CHECK;

/*
 * For a function with large locals that is called before or after a wait. If the function were
 * inlined, its frame would stay on the stack while its caller waits.
 */
#define FRAME_OF_ITS_OWN __attribute__((noinline))
