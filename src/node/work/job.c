/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the list of jobs that run, and of those that failed and whose error no call has fetched yet.
 * A job that succeeds leaves the list at once, since its result is on the disk. A job is held by
 * its thread, the list and the calls that wait for it; struct jobs lives until its last job has
 * ended, also after jobs_free(). A thread lets go what it holds a moment after its job has ended,
 * which jobs_wait() waits for, too. The lock guards the list and the jobs' fields; no work runs
 * under it. Free turns and the end of a job are eventfds, so that a call waits for them and for its
 * cancellation in one poll(). Stops no job: a tool runs in a process group of its own, and is not
 * signalled when the driver stops.
 *
 * A job holds its turn for turn_ms at most, whatever state its tool is in: hung in the kernel,
 * stopped, or at work on a slow device. So at_once jobs of a kind begin in each turn_ms, and old
 * ones go on beside them. Their number is bounded, because of their memory (docs/parameters.md): at
 * the bound an old job keeps its turn until another job ends.
 */
#include "node/work/job.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/str.h"
#include "common/thread.h"

#define LOOK_MS 1000   /* the longest between two looks of a call that waits for a turn */
#define LET_GO_MS 5000 /* the most that a thread needs between its job's end and its own */
#define MS 1000000LL

struct job {
	struct job *next;
	struct jobs *jobs;
	struct job_order order; /* strings are ours */
	int64_t since;
	unsigned span;      /* its entry in the metric */
	int ended_fd;       /* readable once it has ended */
	_Atomic pid_t tool; /* 0: none runs */
	/* Under jobs->lock: */
	unsigned holders;
	bool listed, ended, awaited, has_turn, old;
	int rc;
	struct err err;
};

struct jobs {
	pthread_mutex_t lock;
	pthread_cond_t let_go; /* threads has become 0 */
	struct job *list;
	unsigned holders; /* the owner, each job and each thread */
	unsigned threads;
	int64_t turn_ms;
	int turns_fd[JOB_KINDS]; /* semaphores: how many more jobs may run */
};

struct jobs *jobs_new(unsigned at_once, int64_t turn_ms)
{
	struct jobs *j = xcalloc(1, sizeof(*j));

	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->let_go, NULL);
	j->holders = 1;
	j->turn_ms = turn_ms;
	metric_add(METRIC_JOBS_OLD, 0, NULL);
	for (size_t i = 0; i < JOB_KINDS; i++)
		j->turns_fd[i] = eventfd(at_once, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
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
	for (size_t i = 0; i < JOB_KINDS; i++)
		close(j->turns_fd[i]);
	pthread_cond_destroy(&j->let_go);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

static void job_free(struct job *job)
{
	struct jobs *j = job->jobs;

	close(job->ended_fd);
	free((char *)job->order.key);
	free((char *)job->order.what);
	free(job);
	jobs_put(j);
}

static void job_put(struct job *job)
{
	bool last;

	{
		WITH_LOCK(&job->jobs->lock);
		assert(job->holders);
		last = --job->holders == 0;
	}
	if (last)
		job_free(job);
}

/* True: it was on the list; the caller puts the list's hold, outside the lock. */
static bool unlist_locked(struct job *job)
{
	assert_locked(&job->jobs->lock);
	for (struct job **p = &job->jobs->list; *p; p = &(*p)->next)
		if (*p == job) {
			*p = job->next;
			job->listed = false;
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
		job_put(job);
	}
	if (j)
		jobs_put(j);
	return NULL;
}

/* ---- waiting ---- */

static void wake(void *arg)
{
	IGNORE_RESULT(eventfd_write(*(int *)arg, 1));
}

/* True: fd is readable. False: the deadline has passed or the caller has gone. */
static bool wait_readable(int fd, struct deadline d)
{
	int wake_fd AUTO(fd) = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct pollfd fds[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
	};

	if (cancel_on_set(d.cancel, wake, &wake_fd))
		wake(&wake_fd);
	thread_rest();
	for (;;) {
		int left = deadline_left_ms(d);
		int n = poll(fds, ARRAY_LEN(fds), left == INT_MAX ? -1 : left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || fds[0].revents || fds[1].revents)
			break;
	}
	(void)cancel_on_set(d.cancel, NULL, NULL);
	return fds[0].revents & POLLIN;
}

static enum err_code why_not(struct deadline d)
{
	return cancel_is_set(d.cancel) ? ERR_CANCELLED : ERR_DEADLINE;
}

/* Nobody waits any more: the log is the only place where this can be read. */
static void log_end(const struct job *job, int rc, const struct err *err)
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

/* "mkfs.ext4 of /dev/nvme0n1 (volume pvc-1, process 4711) for 61 s" */
static void name(const struct job *job, struct strs *names)
{
	char process[32] = "";
	pid_t tool = job->tool;

	if (tool)
		snprintf(process, sizeof(process), ", process %d", (int)tool);
	strs_addf(names, "%s (volume %s%s) for %.0f s", job->order.what, job->order.key, process,
	          seconds_since(job->since));
}

static unsigned count_running_locked(struct jobs *j, enum job_kind kind)
{
	unsigned n = 0;

	assert_locked(&j->lock);
	for (const struct job *job = j->list; job; job = job->next)
		n += !job->ended && job->order.kind == kind;
	return n;
}

/* At most this many run with 4 GiB: an mkfs takes 11 MB, an e2fsck 108 MB of a disk of 16 TiB. */
static bool may_more_run_locked(struct jobs *j, enum job_kind kind)
{
	static const unsigned most[] = {
		[JOB_FORMAT] = 256, [JOB_CHECK] = JOB_MOST_CHECKS, [JOB_GROW] = 256
	};

	return count_running_locked(j, kind) < most[kind];
}

/*
 * Adds the old jobs to `old`, and to `now` those that were not old at the last call. Gives their
 * turns back. Returns ms until the next job becomes old, LOOK_MS at most.
 */
static int look_at_ages(struct jobs *j, struct strs *old, struct strs *now)
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
		name(job, old);
		if (!job->old) {
			job->old = true;
			name(job, now);
			metric_add(METRIC_JOBS_OLD, 1, NULL);
		}
		if (!job->has_turn || !may_more_run_locked(j, job->order.kind))
			continue;
		job->has_turn = false;
		eventfd_write(j->turns_fd[job->order.kind], 1);
	}
	return (int)next;
}

