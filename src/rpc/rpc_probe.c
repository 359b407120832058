/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that calls Identity.Probe, Health.Check or Driver.SetLogLevel. It uses one channel, one
 * call and one completion queue, all in the calling thread.
 *
 * It owns nothing beyond the call. It does not retry, because kubelet repeats the probe and counts
 * the failures. It does not log, because the caller prints the error to stderr, and kubelet shows
 * that output in the Event of the failed probe.
 */
#include "rpc/rpc_probe.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdbool.h>
#include <stdlib.h>

#include "csi/csi.pb-c.h"
#include "csi/driver.pb-c.h"
#include "csi/health.pb-c.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "rpc/health.h"

/* Filled in by gRPC before the call ends. */
struct probe_answer {
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *message;
	grpc_status_code status;
	grpc_slice text;
};

static void answer_clear(struct probe_answer *a)
{
	grpc_metadata_array_destroy(&a->initial);
	grpc_metadata_array_destroy(&a->trailing);
	if (a->message)
		grpc_byte_buffer_destroy(a->message);
	grpc_slice_unref(a->text);
}

/*
 * Returns true if the driver is ready. In CSI, a driver that omits the optional field `ready` is
 * ready.
 */
static bool says_ready(const ProtobufCMessage *message, void *ret)
{
	const Csi__V1__ProbeResponse *response = (const void *)message;

	(void)ret;
	return !response->ready || response->ready->value;
}

static bool says_serving(const ProtobufCMessage *message, void *ret)
{
	const Grpc__Health__V1__HealthCheckResponse *response = (const void *)message;

	(void)ret;
	return response->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

static bool says_level(const ProtobufCMessage *message, void *ret)
{
	const Snapcsi__V1__SetLogLevelResponse *response = (const void *)message;

	*(struct rpc_log_level *)ret = (struct rpc_log_level) {
		.before = response->before,
		.started_with = response->started_with,
	};
	return true;
}

/*
 * The request, the function that accepts a good answer, and the messages for a bad answer and for
 * an unexpected driver.
 */
struct question {
	const char *method;
	const ProtobufCMessage *request;
	const ProtobufCMessageDescriptor *response;
	bool (*good)(const ProtobufCMessage *message, void *ret);
	void *ret; /* argument of good() */
	const char *bad;
	/* message if the driver does not have the method; NULL: as for any other status */
	const char *unknown;
};

static bool is_good(const struct question *q, grpc_byte_buffer *message)
{
	grpc_byte_buffer_reader reader;
	ProtobufCMessage *response;
	bool good = false;
	grpc_slice all;

	if (!message || !grpc_byte_buffer_reader_init(&reader, message))
		return false;
	all = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	response = protobuf_c_message_unpack(q->response, NULL, GRPC_SLICE_LENGTH(all),
	                                     GRPC_SLICE_START_PTR(all));
	if (response)
		good = q->good(response, q->ret);
	protobuf_c_message_free_unpacked(response, NULL);
	grpc_slice_unref(all);
	return good;
}

static int probe_evaluate(const struct question *q, const char *path, const struct probe_answer *a,
                          struct err *err)
{
	if (q->unknown &&
	    (a->status == GRPC_STATUS_NOT_FOUND || a->status == GRPC_STATUS_UNIMPLEMENTED))
		return err_set(err, ERR_UNAVAILABLE, "the driver at %s %s", path, q->unknown);
	if (a->status != GRPC_STATUS_OK) {
		char *text AUTO(free) = xstrndup((const char *)GRPC_SLICE_START_PTR(a->text),
		                                 GRPC_SLICE_LENGTH(a->text));

		return err_set(err, ERR_UNAVAILABLE,
		               "the driver at %s does not answer: status %d: %s", path,
		               (int)a->status, text);
	}
	if (!is_good(q, a->message))
		return err_set(err, ERR_UNAVAILABLE, "the driver at %s %s", path, q->bad);
	return 0;
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message)
{
	grpc_slice bytes = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
	grpc_byte_buffer *ret;

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(bytes));
	ret = grpc_raw_byte_buffer_create(&bytes, 1);
	grpc_slice_unref(bytes);
	return ret;
}

