/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with many answers, with the only service that has such a method: the gate's. Streams that
 * begin, end, are cancelled, time out and replace each other at the same time; the cost of a held
 * one; a server that stops while it is open.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "csi/sriovdp_control.pb-c.h"

#include "common/log.h"
#include "node/gate/control_csi.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define ENABLE "/sriovdp.control.v1.ControlService/EnableDevices"
#define THREADS 8
#define ROUNDS 40

struct gate_server {
	struct rpc_fixture f; /* its folder and its client */
	struct gatekeeper *keeper;
	struct rpc_service service;
	struct rpc_server *server;
	_Atomic int64_t generation;
	_Atomic int served, taken, refused;
};

static int prepare(void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	return 0;
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
	return false;
}

static void serve(void *arg)
{
	(void)arg;
}

static void set_registered(void *arg, bool registered)
{
	(void)arg;
	(void)registered;
}

static void begin(struct gate_server *s)
{
	const struct gatekeeper_options options = {
		.node_id = "n1",
		.socket = "gate.sock",
		.notify = control_notify,
		.end = control_end,
		.prepare = prepare,
		.count = count,
		.staged = staged,
		.serve = serve,
		.set_registered = set_registered,
	};
	struct err err = ERR_INIT;

	*s = (struct gate_server) { .generation = 0 };
	rpc_fixture_init(&s->f);
	s->keeper = gatekeeper_new(&options);
	s->service = control_service(s->keeper);
	ck_assert_msg(!gatekeeper_start(s->keeper, &err) &&
	                      !rpc_server_start(&s->f.options, &s->service, 1, &s->server, &err),
	              "%s", err.msg);
	s->f.client = rpc_client_new(&(struct rpc_client_options) { .path = s->f.path });
}

/* A call that was not freed delays the server beyond the test's limit. */
static void end(struct gate_server *s)
{
	gatekeeper_stop(s->keeper);
	rpc_server_stop(s->server, NEVER_MS);
	s->keeper = gatekeeper_free(s->keeper);
	rpc_fixture_clear(&s->f);
}

static struct rpc_pending *enable(struct rpc_client *client, int64_t generation, int timeout_ms)
{
	Sriovdp__Control__V1__EnableDevicesRequest m =
		SRIOVDP__CONTROL__V1__ENABLE_DEVICES_REQUEST__INIT;
	uint8_t bytes[100];

	m.node_name = (char *)"n1";
	m.node_state_generation = generation;
	ck_assert_uint_le(protobuf_c_message_get_packed_size(&m.base), sizeof(bytes));
	return rpc_client_start_many(client, ENABLE, bytes, protobuf_c_message_pack(&m.base, bytes),
	                             timeout_ms);
}

static int last_state(const struct rpc_answer *answer)
{
	Sriovdp__Control__V1__DevicePluginStatus *m =
		answer->n ? sriovdp__control__v1__device_plugin_status__unpack(NULL, answer->n,
	                                                                       answer->bytes)
			  : NULL;
	int state = m ? (int)m->state : 0;

	if (m)
		sriovdp__control__v1__device_plugin_status__free_unpacked(m, NULL);
	return state;
}

/* Returns the code with which the stream has ended. */
static int wait_for(struct gate_server *s, struct rpc_pending *p)
{
	struct rpc_answer answer;
	int code = rpc_pending_wait(p, &answer);

	s->served += answer.n > 0;
	/* The replaced stream was notified before. */
	if (code == ERR_ABORTED || code == ERR_UNAVAILABLE)
		ck_assert_int_eq(last_state(&answer),
		                 SRIOVDP__CONTROL__V1__DEVICE_PLUGIN_STATUS__STATE__STOPPING);
	s->taken += code == ERR_ABORTED;
	s->refused += code == ERR_PRECONDITION;
	rpc_answer_clear(&answer);
	return code;
}

static bool becomes(struct gate_server *s, bool permits)
{
	struct deadline limit = wait_limit();

	while (gatekeeper_permits(s->keeper) != permits)
		if (!wait_a_moment(limit))
			return false;
	return true;
}

