/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of running jobs, and of failed jobs whose error no call has fetched yet. A job that
 * succeeds leaves the list at once, because its result is on the disk. A job is the data of its
 * detached thread, shared with the list and the calls that wait for it. struct jobs exists until
 * its last job is freed, even after jobs_free(). The lock protects the list, the turns and the
 * jobs' fields; no job runs under it. Jobs are never stopped: a tool runs in its own process group,
 * and is not signalled when the driver stops.
 *
 * A job keeps its turn for at most turn_ms, whatever state its tool is in: hung in the kernel,
 * stopped, or working on a slow device. So at_once jobs of a kind can start in each turn_ms, while
 * old jobs keep running. The number of old jobs is limited because of their memory
 * (docs/reference/parameters.md): at the limit, an old job keeps its turn until another job ends.
 */
#include "node/work/job.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/detached.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/str.h"
#include "common/wait_queue.h"

/* maximum interval, in ms, at which a call that waits for a turn checks for one */
#define LOOK_MS 1000
#define MS 1000000LL

struct job {
	struct job *next;
	struct jobs *jobs;
	struct job_order order; /* strings are owned by the job */
	int64_t since;
	unsigned span;      /* the job's entry in the metric */
	_Atomic pid_t tool; /* process ID of the running tool; 0: none */
	/* Protected by jobs->lock: */
	struct detached *work; /* its reference count is also that of the job */
	bool ended, awaited, has_turn, old;
	int rc;
	struct err err;
};

struct jobs {
	pthread_mutex_t lock;
	struct job *list;
	unsigned holders; /* references: one of the owner, and one of each job */
	int64_t turn_ms;
	unsigned turns[JOB_KINDS]; /* number of free turns */
	struct wait_queue freed;   /* woken when a turn is released */
};

struct jobs *jobs_new(unsigned at_once, int64_t turn_ms)
{
	struct jobs *j = xcalloc(1, sizeof(*j));

	pthread_mutex_init(&j->lock, NULL);
	j->holders = 1;
	j->turn_ms = turn_ms;
	metric_add(METRIC_JOBS_OLD, 0, NULL);
	for (size_t i = 0; i < JOB_KINDS; i++)
		j->turns[i] = at_once;
	return j;
}

static void jobs_put(struct jobs *j)
{
	bool last;

	{
		WITH_LOCK(&j->lock);
		assert(j->holders);
		last = --j->holders == 0;
	}
	if (!last)
		return;
	pthread_mutex_destroy(&j->lock);
	free(j);
}

static void job_free(void *box)
{
	struct job *job = box;
	struct jobs *j = job->jobs;

	free((char *)job->order.key);
	free((char *)job->order.what);
	free(job);
	jobs_put(j);
}

/*
 * Removes the job from the list. Returns true if it was on the list; the caller then puts the
 * list's reference, outside the lock.
 */
static bool unlist_locked(struct job *job)
{
	assert_locked(&job->jobs->lock);
	for (struct job **p = &job->jobs->list; *p; p = &(*p)->next)
		if (*p == job) {
			*p = job->next;
			return true;
		}
	return false;
}

struct jobs *jobs_free(struct jobs *j)
{
	for (struct job *job = NULL; j; job = NULL) {
		{
			WITH_LOCK(&j->lock);
			job = j->list;
			if (job)
				unlist_locked(job);
		}
		if (!job)
			break;
		detached_put(job->work);
	}
	if (j)
		jobs_put(j);
	return NULL;
}

static enum err_code why_not(struct deadline d)
{
	return cancel_is_set(d.cancel) ? ERR_CANCELLED : ERR_DEADLINE;
}

/* Logs the result, because no call is waiting for it any more. */
static void job_log_end(const struct job *job, int rc, const struct err *err)
{
	char ms[32];
	const struct log_pair pairs[] = {
		log_text("job", job->order.what),
		log_text("volume", job->order.key),
		log_number("ms", log_ms(job->since, ms)),
		log_text("error", rc ? err->msg : NULL),
	};

	log_pairs(rc ? LOG_WARNING : LOG_INFO, "ended after its call", pairs, ARRAY_LEN(pairs));
}

static double seconds_since(int64_t since)
{
	return (double)(monotonic_ns() - since) / 1e9;
}

/* ---- turns ---- */

/* Adds a description: "mkfs.ext4 of /dev/nvme0n1 (volume pvc-1, process 4711) for 61 s". */
static void job_name(const struct job *job, struct strs *names)
{
	char process[32] = "";
	pid_t tool = job->tool;

	if (tool)
		snprintf(process, sizeof(process), ", process %d", (int)tool);
	strs_addf(names, "%s (volume %s%s) for %.0f s", job->order.what, job->order.key, process,
	          seconds_since(job->since));
}

static void free_turn_locked(struct jobs *j, enum job_kind kind)
{
	assert_locked(&j->lock);
	j->turns[kind]++;
	wait_queue_wake(&j->freed);
}

