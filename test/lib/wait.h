/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in tests. An event that must come is polled for or given wait_limit(): the limit is far
 * beyond the needs of a loaded machine, so it passes only if the event never comes. No test asserts
 * how long an operation takes. "At once" and "not yet" are proven by the order of events: the
 * condition that would delay the call ends only after the call has returned.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "common/deadline.h"

/* Below the time limit of a test (suite.h), so that the text names the missing event. */
#define WAIT_LIMIT_MS 100000

/* For waits that must end early: a test that waits to the end reaches its limit. */
#define NEVER_MS (24 * 3600 * 1000)

static inline struct deadline wait_limit(void)
{
	return deadline_in_ms(WAIT_LIMIT_MS);
}

/* Sleeps a millisecond. Returns false when the limit has passed. */
static inline bool wait_a_moment(struct deadline limit)
{
	nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL);
	return deadline_left_ms(limit) > 0;
}

/*
 * Waits until the thread whose gettid() is stored there, now or later, waits for an event: 20
 * samples show it asleep without a wake-up. Also returns when the thread has ended.
 */
void wait_until_idle(const _Atomic pid_t *thread);

/* Is the process gone or a zombie? Its other threads may still run. */
bool process_has_ended(pid_t pid);

/* Evaluates the condition each millisecond until it is true; the limit fails the test. */
#define WAIT_UNTIL(condition)                                                             \
	do {                                                                              \
		struct deadline limit_ = wait_limit();                                    \
                                                                                          \
		while (!(condition))                                                      \
			if (!wait_a_moment(limit_))                                       \
				ck_abort_msg("not within %d s: %s", WAIT_LIMIT_MS / 1000, \
				             #condition);                                 \
	} while (0)
