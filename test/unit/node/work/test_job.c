/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: the results of a call and its retry if the work takes longer than they may wait. */
#include "test/lib/suite.h"
#include "test/lib/metric_oldest.h"
#include "test/lib/wait.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/spawn.h"
#include "node/work/job.h"
#include "test/lib/skip.h"

/* A limit that no job reaches, and one that each job has reached once it runs. */
#define NEVER_OLD 3600000
#define OLD_AT_ONCE 1

/* Work that ends on request. */
struct gated_work {
	int gate[2];
	int rc;
	_Atomic int started, freed;
};

static void work_init(struct gated_work *w, int rc)
{
	ck_assert_int_eq(pipe(w->gate), 0);
	w->rc = rc;
	w->started = w->freed = 0;
}

static void open_gate(struct gated_work *w)
{
	ck_assert_int_eq(write(w->gate[1], "x", 1), 1);
}

static int run(void *arg, struct err *err)
{
	struct gated_work *w = arg;
	char c;

	w->started++;
	while (read(w->gate[0], &c, 1) != 1)
		;
	return w->rc ? err_set(err, ERR_INTERNAL, "no luck") : 0;
}

static void done(void *arg)
{
	struct gated_work *w = arg;

	w->freed++;
}

static struct job_order order(const char *key, struct gated_work *w)
{
	return (struct job_order) {
		.key = key, .what = "mkfs of x", .run = run, .free = done, .arg = w
	};
}

static int start(struct jobs *j, const char *key, struct gated_work *w, int ms, struct err *err)
{
	struct job_order o = order(key, w);

	err_clear(err);
	return job_run(j, &o, deadline_in_ms(ms), err);
}

static void wait_freed(struct gated_work *w)
{
	WAIT_UNTIL(w->freed == 1);
}

START_TEST(work_that_ends_in_time_answers_its_call)
{
	static const int rcs[] = { 0, -1 };

	for (size_t i = 0; i < ARRAY_LEN(rcs); i++) {
		struct jobs *j = jobs_new(1, NEVER_OLD);
		struct err err = ERR_INIT;
		struct gated_work w;

		work_init(&w, rcs[i]);
		open_gate(&w);
		ck_assert_int_eq(start(j, "a", &w, WAIT_LIMIT_MS, &err), rcs[i]);
		if (rcs[i])
			ck_assert_str_eq(err.msg, "no luck");
		wait_freed(&w);
		/* Its result was returned; there is nothing to join. */
		err_clear(&err);
		ck_assert_int_eq(job_join(j, "a", deadline_in_ms(0), &err), 0);
		jobs_free(j);
	}
}
END_TEST

