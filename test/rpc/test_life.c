/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of calls (deadline, cancel, a caller that dies), of servers (gracefully, at once), and of
 * processes.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/failing.h"
#include "common/log.h"
#include "common/metric.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

extern char **environ;

/* The handler has to begin before the deadline: on a busy machine only a later attempt succeeds. */
static void stage_past_its_deadline(struct rpc_fixture *f, const char *what)
{
	for (int ms = 300; !f->stub.entered; ms *= 2)
		ck_assert_int_eq(stage(f->client, "v", what, ms, NULL), ERR_DEADLINE);
}

START_TEST(a_deadline_ends_the_call_and_reaches_the_handler)
{
	SETUP(f);

	stage_past_its_deadline(&f, "sleep:86400000");
	ck_assert(reaches(&f.stub.cancelled, 1));
}
END_TEST

/* The call's context, which may contain a token, is in no entry: only the error's text is. */
START_TEST(the_last_error_of_a_volume_is_kept_until_a_good_call)
{
	struct failing_error e;
	SETUP(f);

	ck_assert_int_eq(stage(f.client, "v", "deadline", -1, NULL), ERR_RANGE);
	WAIT_UNTIL(failing_find("v", &e));
	ck_assert_str_eq(e.call, "NodeStageVolume");
	ck_assert_int_eq(e.err.code, ERR_RANGE);
	ck_assert_str_eq(e.err.msg, "left=never");
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	ck_assert(!failing_find("v", &e));
}
END_TEST

START_TEST(a_cancelled_call_wakes_its_handler)
{
	SETUP(f);
	struct rpc_pending *p = stage_start(f.client, "v", "sleep:86400000", -1);
	struct rpc_answer answer;

	ck_assert(reaches(&f.stub.running, 1));
	rpc_pending_cancel(p);
	ck_assert_int_eq(rpc_pending_wait(p, &answer), ERR_CANCELLED);
	rpc_answer_clear(&answer);
	ck_assert(reaches(&f.stub.cancelled, 1));
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL),
	                 ERR_OK); /* its lock is free again */
}
END_TEST

START_TEST(a_handler_that_does_not_listen_ends_in_its_own_time)
{
	SETUP(f);

	stage_past_its_deadline(&f, "gate");
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL),
	                 ERR_ABORTED); /* still holds it */
	stub_open(&f.stub);
	/* The handler ends, then its volume is released. */
	WAIT_UNTIL(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL) == ERR_OK);
}
END_TEST

static char logged[100000];

static void keep_log(void *arg, const char *line)
{
	size_t n = strlen(logged);

	(void)arg;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

START_TEST(a_call_that_hangs_is_named_once_and_stops_its_own_volume_only)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct running *running = running_new(100);
	struct running_seen seen;
	struct failing_error e;
	int64_t abandoned = metric_value(METRIC_OPERATIONS_ABANDONED, LABELS("NodeStageVolume"));
	int64_t oldest;

	rpc_fixture_init(&f);
	f.options.running = running;
	log_redirect(keep_log, NULL);
	rpc_fixture_start(&f);
	stage_past_its_deadline(&f, "gate");
	WAIT_UNTIL(running_list(running, true, &seen, 1) == 1);
	ck_assert_str_eq(seen.method, "NodeStageVolume");
	ck_assert_str_eq(seen.subject, "v");
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_ABORTED);
	WAIT_UNTIL(failing_find("v", &e) && e.err.code == ERR_DEADLINE);
	ck_assert_str_eq(e.call, "NodeStageVolume");
	ck_assert_msg(strstr(e.err.msg, "dmesg") != NULL, "%s", e.err.msg);
	ck_assert_int_eq(stage(f.client, "other", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	stub_open(&f.stub);
	WAIT_UNTIL(running_list(running, false, NULL, 0) == 0);
	rpc_server_stop(f.server, 1000);
	f.server = NULL;
	log_redirect(NULL, NULL);
	running_free(running);
	ck_assert_int_eq(metric_value(METRIC_OPERATIONS_ABANDONED, LABELS("NodeStageVolume")),
	                 abandoned + 1);
	/* the late end was successful */
	ck_assert_uint_eq(failing_count(monotonic_ns(), &oldest), 0);
	ck_assert_msg(strstr(logged, "a call hangs") != NULL, "%s", logged);
	ck_assert_ptr_null(strstr(strstr(logged, "a call hangs") + 1, "a call hangs"));
	ck_assert_msg(strstr(logged, "a call that hung has returned") != NULL, "%s", logged);
}
END_TEST

/* Runs this program again, as a client that the test kills. */
static int be_a_client(const char *path)
{
	struct rpc_client *c = rpc_client_new(&(struct rpc_client_options) { .path = path });

	return stage(c, "v", "sleep:86400000", -1, NULL);
}

static int before(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "client") == 0)
		exit(be_a_client(argv[2]));
	return 0;
}

