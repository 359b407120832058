/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that hang: the caller gets an error, one thread per filesystem waits, others are not
 * blocked.
 */
#include "test/lib/suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/metric.h"
#include "node/target/guard.h"
#include "test/lib/wait.h"

static atomic_int looks;
static atomic_bool release;
static int64_t wait_ms = 3000;

/* "/hang..." blocks until released; anything else answers. */
static int fake(const char *path, struct statvfs *ret)
{
	looks++;
	while (strncmp(path, "/hang", 5) == 0 && !release)
		usleep(10000);
	if (strcmp(path, "/eio") == 0) {
		errno = EIO;
		return -1;
	}
	ret->f_blocks = strlen(path);
	return 0;
}

START_TEST(what_answers_is_handed_on)
{
	struct guard *g = guard_new(&wait_ms);
	struct statvfs st = { 0 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(guard_statvfs(g, 1, "/", &st, &err), 0); /* the real probe */
	ck_assert_uint_gt(st.f_blocks, 0);
	guard_set_statvfs(g, fake);
	ck_assert_int_eq(guard_statvfs(g, 1, "/abc", &st, &err), 0);
	ck_assert_uint_eq(st.f_blocks, 4);
	ck_assert_int_eq(guard_statvfs(g, 1, "/eio", &st, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(err.sys, EIO);
	guard_free(g);
}
END_TEST

START_TEST(a_hung_filesystem_costs_one_thread_and_three_seconds_once)
{
	struct guard *g = guard_new(&wait_ms);
	struct statvfs st = { 0 };
	struct err err = ERR_INIT;

	guard_set_statvfs(g, fake);
	ck_assert_int_eq(guard_statvfs(g, 1, "/hang", &st, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	/* At once: a thousand waiting calls would exceed the test's time limit. */
	for (int i = 0; i < 1000; i++) {
		err_clear(&err);
		ck_assert_int_eq(guard_statvfs(g, 1, i % 2 ? "/hang" : "/other", &st, &err), -1);
	}
	ck_assert_int_eq(looks, 1);
	ck_assert_int_eq(metric_value(METRIC_BACKENDS_HUNG, NULL), 1);
	/* Another filesystem answers as before. */
	err_clear(&err);
	ck_assert_int_eq(guard_statvfs(g, 2, "/fine", &st, &err), 0);
	/* It answers again. */
	release = true;
	WAIT_UNTIL((err_clear(&err), guard_statvfs(g, 1, "/hang", &st, &err) == 0));
	ck_assert_int_eq(metric_value(METRIC_BACKENDS_HUNG, NULL), 0);
	guard_free(g);
}
END_TEST

struct guard_caller {
	pthread_t thread;
	struct guard *g;
	const char *path;
	dev_t devno;
	int wrong;
};

static void *call_once(void *arg)
{
	struct guard_caller *c = arg;
	struct statvfs st = { 0 };
	struct err err = ERR_INIT;

	c->wrong = guard_statvfs(c->g, c->devno, c->path, &st, &err) != -1;
	return NULL;
}

START_TEST(a_hung_filesystem_counts_once_by_whatever_path_it_is_looked_at)
{
	static const char *const paths[] = { "/hang/staged", "/hang/published", "/hang/device-2" };
	struct guard_caller c[ARRAY_LEN(paths)];
	struct guard *g = guard_new(&wait_ms);

	guard_set_statvfs(g, fake);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = (struct guard_caller) { .g = g, .path = paths[i], .devno = i < 2 ? 1 : 2 };
		pthread_create(&c[i].thread, NULL, call_once, &c[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		pthread_join(c[i].thread, NULL);
		ck_assert_int_eq(c[i].wrong, 0);
	}
	ck_assert_int_eq(metric_value(METRIC_BACKENDS_HUNG, NULL), 2);
	release = true;
	WAIT_UNTIL(!metric_value(METRIC_BACKENDS_HUNG, NULL));
	ck_assert_int_eq(metric_value(METRIC_BACKENDS_HUNG, NULL), 0);
	guard_free(g);
}
END_TEST

START_TEST(the_guard_may_go_while_a_look_hangs)
{
	struct guard *g = guard_new(&wait_ms);
	struct statvfs st = { 0 };
	struct err err = ERR_INIT;

	guard_set_statvfs(g, fake);
	ck_assert_int_eq(guard_statvfs(g, 1, "/hang", &st, &err), -1);
	guard_free(g);
	release = true;
	usleep(200000); /* the helper cleans up, for the leak checker */
}
END_TEST

static void *call_often(void *arg)
{
	struct guard_caller *c = arg;

	for (int i = 0; i < 100; i++) {
		struct statvfs st = { 0 };
		struct err err = ERR_INIT;

		c->wrong += guard_statvfs(c->g, c->devno, c->path, &st, &err) != 0 ||
		            st.f_blocks != strlen(c->path);
	}
	return NULL;
}

START_TEST(many_callers_get_their_own_answers)
{
	static const char *const paths[] = { "/a", "/a", "/bb", "/ccc", "/dddd", "/dddd" };
	struct guard_caller c[ARRAY_LEN(paths)];
	struct guard *g = guard_new(&wait_ms);

	guard_set_statvfs(g, fake);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = (struct guard_caller) { .g = g, .path = paths[i], .devno = i / 3 };
		pthread_create(&c[i].thread, NULL, call_often, &c[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		pthread_join(c[i].thread, NULL);
		ck_assert_int_eq(c[i].wrong, 0);
	}
	guard_free(g);
}
END_TEST

static atomic_bool frozen;
static int write_held(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	while (frozen)
		usleep(1000);
	return 0;
}

static int thaw(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	frozen = false;
	return 0;
}

static void expect_held(struct guard *g, enum guard_ask ask)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(guard_ask(g, ask, 1, "/a", &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && err.sys == ETIMEDOUT &&
	                      strstr(err.msg, "frozen"),
	              "%s", err.msg);
}

START_TEST(a_write_that_is_held_keeps_reads_from_nothing_and_ends_with_the_thaw)
{
	static const enum guard_ask writes[] = { GUARD_WRITE, GUARD_COMMIT };
	struct guard *g = guard_new(&wait_ms);
	struct statvfs st = { 0 };
	struct err err = ERR_INIT;

	frozen = true;
	guard_set_statvfs(g, fake);
	guard_set(g, GUARD_THAW, thaw);
	wait_ms = 50;
	for (size_t i = 0; i < ARRAY_LEN(writes); i++)
		guard_set(g, writes[i], write_held);
	expect_held(g, writes[_i]);
	/* Each kind of write is blocked, without a second thread; a read is answered. */
	for (size_t i = 0; i < ARRAY_LEN(writes); i++)
		expect_held(g, writes[i]);
	wait_ms = WAIT_LIMIT_MS;
	ck_assert_int_eq(guard_statvfs(g, 1, "/a", &st, &err), 0);
	ck_assert_int_eq(metric_value(METRIC_BACKENDS_HUNG, NULL), 0);
	ck_assert_int_eq(guard_ask(g, GUARD_THAW, 1, "/a", &err), 0);
	/* The blocked write has ended: the mount is not busy. */
	for (size_t i = 0; i < ARRAY_LEN(writes); i++)
		ck_assert_msg(guard_ask(g, writes[i], 1, "/a", &err) == 0, "%s", err.msg);
	guard_free(g);
}
END_TEST

SUITE_TIMEOUT("guard", 60, what_answers_is_handed_on,
              LOOP(a_write_that_is_held_keeps_reads_from_nothing_and_ends_with_the_thaw, 2),
              a_hung_filesystem_costs_one_thread_and_three_seconds_once,
              a_hung_filesystem_counts_once_by_whatever_path_it_is_looked_at,
              the_guard_may_go_while_a_look_hangs, many_callers_get_their_own_answers);
