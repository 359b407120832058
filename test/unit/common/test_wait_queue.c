/* SPDX-License-Identifier: Apache-2.0 */
/* A wait ends with a wake-up, with its deadline, or with the cancellation of its own call. */
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/wait_queue.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wait_queue queue;
static unsigned waiting; /* under the lock, as `open` */
static bool open;

struct waiter {
	struct cancel cancel;
	pthread_t thread;
	bool seen;
};

static bool wait_open(struct deadline d)
{
	WITH_LOCK(&lock);
	waiting++;
	while (!open && wait_queue_wait(&queue, &lock, d))
		;
	waiting--;
	return open;
}

static void *wait_main(void *arg)
{
	struct waiter *w = arg;
	struct deadline d = deadline_never();

	d.cancel = &w->cancel;
	w->seen = wait_open(d);
	return NULL;
}

static unsigned count_waiting(void)
{
	WITH_LOCK(&lock);
	return waiting;
}

static void start(struct waiter *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		w[i] = (struct waiter) { .seen = false };
		cancel_init(&w[i].cancel);
		ck_assert_int_eq(pthread_create(&w[i].thread, NULL, wait_main, &w[i]), 0);
	}
	WAIT_UNTIL(count_waiting() == n);
}

static void wake(bool opens)
{
	WITH_LOCK(&lock);
	open = opens;
	wait_queue_wake(&queue);
}

START_TEST(a_cancellation_ends_its_own_wait_and_a_wake_up_ends_all)
{
	struct waiter w[4];

	start(w, ARRAY_LEN(w));
	cancel_set(&w[2].cancel);
	pthread_join(w[2].thread, NULL);
	ck_assert(!w[2].seen);
	wake(false); /* the condition is not true: they continue to wait */
	ck_assert_uint_eq(count_waiting(), 3);
	wake(true);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		if (i != 2) {
			pthread_join(w[i].thread, NULL);
			ck_assert(w[i].seen);
		}
	ck_assert_ptr_null(queue.first);
}
END_TEST

START_TEST(a_deadline_or_a_call_that_has_gone_ends_the_wait)
{
	struct cancel gone = CANCEL_INIT;
	struct deadline d = deadline_never();

	ck_assert(!wait_open(deadline_in_ms(0)));
	ck_assert(!wait_open(deadline_in_ms(20)));
	cancel_set(&gone);
	d.cancel = &gone;
	ck_assert(!wait_open(d));
	ck_assert_ptr_null(queue.first);
}
END_TEST

SUITE("wait_queue", a_cancellation_ends_its_own_wait_and_a_wake_up_ends_all,
      a_deadline_or_a_call_that_has_gone_ends_the_wait);