/* Returns ms until it is to be called again by a call that waits for a turn. */
static int give_turns_back(struct jobs *j, struct strs *old)
{
	struct strs now AUTO(strs_clear) = STRS_INIT;
	int next = look_at_ages(j, old, &now);

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

static int no_turn(struct jobs *j, enum job_kind kind, struct deadline d, struct err *err)
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
	               "%u other volumes are being %s on this node; %s before it was this one's "
	               "turn",
	               running, doing[kind],
	               cancel_is_set(d.cancel) ? "the caller has gone" : "time ran out");
}

static int take_turn(struct jobs *j, enum job_kind kind, struct deadline d, struct err *err)
{
	eventfd_t ignored;

	for (;;) {
		struct strs old AUTO(strs_clear) = STRS_INIT;
		int next = give_turns_back(j, &old);

		if (eventfd_read(j->turns_fd[kind], &ignored) == 0)
			return 0;
		if (!wait_readable(j->turns_fd[kind], deadline_clamp(d, next)) &&
		    deadline_given_up(d))
			return no_turn(j, kind, d, err);
	}
}

/* ---- a job's thread ---- */

static void end_job(struct job *job, int rc, const struct err *err)
{
	bool listed, alone, turn, old;

	{
		WITH_LOCK(&job->jobs->lock);
		job->rc = rc;
		job->err = *err;
		job->ended = true;
		alone = !job->awaited;
		turn = job->has_turn;
		old = job->old;
		job->has_turn = false;
		listed = job->listed && rc == 0 && unlist_locked(job);
	}
	metric_end(job->span);
	if (old)
		metric_add(METRIC_JOBS_OLD, -1, NULL);
	if (alone)
		log_end(job, rc, err);
	if (turn)
		eventfd_write(job->jobs->turns_fd[job->order.kind], 1);
	eventfd_write(job->ended_fd, 1);
	if (listed)
		job_put(job);
}

static void thread_begins(struct jobs *j)
{
	WITH_LOCK(&j->lock);
	j->holders++;
	j->threads++;
}

/* The last that a thread does. */
static void thread_ends(struct jobs *j)
{
	{
		WITH_LOCK(&j->lock);
		if (--j->threads == 0)
			pthread_cond_broadcast(&j->let_go);
	}
	jobs_put(j);
}