START_TEST(a_retry_joins_and_gets_the_result_once)
{
	static const int rcs[] = { 0, -1 };

	for (size_t i = 0; i < ARRAY_LEN(rcs); i++) {
		struct jobs *j = jobs_new(1, NEVER_OLD);
		struct err err = ERR_INIT;
		struct gated_work w;

		work_init(&w, rcs[i]);
		ck_assert_int_eq(start(j, "a", &w, 20, &err), -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		ck_assert_msg(strstr(err.msg, "mkfs of x has been running for 0.") &&
		                      strstr(err.msg, "continues"),
		              "%s", err.msg);
		err_clear(&err);
		ck_assert_int_eq(job_join(j, "other", deadline_in_ms(0), &err), 0);
		ck_assert_int_eq(job_join(j, "a", deadline_in_ms(20), &err), -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
		err_clear(&err);
		ck_assert_int_eq(job_forget(j, "a", &err), -1);
		ck_assert_int_eq(err.code, ERR_ABORTED);
		err_clear(&err);
		open_gate(&w);
		ck_assert_int_eq(job_join(j, "a", wait_limit(), &err), rcs[i]);
		err_clear(&err);
		ck_assert_int_eq(job_join(j, "a", deadline_in_ms(0), &err), 0);
		ck_assert_int_eq(w.started, 1);
		jobs_free(j);
	}
}
END_TEST

START_TEST(a_failure_is_kept_until_it_is_asked_for_or_forgotten)
{
	struct jobs *j = jobs_new(1, NEVER_OLD);
	struct err err = ERR_INIT;
	struct gated_work w;

	work_init(&w, -1);
	ck_assert_int_eq(start(j, "a", &w, 20, &err), -1);
	open_gate(&w);
	wait_freed(&w);
	ck_assert_int_eq(jobs_wait(j, wait_limit(), &err), 0);
	err_clear(&err);
	ck_assert_int_eq(job_join(j, "a", deadline_in_ms(0), &err), -1);
	ck_assert_str_eq(err.msg, "no luck");

	w.freed = 0;
	ck_assert_int_eq(start(j, "a", &w, 20, &err), -1);
	open_gate(&w);
	wait_freed(&w);
	err_clear(&err);
	ck_assert_int_eq(jobs_wait(j, wait_limit(), &err), 0);
	ck_assert_int_eq(job_forget(j, "a", &err), 0);
	ck_assert_int_eq(job_join(j, "a", deadline_in_ms(0), &err), 0);
	jobs_free(j);
}
END_TEST

START_TEST(who_waits_for_a_turn_waits_until_his_deadline)
{
	struct jobs *j = jobs_new(1, NEVER_OLD);
	struct err err = ERR_INIT;
	struct gated_work first, second;

	work_init(&first, 0);
	work_init(&second, 0);
	ck_assert_int_eq(start(j, "a", &first, 20, &err), -1);
	ck_assert_int_eq(start(j, "b", &second, 20, &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(err.msg, "1 other volumes are being formatted"), "%s", err.msg);
	ck_assert_int_eq(second.started, 0);
	ck_assert_int_eq(second.freed, 1);
	open_gate(&first);
	open_gate(&second);
	ck_assert_msg(start(j, "b", &second, WAIT_LIMIT_MS, &err) == 0, "%s", err.msg);
	jobs_free(j);
}
END_TEST

START_TEST(each_kind_has_turns_of_its_own)
{
	struct jobs *j = jobs_new(1, NEVER_OLD);
	struct gated_work first, second;
	struct err err = ERR_INIT;
	struct job_order o;

	work_init(&first, 0);
	work_init(&second, 0);
	ck_assert_int_eq(start(j, "a", &first, 20, &err), -1);
	open_gate(&second);
	o = order("b", &second);
	o.kind = JOB_CHECK;
	err_clear(&err);
	ck_assert_msg(job_run(j, &o, wait_limit(), &err) == 0, "%s", err.msg);
	open_gate(&first);
	err_clear(&err);
	ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
	jobs_free(j);
}
END_TEST

/* A tool that is stopped. It writes its pid to the pipe in its argument. */
static int run_stopped(void *arg, struct err *err)
{
	struct gated_work *w = arg;
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	int rc;

	strs_add(&argv, "perl");
	strs_add(&argv, "-e");
	strs_addf(
		&argv,
		"open(F, '>', '/proc/%d/fd/%d'); print F pack('L', $$); close(F); kill 'STOP', $$",
		getpid(), w->gate[1]);
	rc = spawn_run(&argv, deadline_never(), NULL, err);
	return rc < 0 ? -1 : 0;
}

START_TEST(an_old_job_gives_its_turn_back_whatever_it_does)
{
	struct jobs *j = jobs_new(1, OLD_AT_ONCE);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct gated_work stopped, asleep, third;
	struct job_order o = order("a", &stopped);
	struct err err = ERR_INIT;
	char process[64];
	pid_t tool = 0;

	work_init(&stopped, 0);
	o.run = run_stopped;
	ck_assert_int_eq(job_run(j, &o, deadline_in_ms(20), &err), -1);
	ck_assert_int_eq(read(stopped.gate[0], &tool, sizeof(tool)), (int)sizeof(tool));
	work_init(&asleep, 0);
	ck_assert_int_eq(start(j, "b", &asleep, 20, &err), -1);
	ck_assert_msg(strstr(err.msg, "has been running for"), "%s", err.msg);
	work_init(&third, 0);
	open_gate(&third);
	ck_assert_msg(start(j, "c", &third, WAIT_LIMIT_MS, &err) == 0, "%s", err.msg);
	jobs_old(j, &names);
	ck_assert_uint_eq(names.n, 2);
	snprintf(process, sizeof(process), "mkfs of x (volume a, process %d) for ", (int)tool);
	ck_assert_msg(str_has_prefix(names.v[0], "mkfs of x (volume b) for "), "%s", names.v[0]);
	ck_assert_msg(str_has_prefix(names.v[1], process), "%s", names.v[1]);
	ck_assert_int_eq(metric_value(METRIC_JOBS_OLD, NULL), 2);
	ck_assert_int_gt(metric_oldest(METRIC_JOBS), 0);
	ck_assert_int_eq(kill(-tool, SIGKILL), 0);
	open_gate(&asleep);
	ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
	ck_assert_int_eq(metric_value(METRIC_JOBS_OLD, NULL), 0);
	ck_assert_int_eq(metric_oldest(METRIC_JOBS), 0);
	jobs_free(j);
}
END_TEST

START_TEST(an_old_job_that_ends_gives_no_second_turn)
{
	struct jobs *j = jobs_new(1, 200);
	struct gated_work old, second, young, last;
	struct err err = ERR_INIT;

	work_init(&old, 0);
	work_init(&second, 0);
	work_init(&young, 0);
	work_init(&last, 0);
	ck_assert_int_eq(start(j, "a", &old, 0, &err), -1);
	open_gate(&second);
	ck_assert_msg(start(j, "b", &second, WAIT_LIMIT_MS, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(metric_value(METRIC_JOBS_OLD, NULL), 1);
	open_gate(&old);
	ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
	ck_assert_int_eq(start(j, "c", &young, 0, &err), -1);
	ck_assert_int_eq(start(j, "d", &last, 0, &err), -1);
	/* On a machine that stood still for a moment the young one is old, too. */
	ck_assert_msg(strstr(err.msg, "before this volume's turn") ||
	                      metric_value(METRIC_JOBS_OLD, NULL) == 1,
	              "%s", err.msg);
	open_gate(&young);
	open_gate(&last);
	err_clear(&err);
	ck_assert_int_eq(jobs_wait(j, wait_limit(), &err), 0);
	jobs_free(j);
}
END_TEST

START_TEST(old_checks_are_bounded_by_their_memory)
{
	static struct gated_work w[JOB_MOST_CHECKS + 1];
	struct jobs *j = jobs_new(1, OLD_AT_ONCE);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	char keys[JOB_MOST_CHECKS + 1][8];
	struct err err = ERR_INIT;
	struct job_order o;

	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		work_init(&w[i], 0);
		o = order(keys[i], &w[i]);
		o.kind = JOB_CHECK;
		err_clear(&err);
		ck_assert_int_eq(job_run(j, &o, deadline_in_ms(20), &err), -1);
		ck_assert_int_eq(err.code, ERR_DEADLINE);
	}
	ck_assert_msg(strstr(err.msg, "32 other volumes are being checked"), "%s", err.msg);
	jobs_old(j, &names);
	ck_assert_uint_eq(names.n, JOB_MOST_CHECKS);
	ck_assert_int_eq(metric_value(METRIC_JOBS_OLD, NULL), JOB_MOST_CHECKS);
	/* Any job that ends makes room, not only the one with the turn. */
	open_gate(&w[0]);
	open_gate(&w[JOB_MOST_CHECKS]);
	err_clear(&err);
	ck_assert_msg(job_run(j, &o, wait_limit(), &err) == 0, "%s", err.msg);
	for (size_t i = 1; i < JOB_MOST_CHECKS; i++)
		open_gate(&w[i]);
	ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
	ck_assert_int_eq(metric_value(METRIC_JOBS_OLD, NULL), 0);
	jobs_free(j);
}
END_TEST

START_TEST(who_waits_for_all_learns_what_still_runs)
{
	struct jobs *j = jobs_new(2, NEVER_OLD);
	struct gated_work w;
	struct err err = ERR_INIT;

	ck_assert_int_eq(jobs_wait(j, deadline_in_ms(0), &err), 0);
	work_init(&w, -1);
	ck_assert_int_eq(start(j, "a", &w, 20, &err), -1);
	err_clear(&err);
	ck_assert_int_eq(jobs_wait(j, deadline_in_ms(50), &err), -1);
	ck_assert_int_eq(err.code, ERR_DEADLINE);
	ck_assert_msg(str_has_prefix(err.msg, "mkfs of x (volume a) for "), "%s", err.msg);
	open_gate(&w);
	err_clear(&err);
	/* A failed job has ended as well. */
	ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
	jobs_free(j);
}
END_TEST

/*
 * On one processor, a thread that wakes its caller is often preempted before it closes its
 * descriptors. No call waits for every second job, so that its thread has a line to log.
 */
START_TEST(who_has_waited_for_all_finds_nothing_held)
{
	struct jobs *j = jobs_new(2, NEVER_OLD);
	struct err err = ERR_INIT;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int i = 0; i < 400; i++) {
		bool waits = i % 2;
		struct gated_work w;
		int before, after;

		work_init(&w, 0);
		before = dup(0);
		close(before);
		if (waits)
			open_gate(&w);
		ck_assert_int_eq(start(j, "a", &w, waits ? 20000 : 0, &err), waits ? 0 : -1);
		if (!waits)
			open_gate(&w);
		err_clear(&err);
		ck_assert_msg(jobs_wait(j, wait_limit(), &err) == 0, "%s", err.msg);
		after = dup(0);
		close(after);
		ck_assert_msg(after == before, "job %d: descriptor %d is held", i, before);
		close(w.gate[0]);
		close(w.gate[1]);
	}
	jobs_free(j);
}
END_TEST

struct canceller {
	struct cancel cancel;
	pthread_t thread;
};

static void *cancel_soon(void *arg)
{
	struct canceller *c = arg;

	usleep(50000);
	cancel_set(&c->cancel);
	return NULL;
}

START_TEST(a_caller_that_goes_away_leaves_at_once)
{
	struct jobs *j = jobs_new(1, NEVER_OLD);
	struct gated_work w, second;
	struct err err = ERR_INIT;

	work_init(&w, 0);
	work_init(&second, 0);
	for (int i = 0; i < 2; i++) {
		struct canceller c = { 0 };
		struct deadline d = deadline_in_ms(NEVER_MS);
		struct job_order o = i ? order("b", &second) : order("a", &w);

		cancel_init(&c.cancel);
		d.cancel = &c.cancel;
		pthread_create(&c.thread, NULL, cancel_soon, &c);
		err_clear(&err);
		ck_assert_int_eq(job_run(j, &o, d, &err), -1);
		ck_assert_int_eq(err.code, ERR_CANCELLED);
		pthread_join(c.thread, NULL);
		cancel_destroy(&c.cancel);
	}
	open_gate(&w);
	err_clear(&err);
	ck_assert_int_eq(job_join(j, "a", wait_limit(), &err), 0);
	jobs_free(j);
}
END_TEST

static char logged[1000];
static _Atomic bool has_logged;
static void keep_line(void *arg, const char *line)
{
	(void)arg;
	snprintf(logged, sizeof(logged), "%s", line);
	has_logged = true;
}

START_TEST(the_log_says_how_work_ended_that_outlived_its_call)
{
	struct jobs *j = jobs_new(1, NEVER_OLD);
	struct err err = ERR_INIT;
	struct gated_work w;

	work_init(&w, -1);
	log_redirect(keep_line, NULL);
	ck_assert_int_eq(start(j, "pvc-1", &w, 20, &err), -1);
	open_gate(&w);
	wait_freed(&w);
	WAIT_UNTIL(has_logged);
	log_redirect(NULL, NULL);
	ck_assert_msg(strstr(logged, " ended after its call job=\"mkfs of x\" volume=pvc-1 ms=") &&
	                      strstr(logged, " error=\"no luck\""),
	              "%s", logged);
	jobs_free(j);
}
END_TEST

START_TEST(jobs_go_on_after_their_owner)
{
	struct jobs *j = jobs_new(3, NEVER_OLD);
	struct gated_work w[3];
	struct err err = ERR_INIT;
	const char *const keys[] = { "a", "b", "c" };

	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		work_init(&w[i], i == 1 ? -1 : 0);
		ck_assert_int_eq(start(j, keys[i], &w[i], 10, &err), -1);
	}
	open_gate(&w[1]); /* failed, and no call fetches the result */
	wait_freed(&w[1]);
	ck_assert_ptr_null(jobs_free(j));
	ck_assert_ptr_null(jobs_free(NULL));
	open_gate(&w[0]);
	open_gate(&w[2]);
	wait_freed(&w[0]);
	wait_freed(&w[2]);
}
END_TEST

SUITE("job", work_that_ends_in_time_answers_its_call, a_retry_joins_and_gets_the_result_once,
      a_failure_is_kept_until_it_is_asked_for_or_forgotten,
      who_waits_for_a_turn_waits_until_his_deadline, a_caller_that_goes_away_leaves_at_once,
      the_log_says_how_work_ended_that_outlived_its_call, jobs_go_on_after_their_owner,
      each_kind_has_turns_of_its_own, an_old_job_gives_its_turn_back_whatever_it_does,
      an_old_job_that_ends_gives_no_second_turn, old_checks_are_bounded_by_their_memory,
      who_waits_for_all_learns_what_still_runs, who_has_waited_for_all_finds_nothing_held);
