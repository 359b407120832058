/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process with thousands of threads, of which nearly all wait.
 */
#pragma once

/* At the top of main(), before any thread: one heap, of which malloc_trim() gives back all. */
void thread_one_heap(void);
/* At the start of a thread whose waits give pages back. */
void thread_begin(void);
/*
 * Before a wait that may take long: gives back the pages of the stack below the caller, which work
 * before the wait has touched. Costs a microsecond; does nothing on a thread without
 * thread_begin().
 */
void thread_rest(void);
