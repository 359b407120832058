/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: a thread for each task at once, reused while there are tasks, ended when all are done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "rpc/workers.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static atomic_int done, running, most;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t joined = PTHREAD_COND_INITIALIZER;

struct company {
	struct task task;
	int company;          /* it waits until this many run at once */
	_Atomic pid_t thread; /* that has run it */
};

static void run(struct task *task)
{
	struct company *c = (struct company *)task;

	c->thread = gettid();
	pthread_mutex_lock(&lock);
	if (++running > most) {
		most = running;
		pthread_cond_broadcast(&joined);
	}
	while (most < c->company)
		pthread_cond_wait(&joined, &lock);
	running--;
	pthread_mutex_unlock(&lock);
	done++;
}

static void reset(void)
{
	done = running = most = 0;
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

static void *wait_for_the_lock(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/*
 * The number of threads before a pool has any. ThreadSanitizer starts its own thread with our first
 * one, so one is started. It is counted while it certainly runs: the kernel may still count a
 * joined thread.
 */
static int threads_without_workers(void)
{
	pthread_t first;
	int n;

	pthread_mutex_lock(&lock);
	ck_assert_int_eq(pthread_create(&first, NULL, wait_for_the_lock, NULL), 0);
	n = threads_of_this_process() - 1;
	pthread_mutex_unlock(&lock);
	pthread_join(first, NULL);
	return n;
}

START_TEST(no_thread_before_there_is_work)
{
	struct workers *w = workers_new(30000);
	struct company call = { .task.run = run };
	int before = threads_without_workers();

	reset();
	ck_assert(workers_submit(w, &call.task));
	WAIT_UNTIL(done);
	WAIT_UNTIL(threads_of_this_process() <= before + 1);
	ck_assert_int_eq(threads_of_this_process(), before + 1);
	w = workers_free(w);
	ck_assert_ptr_null(w);
}
END_TEST

START_TEST(an_idle_thread_is_used_again)
{
	struct workers *w = workers_new(30000);
	struct company calls[20];

	reset();
	for (int i = 0; i < 20; i++) {
		calls[i] = (struct company) { .task.run = run };
		ck_assert(workers_submit(w, &calls[i].task));
		WAIT_UNTIL(done > i);
		wait_until_idle(&calls[i].thread);
		ck_assert_int_eq(calls[i].thread, calls[0].thread);
	}
	workers_free(w);
}
END_TEST

START_TEST(as_many_run_at_once_as_come)
{
	struct workers *w = workers_new(30000);
	struct company calls[300];

	reset();
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		calls[i] = (struct company) { .task.run = run, .company = ARRAY_LEN(calls) };
		ck_assert(workers_submit(w, &calls[i].task));
	}
	workers_free(w); /* waits for the submitted tasks */
	ck_assert_int_eq(done, ARRAY_LEN(calls));
	ck_assert_int_eq(most, ARRAY_LEN(calls));
}
END_TEST

START_TEST(a_thread_without_work_ends)
{
	struct workers *w = workers_new(50);
	struct company calls[20];
	int before = threads_without_workers();

	reset();
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		calls[i] = (struct company) { .task.run = run, .company = ARRAY_LEN(calls) };
		ck_assert(workers_submit(w, &calls[i].task));
	}
	WAIT_UNTIL(threads_of_this_process() <= before);
	ck_assert_int_eq(done, ARRAY_LEN(calls));
	calls[0] = (struct company) { .task.run = run };
	ck_assert(workers_submit(w, &calls[0].task));
	workers_free(w);
	ck_assert_int_eq(done, ARRAY_LEN(calls) + 1);
}
END_TEST

START_TEST(the_thread_that_became_idle_last_is_used_first)
{
	struct workers *w = workers_new(400);
	struct company calls[4];
	int before = threads_without_workers();

	reset();
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		calls[i] = (struct company) { .task.run = run, .company = ARRAY_LEN(calls) };
		ck_assert(workers_submit(w, &calls[i].task));
	}
	/* Tasks that one thread can run keep one: they are not distributed over the others. */
	WAIT_UNTIL(done == ARRAY_LEN(calls));
	for (int i = 0; i < 500 && threads_of_this_process() > before + 1; i++) {
		calls[0] = (struct company) { .task.run = run };
		ck_assert(workers_submit(w, &calls[0].task));
		WAIT_UNTIL(done > (int)ARRAY_LEN(calls) + i);
		wait_until_idle(&calls[0].thread);
	}
	ck_assert_int_le(threads_of_this_process(), before + 1);
	workers_free(w);
}
END_TEST

static void *submit_many(void *arg)
{
	static __thread struct company calls[500];

	for (int i = 0; i < 500; i++) {
		calls[i] = (struct company) { .task.run = run };
		ck_assert(workers_submit(arg, &calls[i].task));
	}
	WAIT_UNTIL(done == 2000);
	return NULL;
}

START_TEST(several_threads_submit)
{
	struct workers *w = workers_new(30000);
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
      as_many_run_at_once_as_come, a_thread_without_work_ends,
      the_thread_that_became_idle_last_is_used_first, several_threads_submit);
