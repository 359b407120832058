/* SPDX-License-Identifier: Apache-2.0 */
/* A resting thread keeps the stack that it uses and releases the rest. */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/thread.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#define STACK (8 * 1024 * 1024) /* ThreadSanitizer uses half of it */
#define DEEP (256 * 1024)       /* touched by the work before the wait */

static size_t resident(void *low, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
	unsigned char *map AUTO(free) = xcalloc(1, n / page + 1);

	ck_assert_int_eq(mincore(low, n, map), 0);
	for (size_t i = 0; i < n / page; i++)
		count += map[i] & 1;
	return count * page;
}

static __attribute__((noinline)) unsigned char work(unsigned char c)
{
	volatile unsigned char used[DEEP];

	for (size_t i = 0; i < sizeof(used); i += 512)
		used[i] = c;
	return used[sizeof(used) / 2];
}

static void waits(int64_t ms)
{
	sem_t never;

	sem_init(&never, 0, 0);
	ck_assert(!sem_wait_until(&never, deadline_in_ms(ms).at));
	sem_destroy(&never);
}

static void waits_for_long(void)
{
	waits(THREAD_REST_AFTER_MS + 50);
}

static void waits_for_a_moment(void)
{
	waits(THREAD_REST_AFTER_MS / 2);
}

struct seen {
	void *stack;
	bool begin;
	void (*rest)(void);
	size_t before, after;
	bool kept;
};

static void *rests(void *arg)
{
	struct seen *s = arg;
	volatile unsigned char mine[3000];

	for (size_t i = 0; i < sizeof(mine); i++)
		mine[i] = (unsigned char)i;
	if (s->begin)
		thread_begin();
	work(7);
	s->before = resident(s->stack, STACK);
	s->rest();
	s->after = resident(s->stack, STACK);
	s->kept = true;
	for (size_t i = 0; i < sizeof(mine); i++)
		s->kept = s->kept && mine[i] == (unsigned char)i;
	work(8); /* and the stack can be used again */
	return NULL;
}

static struct seen run(bool begin, void (*rest)(void))
{
	struct seen s = { .begin = begin, .rest = rest };
	pthread_attr_t attr;
	pthread_t thread;

	s.stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(s.stack != MAP_FAILED);
	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, s.stack, STACK), 0);
	ck_assert_int_eq(pthread_create(&thread, &attr, rests, &s), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	munmap(s.stack, STACK);
	ck_assert(s.kept);
	ck_assert_uint_ge(s.before, DEEP);
	return s;
}

START_TEST(a_thread_that_rests_gives_its_stack_back)
{
	struct seen s = run(true, thread_rest);

	ck_assert_uint_ge(s.before - s.after, DEEP / 2);
}
END_TEST

START_TEST(so_does_one_whose_wait_lasts_and_no_other)
{
	struct seen s = run(true, waits_for_long);

	ck_assert_uint_ge(s.before - s.after, DEEP / 2);
	s = run(true, waits_for_a_moment);
	ck_assert_uint_ge(s.after, s.before);
}
END_TEST

START_TEST(other_threads_keep_theirs)
{
	struct seen s = run(false, thread_rest);

	ck_assert_uint_ge(s.after, s.before);
	thread_rest(); /* the main thread neither */
}
END_TEST

/* The size of the kernel's table of waiting threads: PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS. */
static int slots_for_waits(void)
{
	return prctl(78, 2UL, 0UL, 0UL, 0UL);
}

START_TEST(a_thread_is_woken_without_a_walk_through_all_that_wait)
{
	SKIP_IF(slots_for_waits() < 0, "needs Linux 6.16 or later");
	thread_many_waits();
	ck_assert_int_ge(slots_for_waits(), 1024);
}
END_TEST

static sem_t measured;
static size_t stack_bytes;

static void *measure_stack(void *arg)
{
	pthread_attr_t attr;
	void *low;

	(void)arg;
	ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attr), 0);
	ck_assert_int_eq(pthread_attr_getstack(&attr, &low, &stack_bytes), 0);
	pthread_attr_destroy(&attr);
	sem_post(&measured);
	return NULL;
}

START_TEST(a_started_thread_has_the_common_stack)
{
	sem_init(&measured, 0, 0);
	ck_assert_int_eq(thread_start(measure_stack, NULL), 0);
	ck_assert(sem_wait_until(&measured, wait_limit().at));
	ck_assert_uint_ge(stack_bytes, THREAD_STACK_BYTES - 64 * 1024);
	ck_assert_uint_le(stack_bytes, THREAD_STACK_BYTES + 64 * 1024);
}
END_TEST

SUITE("thread", a_started_thread_has_the_common_stack, a_thread_that_rests_gives_its_stack_back,
      so_does_one_whose_wait_lasts_and_no_other, other_threads_keep_theirs,
      a_thread_is_woken_without_a_walk_through_all_that_wait);
