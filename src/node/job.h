/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may outlive the call which starts it: making and checking filesystems.
 *
 * One job per key (a volume id), on a thread of its own. A call waits for its job until its
 * deadline; the job keeps running after that, and the next call joins it: waits for the same job.
 * The number of jobs that run at once is limited. Any thread may call; two calls with one key never
 * run at once (the RPC layer's volume lock).
 */
#pragma once

#include "common/deadline.h"
#include "common/err.h"

struct jobs;

struct job_order {
	const char *key;
	const char *what; /* for texts: "mkfs.ext4 of /dev/nvme0n1" */
	int (*run)(void *arg, struct err *err);
	void (*free)(void *arg); /* of arg; called exactly once, also when run() is not */
	void *arg;               /* owns everything run() needs: the call may end first */
};

struct jobs *jobs_new(unsigned at_once);
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
/* Drops the result of this key's job, if there is one. ABORTED: it still runs. */
int job_forget(struct jobs *j, const char *key, struct err *err) MUST_CHECK;
