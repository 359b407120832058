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

#define RUNNING_HUNG_MS 5000 /* how long a thread may take to notice that its caller has gone */
#define RUNNING_SUBJECT_MAX 254

struct running;

/* One call: a member of the caller's own struct. Zeroed before running_begin(). */
struct running_call {
	struct running *table; /* NULL: not in a table */
	struct running_call *next;
	const char *method, *subject;
	int64_t since, left_at; /* monotonic ns; left_at 0: its caller waits */
	int thread;             /* 0: not started yet */
	bool told;
};

/* What is told of one. */
struct running_seen {
	const char *method;
	char subject[RUNNING_SUBJECT_MAX]; /* the volume; "" when there is none */
	double seconds;                    /* since it came */
	int thread;                        /* as in /proc/<pid>/task */
};

struct running *running_new(int hung_ms);
struct running *running_free(struct running *r); /* no call runs; NULL is fine; returns NULL */

/* `method` is static. r NULL: the call is in no table, and the functions below do nothing. */
void running_begin(struct running *r, struct running_call *c, const char *method);
void running_on_thread(struct running_call *c); /* the calling thread runs it */
/* `subject` (a volume's id) lives until running_end(). */
void running_about(struct running_call *c, const char *subject);
void running_left(struct running_call *c); /* its caller has gone */
void running_end(struct running_call *c);  /* logs the end of one that hung */

/*
 * Logs the calls that hang and were not logged yet. Returns when to call it again, INT64_MAX for
 * never: the time changes with running_left() only.
 */
int64_t running_watch(struct running *r);
/*
 * Fills ret with up to `max`, those that came last first; returns how many there are. `hung`: of
 * those that hang. r NULL: 0.
 */
size_t running_list(struct running *r, bool hung, struct running_seen *ret, size_t max);
