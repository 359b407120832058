/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: started when needed, never more than the maximum, nothing lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "rpc/workers.h"
#include "test/lib/suite.h"

static atomic_int done, running, most, order_errors, next_number;

struct numbered {
	struct queued_call queued;
	int number, company; /* order of submission; it waits until so many run at once */
};

static void sleep_ms(int ms)
{
	struct timespec t = { .tv_sec = 0, .tv_nsec = ms * 1000000L };

	nanosleep(&t, NULL);
}

static void run(struct queued_call *queued)
{
	struct numbered *n = (struct numbered *)queued;
	int now = atomic_fetch_add(&running, 1) + 1;

	for (int before = most; now > before && !atomic_compare_exchange_weak(&most, &before, now);)
		;
	if (n->number != atomic_fetch_add(&next_number, 1))
		order_errors++;
	for (int i = 0; i < 5000 && n->company && most < n->company; i++)
		sleep_ms(1);
	running--;
	done++;
}

static void reset(void)
{
	done = running = most = order_errors = next_number = 0;
}

static int threads_of_this_process(void)
{
	FILE *f AUTO(fclose) = fopen("/proc/self/status", "re");
	char line[100];
	int n = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	return n;
}

static void *nothing(void *arg)
{
	return arg;
}

START_TEST(no_thread_before_there_is_work)
{
	struct workers *w = workers_new(8);
	struct numbered call = { .queued.run = run };
	pthread_t first;
	int before;

	/* ThreadSanitizer starts a thread of its own with the first of ours. */
	pthread_create(&first, NULL, nothing, NULL);
	pthread_join(first, NULL);
	before = threads_of_this_process();
	reset();
	ck_assert(workers_submit(w, &call.queued));
	while (!done)
		sleep_ms(1);
	ck_assert_int_eq(threads_of_this_process(), before + 1);
	w = workers_free(w);
	ck_assert_ptr_null(w);
}
END_TEST

START_TEST(an_idle_thread_is_used_again)
{
	struct workers *w = workers_new(8);
	int before = threads_of_this_process();
	struct numbered calls[20];

	reset();
	for (int i = 0; i < 20; i++) {
		calls[i] = (struct numbered) { .queued.run = run, .number = i };
		ck_assert(workers_submit(w, &calls[i].queued));
		while (done <= i)
			sleep_ms(1);
		sleep_ms(2); /* it goes back to sleep */
	}
	ck_assert_int_le(threads_of_this_process(), before + 2);
	ck_assert_int_eq(order_errors, 0);
	workers_free(w);
}
END_TEST

START_TEST(never_more_than_the_maximum)
{
	struct workers *w = workers_new(3);
	struct numbered calls[30];

	reset();
	for (int i = 0; i < 30; i++) {
		calls[i] = (struct numbered) { .queued.run = run, .number = i, .company = 3 };
		ck_assert(workers_submit(w, &calls[i].queued));
	}
	workers_free(w); /* runs what was submitted */
	ck_assert_int_eq(done, 30);
	ck_assert_int_eq(most, 3);
}
END_TEST

START_TEST(one_worker_keeps_the_order)
{
	struct workers *w = workers_new(1);
	struct numbered calls[100];

	reset();
	for (int i = 0; i < 100; i++) {
		calls[i] = (struct numbered) { .queued.run = run, .number = i };
		ck_assert(workers_submit(w, &calls[i].queued));
	}
	workers_free(w);
	ck_assert_int_eq(done, 100);
	ck_assert_int_eq(order_errors, 0);
}
END_TEST

static void *submit_many(void *arg)
{
	static __thread struct numbered calls[500];

	for (int i = 0; i < 500; i++) {
		calls[i] = (struct numbered) { .queued.run = run };
		ck_assert(workers_submit(arg, &calls[i].queued));
	}
	while (done < 2000)
		sleep_ms(1);
	return NULL;
}

START_TEST(several_threads_submit)
{
	struct workers *w = workers_new(4);
	pthread_t t[4];

	reset();
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, submit_many, w);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	workers_free(w);
	ck_assert_int_eq(done, 2000);
}
END_TEST

SUITE("workers", no_thread_before_there_is_work, an_idle_thread_is_used_again,
      never_more_than_the_maximum, one_worker_keeps_the_order, several_threads_submit);
