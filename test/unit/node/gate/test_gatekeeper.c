/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gatekeeper with streams that record their messages. Uses several threads, so ThreadSanitizer
 * runs it as well. (The table of states: test_gate.c. Real streams: test/e2e/gate.sh.)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/metric.h"
#include "node/gate/gatekeeper.h"
#include "test/lib/suite.h"

struct fake_stream {
	_Atomic int told[GATE_STATES]; /* how often */
	_Atomic int ended;             /* with this code; 0: not ended */
	_Atomic int64_t generation;    /* of the last status */
	_Atomic unsigned devices;
	char text[ERR_MSG_MAX];
};

static struct {
	_Atomic bool staged, registered, failing, slow;
	_Atomic int prepared, served;
} host;
static struct gatekeeper *keeper;

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000L }, NULL);
}

static void notify(void *stream, const struct gate_status *s)
{
	struct fake_stream *f = stream;

	f->generation = s->generation;
	f->devices = s->devices;
	f->told[s->state]++;
}

static void end_stream(void *stream, const struct err *err)
{
	struct fake_stream *f = stream;

	snprintf(f->text, sizeof(f->text), "%s", err->msg);
	f->ended = (int)err->code;
}

static int prepare(void *arg, struct err *err)
{
	(void)arg;
	host.prepared++;
	while (host.slow)
		pause_ms(1);
	return host.failing ? err_set(err, ERR_UNAVAILABLE, "no module nvme") : 0;
}

static void count(void *arg, unsigned *ret_pools, unsigned *ret_devices)
{
	(void)arg;
	*ret_pools = 1;
	*ret_devices = 4;
}

static bool staged(void *arg)
{
	(void)arg;
	return host.staged;
}

static void serve(void *arg)
{
	(void)arg;
	host.served++;
}

static void set_registered(void *arg, bool registered)
{
	(void)arg;
	ck_assert(host.registered != registered);
	host.registered = registered;
}

