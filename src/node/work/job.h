/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work that may outlive the call that starts it: creating, checking and growing filesystems.
 *
 * There is at most one job per key (a volume ID), each on a thread of its own. A call waits for its
 * job until its deadline. After that the job keeps running, and the next call joins it, that is,
 * waits for the same job. Jobs of each kind take turns: a few run, the others wait. A job that has
 * run for a long time gives its turn to another job and keeps running. Any thread may call; two
 * calls with one key never run concurrently (the RPC layer's volume lock).
 */
#pragma once

#include <stdbool.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"

struct jobs;

/* Each kind has its own turns, so that a long check does not delay new volumes. */
enum job_kind { JOB_FORMAT, JOB_CHECK, JOB_GROW, JOB_KINDS };

struct job_order {
	enum job_kind kind;
	const char *key;
	const char *what; /* for messages: "mkfs.ext4 of /dev/nvme0n1" */
	int (*run)(void *arg, struct err *err);
	void (*free)(void *arg); /* frees arg; called exactly once, even if run() is not called */
	/* owns everything that run() uses, because the call may end first */
	void *arg;
};

/*
 * at_once: the number of turns of each kind. A job that has run for turn_ms is old, whatever its
 * tool does. It is then logged, and its turn passes to another job, unless JOB_MOST_CHECKS checks
 * (for JOB_FORMAT: 256 jobs, more than a node has volumes) are already running.
 */
#define JOB_MOST_CHECKS 32
struct jobs *jobs_new(unsigned at_once, int64_t turn_ms);
/*
 * Frees the jobs; returns NULL. Running jobs continue to their end and keep their memory. `j` may
 * be NULL.
 */
struct jobs *jobs_free(struct jobs *j);
/*
 * Waits for a turn, starts the job and joins it. No job of this key may exist: call job_join()
 * first. DEADLINE_EXCEEDED or CANCELLED: the job could not start in time, or is still running; the
 * message says which.
 */
int job_run(struct jobs *j, const struct job_order *o, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Waits for the job of this key. Returns 0 if the job has succeeded, or if there is no such job.
 * Returns -1 with the job's error (only to one caller), or with DEADLINE_EXCEEDED or CANCELLED if
 * the job is still running.
 */
int job_join(struct jobs *j, const char *key, struct deadline d, struct err *err) MUST_CHECK;
/* Returns true if a job of this key is running. */
bool job_runs(struct jobs *j, const char *key);
/* Discards the result of this key's job, if any. ABORTED: the job is still running. */
int job_forget(struct jobs *j, const char *key, struct err *err) MUST_CHECK;
/*
 * Waits until no job is running. After it has returned 0, no thread of a job has an open
 * descriptor, and all have written their log lines. DEADLINE_EXCEEDED: the message names the jobs
 * that are still running.
 */
int jobs_wait(struct jobs *j, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Adds the old jobs to `names`, with their volumes and ages. This call, and a call that waits for a
 * turn, also releases the turns of old jobs and updates METRIC_JOBS_OLD.
 */
void jobs_old(struct jobs *j, struct strs *names);
