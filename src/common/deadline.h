/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time limit of an operation, and whether its caller still waits.
 *
 * A deadline is a value passed by copy: a time of CLOCK_MONOTONIC and the cancellation of the call
 * to which the operation belongs. Waits check both; an operation that must not be left half done (a
 * mount, mkfs) checks neither.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"

/*
 * Set once, by the thread that detects that the caller has left; that thread then wakes the waiter,
 * if one is registered. `lock` guards all fields. `wake` runs with the lock held, so it must not
 * block or call a function of this module.
 */
struct cancel {
	pthread_mutex_t lock;
	bool set;
	void (*wake)(void *arg);
	void *arg;
};

#define CANCEL_INIT                               \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}
void cancel_init(struct cancel *c);
void cancel_destroy(struct cancel *c); /* no waiter may be registered */
void cancel_set(struct cancel *c);     /* any thread; idempotent */
bool cancel_is_set(struct cancel *c);  /* NULL: false */
/*
 * Registers the function that wakes the waiting thread. Only one can be registered at a time; fn
 * NULL removes it. Returns true if c is already set: fn is then never called. c NULL: returns
 * false.
 */
bool cancel_on_set(struct cancel *c, void (*fn)(void *arg), void *arg);

#define NS_PER_MS INT64_C(1000000)
#define DEADLINE_NEVER INT64_MAX

struct deadline {
	int64_t at;            /* CLOCK_MONOTONIC in ns, or DEADLINE_NEVER */
	struct cancel *cancel; /* may be NULL; must outlive the deadline */
};

int64_t monotonic_ns(void);
struct deadline deadline_never(void);
struct deadline deadline_in_ms(int64_t ms);
/* Returns the earlier of d and `ms` from now, with d's cancellation. */
struct deadline deadline_clamp(struct deadline d, int64_t ms);
/*
 * Returns a deadline earlier than d by max(min_ms, percent of the time left), but at most by half
 * of the time left. The time between the two deadlines remains for an answer that names the unmet
 * condition.
 */
struct deadline deadline_reserve(struct deadline d, int64_t min_ms, int percent);
/* Returns the milliseconds left, rounded up, >= 0; INT_MAX for never, as poll() needs. */
int deadline_left_ms(struct deadline d);
bool deadline_passed(struct deadline d);
bool deadline_given_up(struct deadline d); /* it has passed or is cancelled */
/* Returns the deadline as a timespec for pthread_cond_clockwait(..., CLOCK_MONOTONIC, ...). */
struct timespec deadline_timespec(struct deadline d);
/* Returns 0, or -1 with ERR_CANCELLED or ERR_DEADLINE "<what>" if the work should stop. */
int deadline_check(struct deadline d, struct err *err, const char *what) MUST_CHECK;
/* Sleeps for `ms`, or until d ends or is cancelled. Returns deadline_check(). */
int deadline_sleep(struct deadline d, int64_t ms, struct err *err, const char *what) MUST_CHECK;
/*
 * Waits until another thread posts the semaphore. Returns true if one has, false at the time `at`
 * (CLOCK_MONOTONIC in ns; DEADLINE_NEVER: never). A long wait releases the pages of the stack
 * (thread_rest()). Threads that wait for one event at a time use this instead of a mutex and a
 * condition variable, because a thread that is woken while the waking thread holds the mutex blocks
 * on it again.
 */
bool sem_wait_until(sem_t *sem, int64_t at);
/*
 * Like sem_wait_until(), but waits until the deadline. Its cancellation posts the semaphore; the
 * function returns at once if the deadline is already cancelled. In each case the caller checks the
 * condition that it waits for.
 */
void sem_wait_deadline(sem_t *sem, struct deadline d);
