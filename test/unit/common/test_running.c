/* SPDX-License-Identifier: Apache-2.0 */
/* The table of running calls: its entries, hung calls, and their log lines. */
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/metric.h"
#include "common/running.h"
#include "common/str.h"
#include "test/lib/suite.h"

static char logged[4000];
static int lines;

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", line);
	lines++;
}

static void listen_to_log(void)
{
	*logged = '\0';
	lines = 0;
	log_setup(0, false);
	log_redirect(keep_line, NULL);
}

static void expect_said(const char *text)
{
	ck_assert_msg(strstr(logged, text) != NULL, "\"%s\" is not in: %s", text, logged);
}

START_TEST(what_runs_is_listed_until_it_ends)
{
	struct running *r = running_new(RUNNING_HUNG_MS);
	struct running_call a = { 0 }, b = { 0 };
	struct running_seen seen[2];

	running_begin(r, &a, "NodeStageVolume");
	running_about(&a, "pvc-1");
	running_begin(r, &b, "NodeUnstageVolume");
	running_on_thread(&b);
	ck_assert_uint_eq(running_list(r, false, seen, 2), 2);
	ck_assert_str_eq(seen[0].method, "NodeUnstageVolume");
	ck_assert_str_eq(seen[0].subject, "");
	ck_assert_int_gt(seen[0].thread, 0);
	ck_assert_str_eq(seen[1].subject, "pvc-1");
	ck_assert_uint_eq(running_list(r, false, seen, 1), 2); /* more than fit */
	ck_assert_uint_eq(running_list(r, true, NULL, 0), 0);
	running_end(&a);
	ck_assert_uint_eq(running_list(r, false, seen, 2), 1);
	running_end(&b);
	running_end(&b); /* an entry that is in no table is not touched */
	r = running_free(r);
	ck_assert_ptr_null(r);
}
END_TEST

START_TEST(a_call_hangs_when_its_caller_has_gone_and_it_has_not_come_back)
{
	struct running *r = running_new(0);
	struct running_call stays = { 0 }, hangs = { 0 };
	struct running_seen seen;

	listen_to_log();
	running_begin(r, &stays, "NodeStageVolume");
	running_begin(r, &hangs, "NodeUnstageVolume");
	running_about(&hangs, "pvc-1");
	ck_assert_int_ge(running_watch(r), stays.tell_at);
	ck_assert_int_eq(lines, 0);
	running_left(&hangs);
	ck_assert_uint_eq(running_list(r, true, &seen, 1), 1);
	ck_assert_str_eq(seen.subject, "pvc-1");
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS_HUNG, NULL), 0);
	running_watch(r);
	running_watch(r); /* it is told once */
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS_HUNG, NULL), 1);
	ck_assert_int_eq(lines, 1);
	expect_said("hangs");
	expect_said("method=NodeUnstageVolume");
	expect_said("volume=pvc-1");
	running_end(&hangs);
	ck_assert_int_eq(lines, 2);
	expect_said("has returned");
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS_HUNG, NULL), 0);
	running_end(&stays);
	ck_assert_int_eq(lines, 2);
	log_redirect(NULL, NULL);
	running_free(r);
}
END_TEST

START_TEST(the_next_look_is_when_a_call_may_hang)
{
	struct running *r = running_new(60000);
	struct running_call c = { 0 };
	int64_t at;

	listen_to_log();
	running_begin(r, &c, "NodeStageVolume");
	running_left(&c);
	running_tell_after(r, 120000, 120000);
	c.tell_at = c.since + INT64_C(120000000000);
	at = running_watch(r);
	ck_assert(at != INT64_MAX && at == c.left_at + INT64_C(60000000000));
	ck_assert_int_eq(lines, 0);
	running_end(&c);
	ck_assert_int_eq(running_watch(r), INT64_MAX);
	log_redirect(NULL, NULL);
	running_free(r);
}
END_TEST

/*
 * Makes a call due for the log, and makes it and its wait older, without a sleep that a busy
 * machine prolongs.
 */
static void let_time_pass(struct running_call *c)
{
	c->tell_at = 0;
	c->since -= INT64_C(900000000000);
	c->doing_since -= INT64_C(300000000000);
}

START_TEST(a_long_call_is_told_again_and_again_with_what_it_waits_for)
{
	struct running *r = running_new(5000000);
	struct running_call c = { .id = 17 }, left = { .id = 18 };
	int64_t start = monotonic_ns();

	listen_to_log();
	log_setup(2, false);
	running_tell_after(r, 1000000, 2000000);
	running_begin(r, &left, "NodeStageVolume");
	running_left(&left);
	running_begin(r, &c, "CreateVolume");
	running_on_thread(&c);
	running_about(&c, "pvc-1");
	ck_assert_int_eq(running_watch(r), left.tell_at);
	ck_assert_int_eq(lines, 0);
	ck_assert_int_lt(c.tell_at - start, INT64_C(2000000000000));
	running_waits("%s: Bound=%s", "DPUVolume ns/pvc-1", "False");
	running_waits("%s: Bound=%s", "DPUVolume ns/pvc-1", "Unknown");
	let_time_pass(&c);
	running_watch(r);
	ck_assert_int_eq(lines, 1);
	expect_said("still running method=CreateVolume volume=pvc-1 seconds=9");
	expect_said(" waits_for=\"DPUVolume ns/pvc-1: Bound=Unknown\" waits_seconds=3");
	expect_said(" call=17");
	ck_assert_int_ge(c.tell_at - start, INT64_C(2000000000000));
	running_watch(r);
	ck_assert_int_eq(lines, 1);
	*logged = '\0';
	running_waits(NULL);
	let_time_pass(&c);
	running_watch(r);
	ck_assert_int_eq(lines, 2);
	ck_assert_msg(strstr(logged, "waits_for") == NULL, "%s", logged);
	log_setup(0, false); /* if calls are not logged, this is not either */
	let_time_pass(&c);
	running_watch(r);
	ck_assert_int_eq(lines, 2);
	running_waits("something"); /* a wait that has not ended when the call ends */
	running_end(&c);
	running_end(&left);
	log_redirect(NULL, NULL);
	running_free(r);
}
END_TEST

START_TEST(each_line_of_a_calls_thread_has_its_number)
{
	struct running *r = running_new(60000);
	struct running_call c = { .id = 4711 };

	listen_to_log();
	running_begin(r, &c, "CreateVolume");
	running_on_thread(&c);
	log_msg(LOG_INFO, "in it");
	running_end(&c);
	log_msg(LOG_INFO, "behind it");
	expect_said("in it call=4711\n");
	expect_said("behind it\n");
	log_redirect(NULL, NULL);
	running_free(r);
}
END_TEST

START_TEST(without_a_table_nothing_is_kept)
{
	struct running_call c = { 0 };

	running_begin(NULL, &c, "NodeStageVolume");
	running_on_thread(&c);
	running_about(&c, "pvc-1");
	running_waits("something");
	running_left(&c);
	running_end(&c);
	ck_assert_int_eq(running_watch(NULL), INT64_MAX);
	ck_assert_uint_eq(running_list(NULL, false, NULL, 0), 0);
	ck_assert_ptr_null(running_free(NULL));
}
END_TEST

SUITE("running", what_runs_is_listed_until_it_ends,
      a_call_hangs_when_its_caller_has_gone_and_it_has_not_come_back,
      the_next_look_is_when_a_call_may_hang,
      a_long_call_is_told_again_and_again_with_what_it_waits_for,
      each_line_of_a_calls_thread_has_its_number, without_a_table_nothing_is_kept);