/* Sends the request and waits for the end of the call, which its deadline limits. */
static void exchange(const struct question *q, grpc_call *call, grpc_completion_queue *queue,
                     struct probe_answer *a)
{
	grpc_byte_buffer *request = pack(q->request);
	grpc_op ops[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		          { .op = GRPC_OP_SEND_MESSAGE, .data.send_message = { request } },
		          { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		          { .op = GRPC_OP_RECV_INITIAL_METADATA,
		            .data.recv_initial_metadata = { &a->initial } },
		          { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message = { &a->message } },
		          { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		            .data.recv_status_on_client = { &a->trailing, &a->status, &a->text,
		                                            NULL } } };

	if (grpc_call_start_batch(call, ops, ARRAY_LEN(ops), a, NULL) != GRPC_CALL_OK)
		abort();
	(void)grpc_completion_queue_pluck(queue, a, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	grpc_byte_buffer_destroy(request);
}

static grpc_channel *open_channel(const char *path)
{
	char *target AUTO(free) = xasprintf("unix:%s", path);
	grpc_arg local = { .type = GRPC_ARG_INTEGER,
		           .key = (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
		           .value.integer = 1 };
	grpc_channel_args args = { 1, &local };
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	grpc_channel *channel = grpc_channel_create(target, credentials, &args);

	grpc_channel_credentials_release(credentials);
	return channel;
}

static int probe_call(const struct question *q, const char *path, int timeout_ms, struct err *err)
{
	struct probe_answer answer = { .status = GRPC_STATUS_UNKNOWN };
	grpc_completion_queue *queue;
	grpc_channel *channel;
	gpr_timespec deadline;
	grpc_call *call;
	int rc;

	grpc_init();
	channel = open_channel(path);
	queue = grpc_completion_queue_create_for_pluck(NULL);
	deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
	                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
	call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
	                                grpc_slice_from_static_string(q->method), NULL, deadline,
	                                NULL);
	answer.text = grpc_empty_slice();
	grpc_metadata_array_init(&answer.initial);
	grpc_metadata_array_init(&answer.trailing);
	exchange(q, call, queue, &answer);
	rc = probe_evaluate(q, path, &answer, err);
	answer_clear(&answer);
	grpc_call_unref(call);
	grpc_completion_queue_shutdown(queue);
	grpc_completion_queue_destroy(queue);
	grpc_channel_destroy(channel);
	grpc_shutdown_blocking();
	return rc;
}

int rpc_probe(const char *path, int timeout_ms, struct err *err)
{
	const Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;
	const struct question q = {
		.method = "/csi.v1.Identity/Probe",
		.request = &request.base,
		.response = &csi__v1__probe_response__descriptor,
		.good = says_ready,
		.bad = "answers that it is not ready",
	};

	return probe_call(&q, path, timeout_ms, err);
}

int rpc_probe_registered(const char *path, int timeout_ms, struct err *err)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	const struct question q = {
		.method = "/grpc.health.v1.Health/Check",
		.request = &request.base,
		.response = &grpc__health__v1__health_check_response__descriptor,
		.good = says_serving,
		.bad = "is not registered with kubelet: the driver's log shows whether kubelet "
		       "has refused it or has not connected yet",
		.unknown =
			"does not register itself with kubelet: set --kubelet-registration-path, "
			"or use plain --probe",
	};

	request.service = (char *)HEALTH_REGISTERED;
	return probe_call(&q, path, timeout_ms, err);
}

int rpc_set_log_level(const char *path, int level, int timeout_ms, struct rpc_log_level *ret,
                      struct err *err)
{
	Snapcsi__V1__SetLogLevelRequest request = SNAPCSI__V1__SET_LOG_LEVEL_REQUEST__INIT;
	const struct question q = {
		.method = "/snapcsi.v1.Driver/SetLogLevel",
		.request = &request.base,
		.response = &snapcsi__v1__set_log_level_response__descriptor,
		.good = says_level,
		.ret = ret,
		.bad = "gives an answer that cannot be read",
		.unknown = "has no log-level: it is older than this program, or another driver",
	};

	request.level = level;
	return probe_call(&q, path, timeout_ms, err);
}
