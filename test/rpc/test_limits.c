/* SPDX-License-Identifier: Apache-2.0 */
/* Excess of bytes, headers, memory and calls. After each the server answers the next one. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/log.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define MIB (1024 * 1024)

/* One field of NodeStageVolumeRequest with n bytes 'x'; number 2000 is unknown to it. */
static uint8_t *field(unsigned number, size_t n, size_t *ret_n)
{
	uint8_t *all = xmalloc(n + 12), *p = all;
	uint64_t words[2] = { number << 3 | 2, n };

	for (int i = 0; i < 2; i++) {
		for (; words[i] >= 0x80; words[i] >>= 7)
			*p++ = (uint8_t)(words[i] | 0x80);
		*p++ = (uint8_t)words[i];
	}
	memset(p, 'x', n);
	*ret_n = (size_t)(p - all) + n;
	return all;
}

/* `n` times the same bytes. */
static uint8_t *times(const char *bytes, size_t size, size_t n)
{
	uint8_t *all = xmalloc(size * n);

	for (size_t i = 0; i < n; i++)
		memcpy(all + i * size, bytes, size);
	return all;
}

static int send_bytes(struct rpc_client *c, const uint8_t *in, size_t n, char text[static 1100])
{
	struct rpc_answer answer;
	int code = rpc_client_call_bytes(c, STAGE, in, n, WAIT_LIMIT_MS, &answer);

	memcpy(text, answer.text, sizeof(answer.text));
	rpc_answer_clear(&answer);
	return code;
}

START_TEST(a_message_just_below_the_limit_is_taken)
{
	SETUP(f);
	size_t n;
	uint8_t *in AUTO(free) = field(2000, MIB - 10, &n);
	char text[1100];

	ck_assert_msg(send_bytes(f.client, in, n, text) == ERR_OK, "%s", text);
}
END_TEST

START_TEST(a_message_above_the_limit_is_refused)
{
	SETUP(f);
	size_t n;
	uint8_t *in AUTO(free) = field(1, 4 * MIB, &n);
	char text[1100];

	ck_assert_int_eq(send_bytes(f.client, in, n, text), ERR_EXHAUSTED);
	ck_assert_msg(strstr(text, "larger than max") != NULL, "%s", text);
	ck_assert_int_eq(f.stub.entered, 0);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

START_TEST(a_message_that_unpacks_to_much_memory_is_refused)
{
	SETUP(f);
	uint8_t *in AUTO(free) = times("\xfa\x7f\x00", 3, MIB / 3);
	char text[1100];

	ck_assert_int_eq(send_bytes(f.client, in, MIB / 3 * 3, text), ERR_EXHAUSTED);
	ck_assert_msg(strstr(text, "bytes of memory when unpacked") != NULL, "%s", text);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

START_TEST(empty_map_entries_have_an_end)
{
	SETUP(f);
	uint8_t *in AUTO(free) = times("\x32\x00", 2, 30000);
	char text[1100];

	ck_assert_int_eq(send_bytes(f.client, in, 10000, text), ERR_INVALID);
	ck_assert_str_eq(text,
	                 "volume_context is longer than 4096 bytes (keys and values together)");
}
END_TEST

/* ---- compression ---- */

static long high_water_kb(pid_t pid)
{
	char *path AUTO(free) = xasprintf("/proc/%d/status", (int)pid);
	FILE *f AUTO(fclose) = fopen(path, "r");
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "VmHWM:", 6) == 0)
			return strtol(line + 6, NULL, 10);
	return -1;
}

START_TEST(a_gzip_bomb_costs_nothing)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_client *gzip;
	size_t n;
	uint8_t *in AUTO(free) = field(2000, 100 * MIB, &n);
	char text[1100];
	pid_t pid;
	long before;

	rpc_fixture_init(&f);
	pid = server_spawn(&f, NULL, 0, 1000);
	f.client = rpc_client_new(&(struct rpc_client_options) { .path = f.path });
	gzip = rpc_client_new(&(struct rpc_client_options) { .path = f.path, .gzip = true });
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	before = high_water_kb(pid);
	ck_assert_int_eq(send_bytes(gzip, in, n, text), ERR_UNIMPLEMENTED);
	rpc_client_free(gzip);
	ck_assert_msg(strstr(text, "gzip") != NULL, "%s", text);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	ck_assert_msg(before > 0 && high_water_kb(pid) - before < 20 * 1024, "%ld kB, then %ld kB",
	              before, high_water_kb(pid));
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

START_TEST(a_small_compressed_message_is_refused_too)
{
	SETUP(f);
	struct rpc_client *c =
		rpc_client_new(&(struct rpc_client_options) { .path = f.path, .gzip = true });
	size_t n;
	uint8_t *in AUTO(free) = field(2000, MIB / 2, &n);
	char text[1100];

	ck_assert_int_eq(send_bytes(c, in, n, text), ERR_UNIMPLEMENTED);
	ck_assert_str_eq(text, "Compression algorithm 'gzip' is disabled.");
	rpc_client_free(c);
}
END_TEST

/* ---- headers ---- */