static void *job_main(void *arg)
{
	static const char *const kinds[] = {
		[JOB_FORMAT] = "format", [JOB_CHECK] = "check", [JOB_GROW] = "grow"
	};
	struct job *job = arg;
	struct jobs *j = job->jobs;
	struct err err = ERR_INIT;
	int rc;

	job->span = metric_begin(METRIC_JOBS, LABELS(kinds[job->order.kind]));
	spawn_show_pid(&job->tool);
	rc = job->order.run(job->order.arg, &err);
	job->order.free(job->order.arg);
	end_job(job, rc, &err);
	job_put(job);
	thread_ends(j);
	return NULL;
}

static int start_thread(struct job *job)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	thread_begins(job->jobs);
	rc = pthread_create(&thread, &attr, job_main, job);
	if (rc)
		thread_ends(job->jobs);
	pthread_attr_destroy(&attr);
	return rc;
}

/* The job with one hold for the list and one for its thread. */
static struct job *job_new(struct jobs *j, const struct job_order *o)
{
	struct job *job = xcalloc(1, sizeof(*job));

	*job = (struct job) {
		.jobs = j,
		.order = *o,
		.since = monotonic_ns(),
		.ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
		.holders = 2,
		.listed = true,
		.awaited = true, /* by the call that starts it */
		.has_turn = true,
	};
	job->order.key = xstrdup(o->key);
	job->order.what = xstrdup(o->what);
	WITH_LOCK(&j->lock);
	j->holders++;
	job->next = j->list;
	j->list = job;
	return job;
}

/* ---- what calls use ---- */

static struct job *find_locked(struct jobs *j, const char *key)
{
	assert_locked(&j->lock);
	for (struct job *job = j->list; job; job = job->next)
		if (str_eq(job->order.key, key))
			return job;
	return NULL;
}

/*
 * After the wait: *ret and *err are the job's result, or say that it still runs. True: it was taken
 * off the list, and the caller puts the list's hold.
 */
static bool claim(struct job *job, struct deadline d, int *ret, struct err *err)
{
	WITH_LOCK(&job->jobs->lock);
	job->awaited = false;
	if (!job->ended) {
		*ret = err_set(err, why_not(d),
		               "%s has been running for %.1f s and goes on; the next call joins it",
		               job->order.what, seconds_since(job->since));
		return false;
	}
	*ret = job->rc;
	if (job->rc)
		*err = job->err;
	return job->listed && unlist_locked(job);
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
		job->holders++;
		job->awaited = true;
	}
	(void)wait_readable(job->ended_fd, d);
	if (claim(job, d, &rc, err))
		job_put(job);
	job_put(job);
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
	int rc = take_turn(j, o->kind, d, err);

	if (rc) {
		o->free(o->arg);
		return rc;
	}
	job = job_new(j, o);
	rc = job->ended_fd < 0 ? EMFILE : start_thread(job);
	if (!rc)
		return job_join(j, o->key, d, err);
	o->free(o->arg);
	eventfd_write(j->turns_fd[o->kind], 1);
	{
		WITH_LOCK(&j->lock);
		unlist_locked(job);
	}
	job_put(job);
	job_put(job);
	err_sys(err, rc, "a thread for %s", o->what);
	return err_recode(err, ERR_UNAVAILABLE);
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
	job_put(job);
	return 0;
}

/* Takes a reference to the first running job; NULL: no job runs. */
static struct job *hold_running(struct jobs *j)
{
	WITH_LOCK(&j->lock);
	for (struct job *job = j->list; job; job = job->next)
		if (!job->ended) {
			job->holders++;
			return job;
		}
	return NULL;
}

static void name_running(struct jobs *j, struct strs *names)
{
	WITH_LOCK(&j->lock);
	for (const struct job *job = j->list; job; job = job->next)
		if (!job->ended)
			name(job, names);
}

static void wait_until_let_go(struct jobs *j)
{
	struct timespec until = deadline_timespec(deadline_in_ms(LET_GO_MS));
	int rc = 0;

	WITH_LOCK(&j->lock);
	while (j->threads && rc == 0)
		rc = pthread_cond_clockwait(&j->let_go, &j->lock, CLOCK_MONOTONIC, &until);
}

int jobs_wait(struct jobs *j, struct deadline d, struct err *err)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char *list AUTO(free) = NULL;
	struct job *job;
	bool ended = true;

	while (ended && (job = hold_running(j))) {
		ended = wait_readable(job->ended_fd, d);
		job_put(job);
	}
	if (ended) {
		wait_until_let_go(j);
		return 0;
	}
	name_running(j, &names);
	list = strs_join(&names, ", ");
	return err_set(err, ERR_DEADLINE, "%s", list);
}
