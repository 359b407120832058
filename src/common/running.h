/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that run now, and which of them hang. The RPC server writes the table; health and the
 * end of the process read it. Any thread.
 *
 * A call hangs when its caller has gone, or has got DEADLINE_EXCEEDED, and its thread has not come
 * back a while after that: it is in a system call that the kernel does not end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define RUNNING_HUNG_MS 5000 /* how long a thread may take to notice that its caller has gone */
#define RUNNING_SUBJECT_MAX 254
#define RUNNING_DOING_MAX 400
/* A call that runs so long is logged (from verbosity 2 on), and then again and again. */
#define RUNNING_TELL_MS 10000
#define RUNNING_TELL_AGAIN_MS 60000

struct running;

/* One call: a member of the caller's own struct. Zeroed before running_begin(). */
struct running_call {
	struct running *table; /* NULL: not in a table */
	struct running_call *next;
	struct running_call **place; /* what points to it in the table; NULL: it is in none */
	const char *method, *subject;
	int64_t since, left_at; /* monotonic ns; left_at 0: its caller waits */
	int thread;             /* 0: not started yet */
	uint64_t id;            /* the caller's, for the log; set before running_begin() */
	unsigned span;          /* its entry in the metric */
	char *doing;            /* what it waits for; NULL: that is not known */
	int64_t doing_since;
	int64_t tell_at; /* when it is logged that it still runs */
	bool told;
};

/* What is told of one. */
struct running_seen {
	const char *method;
	char subject[RUNNING_SUBJECT_MAX]; /* the volume; "" when there is none */
	double seconds;                    /* since it came */
	int thread;                        /* as in /proc/<pid>/task */
	uint64_t id;
	char doing[RUNNING_DOING_MAX]; /* what it waits for; "" when that is not known */
	double doing_seconds;          /* since when */
};

struct running *running_new(int hung_ms);
struct running *running_free(struct running *r); /* no call runs; NULL is fine; returns NULL */

/* For tests: other times than RUNNING_TELL_MS and RUNNING_TELL_AGAIN_MS. */
void running_tell_after(struct running *r, int first_ms, int again_ms);

/* `method` is static. r NULL: the call is in no table, and the functions below do nothing. */
void running_begin(struct running *r, struct running_call *c, const char *method);
/* The calling thread runs it, up to running_end(): its log lines have the call's id. */
void running_on_thread(struct running_call *c);
/*
 * What the call of this thread waits for from now on ("DPUVolume ns/pvc-1: Bound=False"), for the
 * log; NULL: it waits no longer. The time since when is that of the first such text, until NULL. A
 * thread without a call, as all threads of tests: nothing happens.
 */
void running_waits(const char *fmt, ...) PRINTF_(1, 2);
/* `subject` (a volume's id) lives until running_end(). */
void running_about(struct running_call *c, const char *subject);
void running_left(struct running_call *c); /* its caller has gone */
void running_end(struct running_call *c);  /* logs the end of one that hung */

/*
 * Logs the calls that hang and were not logged yet, and those that have run for long. Returns when
 * to call it again, INT64_MAX for never: the time changes with running_begin(), whose call has it
 * in tell_at, and running_left().
 */
int64_t running_watch(struct running *r);
/*
 * Fills ret with up to `max`, those that came last first; returns how many there are. `hung`: of
 * those that hang. r NULL: 0.
 */
size_t running_list(struct running *r, bool hung, struct running_seen *ret, size_t max);