START_TEST(a_caller_that_dies_cancels_its_call)
{
	SETUP(f);
	char *const argv[] = { (char *)"test_life", (char *)"client", f.path, NULL };
	pid_t pid;

	ck_assert_int_eq(posix_spawn(&pid, program_invocation_name, NULL, NULL, argv, environ), 0);
	child_started(pid);
	ck_assert(reaches(&f.stub.running, 1));
	kill(pid, SIGKILL);
	server_wait(pid);
	ck_assert(reaches(&f.stub.cancelled, 1));
}
END_TEST

/* ---- stopping ---- */

static void *stop_server(void *arg)
{
	struct rpc_fixture *f = arg;

	rpc_server_stop(f->server, NEVER_MS);
	f->server = NULL;
	return NULL;
}

START_TEST(a_graceful_stop_lets_a_running_call_finish)
{
	SETUP(f);
	struct rpc_pending *p = stage_start(f.client, "v", "gate", -1);
	struct rpc_answer answer;
	pthread_t stopper;
	int code;

	ck_assert(reaches(&f.stub.running, 1));
	pthread_create(&stopper, NULL, stop_server, &f);
	/* CANCELLED: sent before the client read the GOAWAY */
	WAIT_UNTIL((code = probe(f.client, WAIT_LIMIT_MS)) == ERR_UNAVAILABLE ||
	           code == ERR_CANCELLED);
	stub_open(&f.stub);
	ck_assert_int_eq(rpc_pending_wait(p, &answer), ERR_OK);
	rpc_answer_clear(&answer);
	pthread_join(stopper, NULL);
	ck_assert_int_ne(access(f.path, F_OK), 0);
}
END_TEST

