/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of calls in flight, which also shows hung calls. The RPC server writes the table;
 * health and shutdown read it. Any thread.
 *
 * A call is hung if its caller has left or has received DEADLINE_EXCEEDED, and its thread has not
 * returned some time after that, because it is blocked in a system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define RUNNING_HUNG_MS 5000 /* grace period in which a thread notices that its caller has left */
#define RUNNING_SUBJECT_MAX 254
#define RUNNING_DOING_MAX 400
/* A call that has run for this time is logged (from verbosity 2 on), and later repeatedly. */
#define RUNNING_TELL_MS 10000
#define RUNNING_TELL_AGAIN_MS 60000

struct running;

/* One call, as a member of the caller's own struct. Must be zeroed before running_begin(). */
struct running_call {
	struct running *table; /* NULL: not in a table */
	struct running_call *next;
	/* the pointer to this call in the table; NULL: not in a table */
	struct running_call **place;
	const char *method, *subject;
	int64_t since, left_at; /* monotonic ns; left_at 0: the caller still waits */
	int thread;             /* thread id; 0: not started yet */
	uint64_t id;            /* the caller's number for the log; set before running_begin() */
	unsigned span;          /* its span in the metric */
	char *doing;            /* the awaited condition; NULL: not known */
	int64_t doing_since;
	int64_t tell_at; /* when it is next logged as still running; monotonic ns */
	bool told;
};

/* The reported fields of a call. */
struct running_seen {
	const char *method;
	char subject[RUNNING_SUBJECT_MAX]; /* the volume; "" if the call has no volume */
	double seconds;                    /* since the call arrived */
	int thread;                        /* thread id as in /proc/<pid>/task */
	uint64_t id;
	char doing[RUNNING_DOING_MAX]; /* the awaited condition; "" when not known */
	double doing_seconds;          /* for how long the call has waited for it */
};

struct running *running_new(int hung_ms);
/* no call may run; NULL is allowed; returns NULL */
struct running *running_free(struct running *r);

/* For tests: sets times other than RUNNING_TELL_MS and RUNNING_TELL_AGAIN_MS. */
void running_tell_after(struct running *r, int first_ms, int again_ms);

/*
 * Adds a call to the table. `method` is static. If r is NULL, the call is in no table, and the
 * functions below do nothing.
 */
void running_begin(struct running *r, struct running_call *c, const char *method);
/* The calling thread runs the call until running_end(), and its log lines have the call's id. */
void running_on_thread(struct running_call *c);
/*
 * Sets the condition that this thread's call waits for ("DPUVolume ns/pvc-1: Bound=False"), for the
 * log; NULL: the wait has ended. The wait begins with the first condition and lasts until NULL. No
 * effect on a thread that serves no call, as in tests.
 */
void running_waits(const char *fmt, ...) PRINTF_(1, 2);
/* Sets the call's volume. `subject` (its id) must live until running_end(). */
void running_about(struct running_call *c, const char *subject);
void running_left(struct running_call *c); /* its caller has left */
void running_end(struct running_call *c);  /* logs the end of a hung call */

/*
 * Logs hung calls that were not logged yet, and calls that have been running for a long time. Also
 * records a hung call as the last error of its volume (common/failing.h). Returns when to call it
 * again (monotonic ns), INT64_MAX for never. running_begin() and running_left() may make an earlier
 * call necessary; after running_begin(), tell_at has the time.
 */
int64_t running_watch(struct running *r);
/*
 * Fills `ret` with up to `max` calls, the newest first; returns their total number. If `hung` is
 * set, only hung calls. r NULL: returns 0.
 */
size_t running_list(struct running *r, bool hung, struct running_seen *ret, size_t max);