static unsigned count_running_locked(struct jobs *j, enum job_kind kind)
{
	unsigned n = 0;

	assert_locked(&j->lock);
	for (const struct job *job = j->list; job; job = job->next)
		n += !job->ended && job->order.kind == kind;
	return n;
}

/*
 * Returns true if one more job may run. The limits are for a host with 4 GiB: an mkfs uses 11 MB,
 * an e2fsck 108 MB for a disk of 16 TiB.
 */
static bool may_more_run_locked(struct jobs *j, enum job_kind kind)
{
	static const unsigned most[] = {
		[JOB_FORMAT] = 256, [JOB_CHECK] = JOB_MOST_CHECKS, [JOB_GROW] = 256
	};

	return count_running_locked(j, kind) < most[kind];
}

/*
 * Adds the old jobs to `old`, and those that have become old since the last call to `now`. Releases
 * their turns. Returns the time in ms until the next job becomes old, LOOK_MS at most.
 */
static int job_scan_ages(struct jobs *j, struct strs *old, struct strs *now)
{
	int64_t next = LOOK_MS;

	WITH_LOCK(&j->lock);
	for (struct job *job = j->list; job; job = job->next) {
		int64_t left = j->turn_ms - (monotonic_ns() - job->since) / MS;

		if (job->ended)
			continue;
		if (left > 0) {
			next = left < next ? left : next;
			continue;
		}
		job_name(job, old);
		if (!job->old) {
			job->old = true;
			job_name(job, now);
			metric_add(METRIC_JOBS_OLD, 1, NULL);
		}
		if (!job->has_turn || !may_more_run_locked(j, job->order.kind))
			continue;
		job->has_turn = false;
		free_turn_locked(j, job->order.kind);
	}
	return (int)next;
}

/*
 * Releases the turns of old jobs. Returns the time in ms after which a call that waits for a turn
 * must call this again.
 */
static int give_turns_back(struct jobs *j, struct strs *old)
{
	struct strs now AUTO(strs_clear) = STRS_INIT;
	int next = job_scan_ages(j, old, &now);

	for (size_t i = 0; i < now.n; i++)
		log_msg(LOG_WARNING,
		        "%s: it is slow or its device does not answer; see the node's kernel log "
		        "and the DPU",
		        now.v[i]);
	return next;
}

void jobs_old(struct jobs *j, struct strs *names)
{
	give_turns_back(j, names);
}

static int refuse_job_turn(struct jobs *j, enum job_kind kind, struct deadline d, struct err *err)
{
	static const char *const doing[] = {
		[JOB_FORMAT] = "formatted", [JOB_CHECK] = "checked", [JOB_GROW] = "grown"
	};
	unsigned running;

	{
		WITH_LOCK(&j->lock);
		running = count_running_locked(j, kind);
	}
	return err_set(err, why_not(d),
	               "%u other volumes are being %s on this node; %s before this volume's turn",
	               running, doing[kind],
	               cancel_is_set(d.cancel) ? "the caller cancelled the call" : "time ran out");
}

/*
 * Takes a turn, after a wait if no turn is free. Returns false if no turn became free; the caller
 * retries.
 */
static bool try_turn(struct jobs *j, enum job_kind kind, struct deadline d)
{
	WITH_LOCK(&j->lock);
	if (!j->turns[kind])
		IGNORE_RESULT(wait_queue_wait(&j->freed, &j->lock, d));
	if (!j->turns[kind])
		return false;
	j->turns[kind]--;
	return true;
}

static int job_take_turn(struct jobs *j, enum job_kind kind, struct deadline d, struct err *err)
{
	do {
		struct strs old AUTO(strs_clear) = STRS_INIT;
		int next = give_turns_back(j, &old);

		if (try_turn(j, kind, deadline_clamp(d, next)))
			return 0;
	} while (!deadline_given_up(d));
	return refuse_job_turn(j, kind, d, err);
}

/* ---- a job's thread ---- */

static void job_end(struct job *job, int rc, const struct err *err)
{
	struct jobs *j = job->jobs;
	bool alone, listed;

	{
		WITH_LOCK(&j->lock);
		job->rc = rc;
		job->err = *err;
		job->ended = true;
		alone = !job->awaited;
		metric_end(job->span);
		metric_add(METRIC_JOBS_OLD, job->old ? -1 : 0, NULL);
		if (job->has_turn)
			free_turn_locked(j, job->order.kind);
		job->has_turn = false;
	}
	if (alone)
		job_log_end(job, rc, err);
	{
		WITH_LOCK(&j->lock);
		listed = rc == 0 && unlist_locked(job);
	}
	if (listed)
		detached_put(job->work);
}

