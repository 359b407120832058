/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a piece of work may take, and whether anybody still wants it.
 *
 * A deadline is a value passed down by copy: a point in CLOCK_MONOTONIC and the
 * cancellation of the call it belongs to. Waits look at both; work that must not
 * be left half done (a mount, mkfs) looks at neither.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"

/*
 * Set once, by the thread that learns that the caller has gone; then wakes the
 * waiter, if one is registered. `lock` guards all fields. `wake` runs under it, so
 * it must not block or call a function of this module.
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
void cancel_destroy(struct cancel *c); /* no waiter is registered */
void cancel_set(struct cancel *c);     /* any thread; idempotent */
bool cancel_is_set(struct cancel *c);  /* NULL: false */
/*
 * Registers the function that wakes the waiting thread, one at a time; fn NULL removes it. Returns
 * true when c is set already: fn is then never called. c NULL: false.
 */
bool cancel_on_set(struct cancel *c, void (*fn)(void *arg), void *arg);

#define NS_PER_MS INT64_C(1000000)
#define DEADLINE_NEVER INT64_MAX

struct deadline {
	int64_t at;            /* CLOCK_MONOTONIC in ns, or DEADLINE_NEVER */
	struct cancel *cancel; /* may be NULL; outlives the deadline */
};

int64_t monotonic_ns(void);
struct deadline deadline_never(void);
struct deadline deadline_in_ms(int64_t ms);
/* The earlier of d and `ms` from now; keeps d's cancellation. */
struct deadline deadline_clamp(struct deadline d, int64_t ms);
/*
 * A deadline earlier than d by max(min_ms, percent of the time left), but by half of the time left
 * at most. In the time between the two, the caller can still be told what was not reached.
 */
struct deadline deadline_reserve(struct deadline d, int64_t min_ms, int percent);
/* Milliseconds left, rounded up, >= 0; INT_MAX for never: fits poll(). */
int deadline_left_ms(struct deadline d);
bool deadline_passed(struct deadline d);
bool deadline_given_up(struct deadline d); /* it has passed, or it is cancelled */
/* As a timespec for pthread_cond_clockwait(..., CLOCK_MONOTONIC, ...). */
struct timespec deadline_timespec(struct deadline d);
/* 0, or -1 with ERR_CANCELLED / ERR_DEADLINE "<what>" when the work should stop. */
int deadline_check(struct deadline d, struct err *err, const char *what) MUST_CHECK;
/* Sleeps `ms` at the most, less when d ends or is cancelled. Returns deadline_check(). */
int deadline_sleep(struct deadline d, int64_t ms, struct err *err, const char *what) MUST_CHECK;
/*
 * Waits until somebody posts; true: somebody has. False: it is `at` (CLOCK_MONOTONIC in ns), which
 * DEADLINE_NEVER never is. A wait that lasts gives back the pages of the stack (thread_rest()). Who
 * waits for one event at a time waits so, and not with a mutex and a condition variable: a thread
 * that is woken by somebody who holds the mutex stops there again.
 */
bool sem_wait_until(sem_t *sem, int64_t at);
/*
 * The same until the deadline. Its cancellation posts the semaphore; returns at once when it is
 * cancelled already. The caller looks at what it waits for in each case.
 */
void sem_wait_deadline(sem_t *sem, struct deadline d);
