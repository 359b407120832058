/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process with thousands of threads, of which nearly all wait.
 */
#pragma once

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

/*
 * For a function with large locals that is called on the way to a wait, or after it. The compiler
 * would make it a part of its caller, whose frame stays on the stack while it waits.
 */
#define FRAME_OF_ITS_OWN __attribute__((noinline))