static void *compete(void *arg)
{
	struct gate_server *s = arg;
	struct rpc_client *client =
		rpc_client_new(&(struct rpc_client_options) { .path = s->f.path });

	for (int i = 0; i < ROUNDS; i++) {
		struct rpc_pending *p = enable(client, ++s->generation, i % 3 == 0 ? 10 : 2000);
		struct rpc_pending *next =
			i % 3 == 2 ? enable(client, ++s->generation, 2000) : NULL;
		int code;

		if (i % 3 == 1)
			rpc_pending_cancel(p);
		code = wait_for(s, p);
		ck_assert_msg(code == ERR_ABORTED || code == ERR_CANCELLED ||
		                      code == ERR_DEADLINE || code == ERR_PRECONDITION,
		              "code %d", code);
		if (next) {
			rpc_pending_cancel(next);
			wait_for(s, next);
		}
	}
	rpc_client_free(client);
	return NULL;
}

START_TEST(streams_compete_and_none_is_left)
{
	pthread_t threads[THREADS];
	struct gate_server s;

	begin(&s);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, compete, &s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert(becomes(&s, false));
	ck_assert_msg(s.served && s.taken, "served %d, taken %d, refused %d", s.served, s.taken,
	              s.refused);
	end(&s);
}
END_TEST

static unsigned count_threads(void)
{
	DIR *dir AUTO(closedir) = opendir("/proc/self/task");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	return n;
}

START_TEST(a_held_stream_has_no_thread_and_a_cancelled_one_closes_the_gate)
{
	struct rpc_pending *p;
	struct gate_server s;
	unsigned before;

	begin(&s);
	p = enable(s.f.client, 1, 200);
	ck_assert_int_eq(wait_for(&s, p), ERR_DEADLINE); /* gRPC's own threads exist now */
	ck_assert(becomes(&s, false));
	before = count_threads();
	p = enable(s.f.client, 1, NEVER_MS);
	ck_assert(becomes(&s, true));
	WAIT_UNTIL(count_threads() <= before); /* those that opened it end */
	rpc_pending_cancel(p);
	ck_assert(becomes(&s, false));
	ck_assert_int_eq(wait_for(&s, p), ERR_CANCELLED);
	end(&s);
}
END_TEST

START_TEST(a_server_that_stops_ends_its_stream_at_once)
{
	struct rpc_pending *p;
	struct gate_server s;

	begin(&s);
	p = enable(s.f.client, 1, NEVER_MS);
	ck_assert(becomes(&s, true));
	gatekeeper_stop(s.keeper);
	ck_assert_int_eq(wait_for(&s, p), ERR_UNAVAILABLE);
	ck_assert_int_eq(s.served, 1);
	end(&s);
}
END_TEST

START_TEST(bytes_that_are_no_request_are_refused)
{
	struct gate_server s;
	struct rpc_answer answer;

	begin(&s);
	ck_assert_int_eq(
		rpc_client_call_bytes(s.f.client, ENABLE, "\xff\xff", 2, WAIT_LIMIT_MS, &answer),
		ERR_INVALID);
	rpc_answer_clear(&answer);
	ck_assert_int_eq(rpc_client_call_bytes(s.f.client, ENABLE, NULL, 0, WAIT_LIMIT_MS, &answer),
	                 ERR_INVALID); /* an empty request: no node */
	ck_assert_msg(strstr(answer.text, "n1") != NULL, "%s", answer.text);
	rpc_answer_clear(&answer);
	ck_assert(!gatekeeper_permits(s.keeper));
	end(&s);
}
END_TEST

SUITE_TIMEOUT("rpc streams", 120, streams_compete_and_none_is_left,
              a_held_stream_has_no_thread_and_a_cancelled_one_closes_the_gate,
              a_server_that_stops_ends_its_stream_at_once, bytes_that_are_no_request_are_refused);