static void job_main(void *box)
{
	static const char *const kinds[] = {
		[JOB_FORMAT] = "format", [JOB_CHECK] = "check", [JOB_GROW] = "grow"
	};
	struct job *job = box;
	struct err err = ERR_INIT;
	int rc;

	job->span = metric_begin(METRIC_JOBS, LABELS(kinds[job->order.kind]));
	spawn_show_pid(&job->tool);
	rc = job->order.run(job->order.arg, &err);
	job->order.free(job->order.arg);
	job_end(job, rc, &err);
}

static struct job *job_new(struct jobs *j, const struct job_order *o)
{
	struct job *job = xcalloc(1, sizeof(*job));

	*job = (struct job) {
		.jobs = j,
		.order = *o,
		.since = monotonic_ns(),
		.awaited = true, /* awaited by the call that has started it */
		.has_turn = true,
	};
	job->order.key = xstrdup(o->key);
	job->order.what = xstrdup(o->what);
	WITH_LOCK(&j->lock);
	j->holders++;
	return job;
}

/* Adds the job to the list, which gets a reference, and starts its thread. */
static int job_start(struct job *job, struct err *err)
{
	struct jobs *j = job->jobs;

	WITH_LOCK(&j->lock);
	job->work = detached_start(job_main, job_free, job, err);
	if (!job->work)
		return -1;
	job->next = j->list;
	j->list = job;
	return 0;
}

/* ---- the interface for calls ---- */

static struct job *find_locked(struct jobs *j, const char *key)
{
	assert_locked(&j->lock);
	for (struct job *job = j->list; job; job = job->next)
		if (str_eq(job->order.key, key))
			return job;
	return NULL;
}

/*
 * After the wait, sets *ret and *err to the job's result, or to an error that it is still running.
 * Returns true if the job was removed from the list; the caller then puts the list's reference.
 */
static bool job_claim(struct job *job, struct deadline d, int *ret, struct err *err)
{
	WITH_LOCK(&job->jobs->lock);
	job->awaited = false;
	if (!job->ended) {
		*ret = err_set(err, why_not(d),
		               "%s has been running for %.1f s and continues; the next call "
		               "joins it",
		               job->order.what, seconds_since(job->since));
		return false;
	}
	*ret = job->rc;
	if (job->rc)
		*err = job->err;
	return unlist_locked(job);
}

int job_join(struct jobs *j, const char *key, struct deadline d, struct err *err)
{
	struct job *job;
	int rc;

	{
		WITH_LOCK(&j->lock);
		job = find_locked(j, key);
		if (!job)
			return 0;
		detached_get(job->work);
		job->awaited = true;
	}
	IGNORE_RESULT(detached_wait(job->work, d));
	if (job_claim(job, d, &rc, err))
		detached_put(job->work);
	detached_put(job->work);
	return rc;
}

bool job_runs(struct jobs *j, const char *key)
{
	const struct job *job;

	WITH_LOCK(&j->lock);
	job = find_locked(j, key);
	return job && !job->ended;
}

int job_run(struct jobs *j, const struct job_order *o, struct deadline d, struct err *err)
{
	struct job *job;
	int rc = job_take_turn(j, o->kind, d, err);

	if (rc) {
		o->free(o->arg);
		return rc;
	}
	job = job_new(j, o);
	if (job_start(job, err) == 0)
		return job_join(j, o->key, d, err);
	job_free(job);
	{
		WITH_LOCK(&j->lock);
		free_turn_locked(j, o->kind);
	}
	err_wrap(err, "%s", o->what);
	o->free(o->arg);
	return -1;
}

int job_forget(struct jobs *j, const char *key, struct err *err)
{
	struct job *job;

	{
		WITH_LOCK(&j->lock);
		job = find_locked(j, key);
		if (!job)
			return 0;
		if (!job->ended)
			return err_set(err, ERR_ABORTED,
			               "%s has been running for %.1f s; retry when it has ended",
			               job->order.what, seconds_since(job->since));
		unlist_locked(job);
	}
	detached_put(job->work);
	return 0;
}

/* Returns a reference to the first job whose thread is running, or NULL if no thread is running. */
static struct detached *hold_running(struct jobs *j)
{
	WITH_LOCK(&j->lock);
	for (struct job *job = j->list; job; job = job->next)
		if (!detached_ended(job->work))
			return detached_get(job->work);
	return NULL;
}

static void name_running(struct jobs *j, struct strs *names)
{
	WITH_LOCK(&j->lock);
	for (const struct job *job = j->list; job; job = job->next)
		if (!detached_ended(job->work))
			job_name(job, names);
}

int jobs_wait(struct jobs *j, struct deadline d, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;
	struct detached *work;
	bool ended = true;

	while (ended && (work = hold_running(j))) {
		ended = detached_wait(work, d);
		detached_put(work);
	}
	name_running(j, &names);
	if (!names.n)
		return 0;
	list = strs_join(&names, ", ");
	return err_set(err, ERR_DEADLINE, "%s", list);
}