START_TEST(a_stop_after_the_grace_cancels_what_runs)
{
	SETUP(f);
	struct rpc_pending *p = stage_start(f.client, "v", "sleep:86400000", -1);
	struct rpc_answer answer;
	int code;

	ck_assert(reaches(&f.stub.running, 1));
	rpc_server_stop(f.server, 200);
	f.server = NULL;
	ck_assert_int_eq(f.stub.cancelled, 1);
	code = rpc_pending_wait(p, &answer);
	ck_assert_msg(code == ERR_UNAVAILABLE || code == ERR_CANCELLED, "%d %s", code, answer.text);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(a_stop_waits_for_handlers_that_do_not_listen)
{
	SETUP(f);
	struct rpc_pending *p = stage_start(f.client, "v", "busy:600", -1);
	struct rpc_answer answer;

	ck_assert(reaches(&f.stub.running, 1));
	rpc_server_stop(f.server, 50);
	f.server = NULL;
	ck_assert_int_eq(f.stub.running, 0);
	ck_assert_int_eq(f.stub.entered, 1);
	rpc_pending_wait(p, &answer);
	rpc_answer_clear(&answer);
}
END_TEST

START_TEST(start_and_stop_leave_nothing_open)
{
	for (int i = 0; i < 10; i++) {
		SETUP(f);

		if (i % 2)
			ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	}
	ck_assert_int_lt(dup(0), 32); /* the lowest free number */
}
END_TEST

/* ---- two servers ---- */

START_TEST(a_second_server_takes_the_path_over_and_keeps_it)
{
	SETUP(f);
	struct rpc_server *second;
	struct rpc_client *c;
	struct err err = ERR_INIT;
	struct stub other;

	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	stub_init(&other);
	ck_assert_int_eq(rpc_server_start(&f.options, other.services, ARRAY_LEN(other.services),
	                                  &second, &err),
	                 0);
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL),
	                 ERR_OK); /* old connections live on */
	ck_assert_int_eq(f.stub.entered, 1);
	rpc_server_stop(f.server, 1000);
	f.server = NULL;
	c = rpc_client_new(&(struct rpc_client_options) { .path = f.path });
	ck_assert_int_eq(stage(c, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	ck_assert_int_eq(other.entered, 1);
	rpc_client_free(c);
	rpc_server_stop(second, 1000);
	ck_assert_int_ne(access(f.path, F_OK), 0);
	stub_clear(&other);
}
END_TEST

/* ---- processes ---- */

static void connect_client(struct rpc_fixture *f)
{
	struct rpc_client_options options = { .path = f->path, .wait_for_ready = true };

	f->client = rpc_client_new(&options);
	ck_assert_int_eq(probe(f->client, WAIT_LIMIT_MS), ERR_OK);
}

START_TEST(sigterm_lets_a_running_call_finish)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *p;
	struct rpc_answer answer;
	pid_t pid;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, NULL, 0, NEVER_MS);
	connect_client(&f);
	p = stage_start(f.client, "v", "sleep:1500", WAIT_LIMIT_MS);
	sleep_ms(800); /* it usually runs; otherwise the stop comes first */
	kill(pid, SIGTERM);
	ck_assert_int_eq(rpc_pending_wait(p, &answer), ERR_OK);
	rpc_answer_clear(&answer);
	ck_assert_int_eq(server_wait(pid), 0);
	ck_assert_int_ne(access(f.path, F_OK), 0);
}
END_TEST

START_TEST(sigterm_ends_an_idle_server_soon)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	pid_t pid;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, NULL, 0, NEVER_MS);
	connect_client(&f);
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

START_TEST(after_kill_9_a_new_server_serves_on_the_stale_socket)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	pid_t pid;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, NULL, 0, 1000);
	connect_client(&f);
	kill(pid, SIGKILL);
	server_wait(pid);
	ck_assert_int_eq(access(f.path, F_OK), 0); /* the stale one */
	pid = server_spawn(&f, NULL, 0, 1000);
	ck_assert(serves_again(f.client));
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

START_TEST(grpc_variables_of_the_environment_have_no_effect)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	pid_t pid;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, "GRPC_POLL_STRATEGY= GRPC_TRACE=all GRPC_VERBOSITY=DEBUG", 0, 1000);
	connect_client(&f);
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

static int connect_raw(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

START_TEST(a_server_without_descriptors_recovers)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fds[60];
	pid_t pid;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, NULL, 32, 1000);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = connect_raw(f.path);
	sleep_ms(500); /* it now meets EMFILE */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	connect_client(&f);
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

SUITE_AROUND("rpc life", 120, before, NULL, a_deadline_ends_the_call_and_reaches_the_handler,
             the_last_error_of_a_volume_is_kept_until_a_good_call,
             a_cancelled_call_wakes_its_handler,
             a_handler_that_does_not_listen_ends_in_its_own_time,
             a_call_that_hangs_is_named_once_and_stops_its_own_volume_only,
             a_caller_that_dies_cancels_its_call, a_graceful_stop_lets_a_running_call_finish,
             a_stop_after_the_grace_cancels_what_runs, a_stop_waits_for_handlers_that_do_not_listen,
             start_and_stop_leave_nothing_open, a_second_server_takes_the_path_over_and_keeps_it,
             sigterm_lets_a_running_call_finish, sigterm_ends_an_idle_server_soon,
             after_kill_9_a_new_server_serves_on_the_stale_socket,
             grpc_variables_of_the_environment_have_no_effect,
             a_server_without_descriptors_recovers);
