/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that outlives the call which began it: making and checking filesystems.
 *
 * One job per key (a volume id), on a thread of its own. A call waits for its job as long as its
 * deadline lets it; then the job goes on, and the next call joins it. Only so many run at once. Any
 * thread may call; two calls with one key never run at once (the RPC layer's volume lock).
 */
#pragma once

#include "common/deadline.h"
#include "common/err.h"

struct jobs;

struct job_order {
	const char *key;
	const char *what; /* for texts: "mkfs.ext4 of /dev/nvme0n1" */
	int (*run)(void *arg, struct err *err);
	void (*free)(void *arg); /* called in any case, exactly once */
	void *arg;               /* owns all that run() needs: the caller may be gone by then */
};

struct jobs *jobs_new(unsigned at_once);
/* Jobs that still run go on to their end, with what they need. NULL is fine; returns NULL. */
struct jobs *jobs_free(struct jobs *j);
/*
 * Waits for a turn, starts the job and joins it. There must be none of this key (job_join()
 * before). No turn in time, or not ended in time: DEADLINE_EXCEEDED or CANCELLED, which of them it
 * was is in the text.
 */
int job_run(struct jobs *j, const struct job_order *o, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Waits for the job of this key. 0: there is none, or it ended well; -1: its error, which is told
 * once, or it goes on.
 */
int job_join(struct jobs *j, const char *key, struct deadline d, struct err *err) MUST_CHECK;
/* Nobody will ask for its result again. ABORTED when it still runs. */
int job_forget(struct jobs *j, const char *key, struct err *err) MUST_CHECK;
