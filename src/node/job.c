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
 * A tool on a device that does not answer sleeps in the kernel, and no signal ends it. It is known
 * by two looks: uninterruptible at both, without having been woken in between.
 */
#include "node/job.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/str.h"
#include "common/thread.h"

#define LOOK_MS 1000   /* between two looks of a call that waits for a turn */
#define LET_GO_MS 5000 /* the most that a thread needs between its job's end and its own */
#define STATUS_MAX 8192
#define MS 1000000LL

struct job {
	struct job *next;
	struct jobs *jobs;
	struct job_order order; /* strings are ours */
	int64_t since;
	unsigned span;        /* its entry in the metric */
	int ended_fd;         /* readable once it has ended */
	_Atomic pid_t thread; /* 0: not started yet */
	_Atomic pid_t tool;   /* 0: none runs */
	/* Under jobs->lock: */
	unsigned holders;
	bool listed, ended, awaited, has_turn;
	int64_t asleep_since; /* the look that met it in this sleep; 0: it was not asleep */
	uint64_t wakes;       /* at that look */
	int rc;
	struct err err;
};

struct jobs {
	pthread_mutex_t lock;
	pthread_cond_t let_go; /* threads has become 0 */
	struct job *list;
	unsigned holders; /* the owner, each job and each thread */
	unsigned threads;
	unsigned at_once;
	int64_t hung_ms;
	int turns_fd[JOB_KINDS]; /* semaphores: how many more jobs may run */
};

struct jobs *jobs_new(unsigned at_once, int64_t hung_ms)
{
	struct jobs *j = xcalloc(1, sizeof(*j));

	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->let_go, NULL);
	j->holders = 1;
	j->at_once = at_once;
	j->hung_ms = hung_ms;
	metric_add(METRIC_JOBS_HUNG, 0, NULL);
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

/* ---- looking ---- */

static uint64_t number_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Is it in a sleep that no signal ends? *ret: how often it has been woken in its life. */
static bool is_asleep(const struct job *job, uint64_t *ret)
{
	pid_t tool = job->tool, thread = job->thread;
	char *path AUTO(free) = tool ? xasprintf("/proc/%d/status", (int)tool)
	                             : xasprintf("/proc/self/task/%d/status", (int)thread);
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;

	if (file_read(path, STATUS_MAX, &text, NULL, &ignored) || !strstr(text, "\nState:\tD"))
		return false;
	*ret = number_after(text, "\nvoluntary_ctxt_switches:");
	return true;
}

/* What a look has seen. True: it hangs, and had its turn until now. */
static bool note_look(struct job *job, bool asleep, uint64_t wakes)
{
	WITH_LOCK(&job->jobs->lock);
	if (!asleep || job->ended) {
		job->asleep_since = 0;
		return false;
	}
	if (!job->asleep_since || job->wakes != wakes) {
		job->asleep_since = monotonic_ns();
		job->wakes = wakes;
		return false;
	}
	if (monotonic_ns() - job->asleep_since < job->jobs->hung_ms * MS || !job->has_turn)
		return false;
	job->has_turn = false;
	return true;
}

static void look(struct job *job)
{
	uint64_t wakes = 0;
	bool asleep = is_asleep(job, &wakes);

	if (!note_look(job, asleep, wakes))
		return;
	metric_add(METRIC_JOBS_HUNG, 1, NULL);
	log_msg(LOG_WARNING,
	        "%s (volume %s) hangs: it waits in the kernel since more than %" PRId64
	        " s, as its device does not answer; its turn is given to others",
	        job->order.what, job->order.key, job->jobs->hung_ms / 1000);
	eventfd_write(job->jobs->turns_fd[job->order.kind], 1);
}

/* The first job that runs and is not in `seen`, held; NULL: none. */
static struct job *hold_next(struct jobs *j, const struct job *const *seen, size_t n)
{
	WITH_LOCK(&j->lock);
	for (struct job *job = j->list; job; job = job->next) {
		size_t i = 0;

		while (i < n && seen[i] != job)
			i++;
		if (i < n || job->ended)
			continue;
		job->holders++;
		return job;
	}
	return NULL;
}

/* Looks at each job that runs, and calls fn (may be NULL) with it. */
static void look_at_all(struct jobs *j, void (*fn)(struct job *job, void *arg), void *arg)
{
	struct job *seen[64];
	size_t n = 0;

	while (n < ARRAY_LEN(seen) &&
	       (seen[n] = hold_next(j, (const struct job *const *)seen, n))) {
		look(seen[n]);
		if (fn)
			fn(seen[n], arg);
		n++;
	}
	while (n > 0)
		job_put(seen[--n]);
}

static void name_if_hung(struct job *job, void *arg)
{
	struct strs *names = arg;
	int64_t since;

	{
		WITH_LOCK(&job->jobs->lock);
		since = job->asleep_since;
	}
	if (since && monotonic_ns() - since >= job->jobs->hung_ms * MS)
		strs_addf(names, "%s (volume %s) for %.0f s", job->order.what, job->order.key,
		          seconds_since(job->since));
}

void jobs_hung(struct jobs *j, struct strs *names)
{
	look_at_all(j, name_if_hung, names);
}

static int take_turn(struct jobs *j, enum job_kind kind, struct deadline d, struct err *err)
{
	eventfd_t ignored;

	while (eventfd_read(j->turns_fd[kind], &ignored) < 0) {
		if (wait_readable(j->turns_fd[kind], deadline_clamp(d, LOOK_MS)))
			continue;
		look_at_all(j, NULL, NULL);
		if (deadline_given_up(d))
			return err_set(err, why_not(d),
			               "%u other volumes are being %s on this node; "
			               "%s before it was this one's turn",
			               j->at_once, kind == JOB_FORMAT ? "formatted" : "checked",
			               cancel_is_set(d.cancel) ? "the caller has gone"
			                                       : "time ran out");
	}
	return 0;
}

/* ---- a job's thread ---- */

static void end_job(struct job *job, int rc, const struct err *err)
{
	bool listed, alone, turn;

	{
		WITH_LOCK(&job->jobs->lock);
		job->rc = rc;
		job->err = *err;
		job->ended = true;
		alone = !job->awaited;
		turn = job->has_turn;
		job->has_turn = false;
		listed = job->listed && rc == 0 && unlist_locked(job);
	}
	metric_end(job->span);
	if (!turn) /* it was taken for hung */
		metric_add(METRIC_JOBS_HUNG, -1, NULL);
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
	static const char *const kinds[] = { [JOB_FORMAT] = "format", [JOB_CHECK] = "check" };
	struct job *job = arg;
	struct jobs *j = job->jobs;
	struct err err = ERR_INIT;
	int rc;

	job->span = metric_begin(METRIC_JOBS, LABELS(kinds[job->order.kind]));
	job->thread = gettid();
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

static void name_running(struct job *job, void *arg)
{
	strs_addf(arg, "%s (volume %s) for %.0f s", job->order.what, job->order.key,
	          seconds_since(job->since));
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

	while (ended && (job = hold_next(j, NULL, 0))) {
		ended = wait_readable(job->ended_fd, d);
		job_put(job);
	}
	if (ended) {
		wait_until_let_go(j);
		return 0;
	}
	look_at_all(j, name_running, &names);
	list = strs_join(&names, ", ");
	return err_set(err, ERR_DEADLINE, "%s", list);
}
