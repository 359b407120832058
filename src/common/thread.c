/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks and heaps. A thread that has parsed a message, probed a device or formatted a request has
 * touched 30 to 60 KB of its stack; while it waits, it needs only the few frames of the callers of
 * the wait.
 */
#include "common/thread.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/cleanup.h"

/*
 * glibc gives threads their own heaps, up to eight for each CPU. malloc_trim() does not release the
 * end of those heaps, which is all of their memory after a burst: 41 MB after 2,000 calls. A single
 * heap is not a bottleneck, because each thread has its own malloc cache.
 */
#define HEAPS_MAX 1
/* Bytes below the caller's frame that are kept: the call to madvise() itself, and any red zone. */
#define KEPT 256

/*
 * The kernel finds threads that wait for a lock or a semaphore in a table of the process, which
 * since Linux 6.16 has four slots for each CPU. With 2,000 waiting threads, each wake-up checked a
 * hundred other threads, which took 12% of the CPU time of a call. A table of 1,024 slots takes
 * 64 KB of kernel memory.
 */
#define WAITS_SLOTS 1024UL
#define FUTEX_HASH 78 /* PR_FUTEX_HASH; <linux/prctl.h> of Debian 12 does not have it */
#define FUTEX_HASH_SET_SLOTS 1UL

/* lowest usable address of the stack; 0: no pages are released */
static _Thread_local uintptr_t stack_end;

void thread_one_heap(void)
{
	mallopt(M_ARENA_MAX, HEAPS_MAX);
}

void thread_many_waits(void)
{
	/*
	 * Kernels before 6.16 do not support this call; they have one large table for all
	 * processes.
	 */
	IGNORE_RESULT(prctl(FUTEX_HASH, FUTEX_HASH_SET_SLOTS, WAITS_SLOTS, 0UL, 0UL));
}

void thread_begin(void)
{
	pthread_attr_t attr;
	void *low;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0)
		stack_end = (uintptr_t)low;
	pthread_attr_destroy(&attr);
}

void thread_rest(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) - KEPT;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (!stack_end || here / page * page <= stack_end)
		return;
	IGNORE_RESULT(madvise((void *)stack_end, here / page * page - stack_end, MADV_DONTNEED));
}

int thread_start(void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	rc = pthread_create(&thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return rc;
}