static void drop_line(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

static void begin(void)
{
	struct err err = ERR_INIT;

	log_redirect(drop_line, NULL);
	keeper = gatekeeper_new(&(struct gatekeeper_options) { .node_id = "n1",
	                                                       .socket = "/run/gate.sock",
	                                                       .notify = notify,
	                                                       .end = end_stream,
	                                                       .prepare = prepare,
	                                                       .count = count,
	                                                       .staged = staged,
	                                                       .serve = serve,
	                                                       .set_registered = set_registered,
	                                                       .tick_ms = 20 });
	ck_assert_msg(gatekeeper_start(keeper, &err) == 0, "%s", err.msg);
}

static void end(void)
{
	gatekeeper_stop(keeper);
	keeper = gatekeeper_free(keeper);
}

#define SOON(condition)                                            \
	do {                                                       \
		for (int i_ = 0; !(condition) && i_ < 10000; i_++) \
			pause_ms(1);                               \
		ck_assert_msg((condition), #condition);            \
	} while (0)

static void enable(struct fake_stream *f, int64_t generation)
{
	struct err err = ERR_INIT;

	ck_assert_msg(gatekeeper_enable(keeper, f, "n1", generation, &err) == 0, "%s", err.msg);
}

static void refused(const char *node, int64_t generation, enum err_code code, const char *word)
{
	struct fake_stream f = { .ended = 0 };
	struct err err = ERR_INIT;

	ck_assert_int_eq(gatekeeper_enable(keeper, &f, node, generation, &err), -1);
	ck_assert_int_eq(err.code, code);
	ck_assert_msg(strstr(err.msg, word) != NULL, "%s", err.msg);
}

START_TEST(closed_until_a_stream_and_again_after_it)
{
	struct fake_stream f = { .ended = 0 };
	struct gate_pass pass;
	struct err err = ERR_INIT;
	struct str why AUTO(str_clear) = STR_INIT(1000);

	begin();
	SOON(host.served > 0);
	ck_assert(!gatekeeper_permits(keeper) && !gatekeeper_enter(keeper, &pass, NULL));
	ck_assert(gatekeeper_check(keeper, &err) && err.code == ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "/run/gate.sock") &&
	                      strstr(err.msg, "since the driver started"),
	              "%s", err.msg);
	refused("n2", 5, ERR_INVALID, "n2");
	ck_assert(!host.registered && host.prepared == 0);
	enable(&f, 5);
	SOON(f.told[GATE_OPEN] == 1 && host.registered);
	ck_assert(f.told[GATE_PREPARING] == 1 && f.devices == 4 && f.generation == 5);
	ck_assert(gatekeeper_is_open(keeper, &why));
	ck_assert_int_eq(metric_value(METRIC_GATE, LABELS("open")), 1);
	ck_assert_int_eq(metric_value(METRIC_GATE_GENERATION, NULL), 5);
	gatekeeper_left(keeper, &f);
	SOON(!host.registered);
	err_clear(&err);
	ck_assert(gatekeeper_check(keeper, &err) && strstr(err.msg, "of generation 5 ended"));
	ck_assert(!gatekeeper_is_open(keeper, &why) && !f.ended);
	end();
}
END_TEST

START_TEST(a_newer_stream_takes_over_and_an_older_one_does_not)
{
	struct fake_stream old = { .ended = 0 }, new = { .ended = 0 };

	begin();
	enable(&old, 5);
	SOON(old.told[GATE_OPEN] == 1 && host.registered);
	refused("n1", 4, ERR_PRECONDITION, "generation 5");
	enable(&new, 6);
	ck_assert(old.told[GATE_STOPPED] == 1 && old.ended == ERR_ABORTED && old.generation == 5);
	ck_assert(gatekeeper_permits(keeper));
	gatekeeper_left(keeper, &old); /* no effect */
	ck_assert(gatekeeper_permits(keeper));
	SOON(new.told[GATE_OPEN] == 1);
	ck_assert(host.registered && !new.ended);
	end();
	ck_assert(new.told[GATE_STOPPED] == 1 && new.ended == ERR_UNAVAILABLE);
}
END_TEST

START_TEST(what_was_prepared_for_an_earlier_stream_opens_nothing)
{
	struct fake_stream f = { .ended = 0 }, next = { .ended = 0 };

	begin();
	host.slow = true;
	enable(&f, 5);
	SOON(host.prepared == 1);
	gatekeeper_left(keeper, &f);
	enable(&next, 6);
	host.slow = false;
	SOON(next.told[GATE_OPEN] == 1);
	ck_assert_int_eq(host.prepared, 2);
	ck_assert_int_eq(f.told[GATE_OPEN], 0);
	end();
}
END_TEST

START_TEST(a_host_that_is_not_ready_is_told_and_registers)
{
	struct fake_stream f = { .ended = 0 };
	struct str why AUTO(str_clear) = STR_INIT(1000);

	begin();
	host.failing = true;
	enable(&f, 5);
	SOON(f.told[GATE_FAILED] == 1 && host.registered);
	ck_assert(gatekeeper_permits(keeper) && !gatekeeper_is_open(keeper, &why));
	ck_assert_msg(strstr(why.ptr, "no module nvme") != NULL, "%s", why.ptr);
	end();
}
END_TEST

START_TEST(stages_that_wait_learn_that_it_closes)
{
	struct fake_stream f = { .ended = 0 };
	struct cancel cancel = CANCEL_INIT, other = CANCEL_INIT;
	struct gate_pass waits, gone;

	begin();
	enable(&f, 5);
	ck_assert(gatekeeper_enter(keeper, &gone, &other));
	ck_assert(gatekeeper_enter(keeper, &waits, &cancel));
	gatekeeper_leave(keeper, &gone);
	gatekeeper_left(keeper, &f);
	ck_assert(cancel_is_set(&cancel) && gatekeeper_withdrew(keeper, &waits));
	ck_assert(!cancel_is_set(&other) && !gatekeeper_withdrew(keeper, &gone));
	gatekeeper_leave(keeper, &waits);
	cancel_destroy(&cancel);
	cancel_destroy(&other);
	end();
}
END_TEST

START_TEST(something_staged_keeps_the_registration)
{
	struct err err = ERR_INIT;

	host.staged = true; /* since before the start */
	begin();
	SOON(host.registered);
	ck_assert_int_eq(gatekeeper_check_registration(keeper, &err), 0);
	host.staged = false;
	gatekeeper_notify_unstaged(keeper);
	SOON(!host.registered);
	ck_assert(gatekeeper_check_registration(keeper, &err) && err.code == ERR_UNAVAILABLE);
	end();
}
END_TEST

START_TEST(without_controlled_mode_all_is_permitted)
{
	struct gate_pass pass;
	struct err err = ERR_INIT;

	ck_assert(gatekeeper_permits(NULL) && gatekeeper_enter(NULL, &pass, NULL));
	ck_assert(!gatekeeper_withdrew(NULL, &pass) && !gatekeeper_check(NULL, &err));
	ck_assert_int_eq(gatekeeper_check_registration(NULL, &err), 0);
	gatekeeper_leave(NULL, &pass);
	gatekeeper_notify_unstaged(NULL);
	gatekeeper_stop(NULL);
	ck_assert_ptr_null(gatekeeper_free(NULL));
}
END_TEST

START_TEST(a_driver_that_stops_refuses)
{
	struct fake_stream f = { .ended = 0 };

	begin();
	enable(&f, 5);
	gatekeeper_stop(keeper);
	refused("n1", 6, ERR_UNAVAILABLE, "the driver stops");
	ck_assert(f.ended == ERR_UNAVAILABLE && !gatekeeper_permits(keeper));
	keeper = gatekeeper_free(keeper);
}
END_TEST

SUITE("gatekeeper", closed_until_a_stream_and_again_after_it,
      a_newer_stream_takes_over_and_an_older_one_does_not,
      what_was_prepared_for_an_earlier_stream_opens_nothing,
      a_host_that_is_not_ready_is_told_and_registers, stages_that_wait_learn_that_it_closes,
      something_staged_keeps_the_registration, without_controlled_mode_all_is_permitted,
      a_driver_that_stops_refuses);
