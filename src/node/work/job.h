/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may outlive the call that starts it: creating, checking and growing filesystems.
 *
 * One job per key (a volume id), on a thread of its own. A call waits for its job until its
 * deadline; the job keeps running after that, and the next call joins it: waits for the same job.
 * Jobs of a kind take turns: a few run, the others wait. A job that has become old gives its turn
 * to another one and goes on. Any thread may call; two calls with one key never run at once (the
 * RPC layer's volume lock).
 */
#pragma once

#include <stdbool.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"

struct jobs;

/* Each has turns of its own: a long check keeps no new volume waiting. */
enum job_kind { JOB_FORMAT, JOB_CHECK, JOB_GROW, JOB_KINDS };

struct job_order {
	enum job_kind kind;
	const char *key;
	const char *what; /* for texts: "mkfs.ext4 of /dev/nvme0n1" */
	int (*run)(void *arg, struct err *err);
	void (*free)(void *arg); /* of arg; called exactly once, also when run() is not */
	void *arg;               /* owns everything run() needs: the call may end first */
};

/*
 * at_once: the number of turns of each kind. A job that has run for turn_ms is old, whatever its
 * tool does: it is logged, and its turn goes to another job, unless JOB_MOST_CHECKS checks (for
 * JOB_FORMAT: 256 jobs, more than a node has volumes) run already.
 */
#define JOB_MOST_CHECKS 32
struct jobs *jobs_new(unsigned at_once, int64_t turn_ms);
/* Jobs that still run do so to their end and keep what they need. NULL is fine; returns NULL. */
struct jobs *jobs_free(struct jobs *j);
/*
 * Waits until another job may run, starts this one and joins it. No job of this key may be there:
 * job_join() first. DEADLINE_EXCEEDED or CANCELLED: it could not start in time, or still runs; the
 * text says which.
 */
int job_run(struct jobs *j, const struct job_order *o, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Waits for the job of this key. 0: there is none, or it succeeded. -1: its error (returned to one
 * caller only), or it is still running (DEADLINE_EXCEEDED or CANCELLED).
 */
int job_join(struct jobs *j, const char *key, struct deadline d, struct err *err) MUST_CHECK;
/* Does a job of this key run? */
bool job_runs(struct jobs *j, const char *key);
/* Drops the result of this key's job, if there is one. ABORTED: it still runs. */
int job_forget(struct jobs *j, const char *key, struct err *err) MUST_CHECK;
/*
 * Waits until no job runs. 0, or -1 with the jobs that still run (DEADLINE_EXCEEDED). After 0 no
 * thread of a job has an open descriptor, and all of them have written their log lines.
 */
int jobs_wait(struct jobs *j, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Adds to `names` the jobs that are old, with their volumes and ages. Turns are given back, and
 * METRIC_JOBS_OLD is up to date, after this call and while a call waits for a turn.
 */
void jobs_old(struct jobs *j, struct strs *names);