static int probe_with_header(struct rpc_client *c, size_t n)
{
	char *value AUTO(free) = xcalloc(1, n + 1);
	struct rpc_answer answer;
	int code;

	memset(value, 'v', n);
	code = rpc_pending_wait(
		rpc_client_start_with(c, PROBE, NULL, 0, WAIT_LIMIT_MS, "x-big", value), &answer);
	rpc_answer_clear(&answer);
	return code;
}

START_TEST(headers_have_a_limit)
{
	SETUP(f);

	ck_assert_int_eq(probe_with_header(f.client, 12000), ERR_OK);
	ck_assert_int_ne(probe_with_header(f.client, 20000), ERR_OK);
	/* gRPC 1.51 may end the whole connection: the client then has to open a new one. */
	ck_assert(serves_again(f.client));
}
END_TEST

/* ---- calls ---- */

static void volume_name(char name[static 20], int i)
{
	snprintf(name, 20, "pvc-%d", i);
}

static _Atomic int answered;

struct caller {
	struct rpc_pending *call;
	int code;
	bool is_busy;
};

static void *wait_for_answer(void *arg)
{
	struct caller *c = arg;
	struct rpc_answer answer;

	c->code = rpc_pending_wait(c->call, &answer);
	c->is_busy = strstr(answer.text, "busy: 3 calls are running") != NULL;
	rpc_answer_clear(&answer);
	answered++;
	return NULL;
}

START_TEST(one_call_too_many_is_told_so_at_once)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct caller callers[10];
	pthread_t threads[10];
	int ok = 0, unavailable = 0;

	rpc_fixture_init(&f);
	answered = 0;
	f.options.max_calls = 3;
	rpc_fixture_start(&f);
	for (int i = 0; i < 10; i++) {
		char name[20];

		volume_name(name, i);
		callers[i].call = stage_start(f.client, name, "gate", -1);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_for_answer, &callers[i]),
		                 0);
	}
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	WAIT_UNTIL(answered == 7);
	stub_open(&f.stub);
	for (int i = 0; i < 10; i++) {
		pthread_join(threads[i], NULL);
		ok += callers[i].code == ERR_OK;
		unavailable += callers[i].code == ERR_UNAVAILABLE && callers[i].is_busy;
	}
	ck_assert_int_eq(ok, 3);
	ck_assert_int_eq(unavailable, 7);
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
}
END_TEST

/* ---- calls without their message ---- */

static int end_of(struct rpc_pending *p, char text[static 1100])
{
	struct rpc_answer answer;
	int code = rpc_pending_wait(p, &answer);

	memcpy(text, answer.text, sizeof(answer.text));
	rpc_answer_clear(&answer);
	return code;
}

static void cancel_all(struct rpc_pending **calls, size_t n)
{
	char text[1100];

	for (size_t i = 0; i < n; i++) {
		rpc_pending_cancel(calls[i]);
		end_of(calls[i], text);
	}
}

START_TEST(calls_without_a_message_keep_nobody_out)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[50];

	rpc_fixture_init(&f);
	f.options.max_calls = 2;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		calls[i] = rpc_client_start_headers(f.client, STAGE, -1);
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	cancel_all(calls, ARRAY_LEN(calls));
	ck_assert_int_eq(f.stub.entered, 1);
}
END_TEST

START_TEST(a_message_that_does_not_come_in_time_ends_its_call)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[3];
	char text[1100];

	rpc_fixture_init(&f);
	f.options.message_timeout_ms = 1000;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		calls[i] = rpc_client_start_headers(f.client, i ? STAGE : PROBE, WAIT_LIMIT_MS);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		ck_assert_int_eq(end_of(calls[i], text), ERR_DEADLINE);
		ck_assert_msg(strstr(text, "not complete in time") != NULL, "%s", text);
	}
	ck_assert_int_eq(f.stub.entered, 0);
	ck_assert_int_eq(stage(f.client, "v", "sleep:1500", WAIT_LIMIT_MS, NULL), ERR_OK);
}
END_TEST

START_TEST(of_too_many_calls_without_a_message_the_oldest_ends)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[15];
	char text[1100];

	rpc_fixture_init(&f);
	f.options.max_incomplete = 10;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		calls[i] = rpc_client_start_headers(f.client, STAGE, -1);
	for (size_t i = 0; i < 5; i++) {
		ck_assert_int_eq(end_of(calls[i], text), ERR_EXHAUSTED);
		ck_assert_msg(strstr(text, "without a message") != NULL, "%s", text);
	}
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	cancel_all(calls + 5, 10);
}
END_TEST

/* Its message may have arrived just before: the caller was told that it is not executed. */
START_TEST(a_call_that_was_refused_for_its_message_does_not_run)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[200];
	char text[1100];
	int ok = 0, refused = 0;

	rpc_fixture_init(&f);
	f.options.max_incomplete = 1;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		char name[20];

		volume_name(name, (int)i);
		calls[i] = stage_start(f.client, name, "", WAIT_LIMIT_MS);
	}
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		int code = end_of(calls[i], text);

		ok += code == ERR_OK;
		refused += code == ERR_EXHAUSTED;
	}
	ck_assert_int_eq(ok + refused, ARRAY_LEN(calls));
	ck_assert_int_eq(f.stub.entered, ok);
}
END_TEST

static char logged[20000];

static void keep_log(void *arg, const char *line)
{
	size_t n = strlen(logged);

	(void)arg;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

/* The number of log lines that contain the text. */
static int logged_lines(const char *text)
{
	int n = 0;

	for (const char *at = strstr(logged, text); at; at = strstr(at + 1, text))
		n++;
	return n;
}

static void cancel_before_the_message(int verbosity)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[20];

	rpc_fixture_init(&f);
	*logged = '\0';
	log_setup(verbosity, false);
	log_redirect(keep_log, NULL);
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		calls[i] = rpc_client_start_headers(f.client, STAGE, -1);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK); /* they have all arrived */
	cancel_all(calls, ARRAY_LEN(calls));
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	/* all have ended; those that are logged have been logged */
	rpc_server_stop(f.server, 1000);
	f.server = NULL;
	log_redirect(NULL, NULL);
}

START_TEST(a_cancel_before_the_message_is_no_error)
{
	cancel_before_the_message(3);
	ck_assert_str_eq(logged, "");
	cancel_before_the_message(4);
	ck_assert_int_eq(logged_lines("code=CANCELLED"), 20);
	ck_assert_int_eq(logged_lines("INTERNAL"), 0);
}
END_TEST

START_TEST(short_calls_do_not_wait_for_those_that_wait)
{
	SETUP(f);
	struct rpc_pending *calls[300];

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		char name[20];

		volume_name(name, (int)i);
		calls[i] = stage_start(f.client, name, "sleep:600000", -1);
	}
	ck_assert(reaches(&f.stub.running, ARRAY_LEN(calls)));
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	ck_assert_int_eq(stage(f.client, "v", "", WAIT_LIMIT_MS, NULL), ERR_OK);
	ck_assert_int_eq(f.stub.running, ARRAY_LEN(calls));
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct rpc_answer answer;

		rpc_pending_cancel(calls[i]);
		ck_assert_int_eq(rpc_pending_wait(calls[i], &answer), ERR_CANCELLED);
		rpc_answer_clear(&answer);
	}
}
END_TEST

START_TEST(more_calls_than_streams_all_get_their_turn)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *calls[200];

	rpc_fixture_init(&f);
	f.options.max_streams = 128;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		char name[20];

		volume_name(name, (int)i);
		calls[i] = stage_start(f.client, name, "sleep:5", WAIT_LIMIT_MS);
	}
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct rpc_answer answer;

		ck_assert_int_eq(rpc_pending_wait(calls[i], &answer), ERR_OK);
		rpc_answer_clear(&answer);
	}
	ck_assert_int_eq(f.stub.entered, ARRAY_LEN(calls));
}
END_TEST

static void *probe_50(void *arg)
{
	struct rpc_client *c = arg;
	intptr_t ok = 0;

	for (int i = 0; i < 50; i++)
		ok += probe(c, WAIT_LIMIT_MS) == ERR_OK;
	return (void *)ok;
}

START_TEST(sixteen_threads_probe_fifty_times)
{
	SETUP(f);
	pthread_t threads[16];
	intptr_t all = 0;

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, probe_50, f.client);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		void *ok;

		pthread_join(threads[i], &ok);
		all += (intptr_t)ok;
	}
	ck_assert_int_eq(all, 800);
}
END_TEST

static void *stage_own_client(void *arg)
{
	struct rpc_fixture *f = arg;
	struct rpc_client *c = rpc_client_new(&(struct rpc_client_options) { .path = f->path });
	intptr_t odd = 0;

	for (int i = 0; i < 40; i++) {
		int code = stage(c, i % 2 ? "shared" : "", i % 3 ? "" : "sleep:1", WAIT_LIMIT_MS,
		                 NULL);

		odd += code != ERR_OK && code != ERR_ABORTED;
	}
	rpc_client_free(c);
	return (void *)odd;
}

START_TEST(many_clients_stage_at_once)
{
	SETUP(f);
	pthread_t threads[8];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, stage_own_client, &f);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		void *odd;

		pthread_join(threads[i], &odd);
		ck_assert_ptr_null(odd);
	}
}
END_TEST

SUITE_TIMEOUT("rpc limits", 120, a_message_just_below_the_limit_is_taken,
              a_message_above_the_limit_is_refused,
              a_message_that_unpacks_to_much_memory_is_refused, empty_map_entries_have_an_end,
              a_gzip_bomb_costs_nothing, a_small_compressed_message_is_refused_too,
              headers_have_a_limit, one_call_too_many_is_told_so_at_once,
              calls_without_a_message_keep_nobody_out,
              a_message_that_does_not_come_in_time_ends_its_call,
              of_too_many_calls_without_a_message_the_oldest_ends,
              a_call_that_was_refused_for_its_message_does_not_run,
              a_cancel_before_the_message_is_no_error, short_calls_do_not_wait_for_those_that_wait,
              more_calls_than_streams_all_get_their_turn, sixteen_threads_probe_fifty_times,
              many_clients_stage_at_once);
