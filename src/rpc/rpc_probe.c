/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that calls Identity.Probe: one channel, one call, one completion queue, all of it in the
 * calling thread.
 *
 * It owns nothing beyond the call and does not retry: kubelet repeats the probe and counts the
 * failures. It does not log: the caller prints the error to stderr, and kubelet shows that in the
 * event of the failed probe.
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

#include "common/cleanup.h"
#include "common/mem.h"

#define METHOD "/csi.v1.Identity/Probe"

/* What gRPC fills in before the call ends. */
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

/* CSI: a driver that leaves the optional field `ready` out is ready. */
static bool says_ready(grpc_byte_buffer *message)
{
	grpc_byte_buffer_reader reader;
	Csi__V1__ProbeResponse *response;
	bool ready = false;
	grpc_slice all;

	if (!message || !grpc_byte_buffer_reader_init(&reader, message))
		return false;
	all = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	response = csi__v1__probe_response__unpack(NULL, GRPC_SLICE_LENGTH(all),
	                                           GRPC_SLICE_START_PTR(all));
	if (response)
		ready = !response->ready || response->ready->value;
	if (response)
		csi__v1__probe_response__free_unpacked(response, NULL);
	grpc_slice_unref(all);
	return ready;
}

static int judge(const char *path, const struct probe_answer *a, struct err *err)
{
	if (a->status != GRPC_STATUS_OK) {
		char *text AUTO(free) = xstrndup((const char *)GRPC_SLICE_START_PTR(a->text),
		                                 GRPC_SLICE_LENGTH(a->text));

		return err_set(err, ERR_UNAVAILABLE,
		               "the driver at %s does not answer: status %d: %s", path,
		               (int)a->status, text);
	}
	if (!says_ready(a->message))
		return err_set(err, ERR_UNAVAILABLE,
		               "the driver at %s answers that it is not ready", path);
	return 0;
}

/* Sends an empty ProbeRequest and waits for the end of the call, which its deadline bounds. */
static void exchange(grpc_call *call, grpc_completion_queue *queue, struct probe_answer *a)
{
	grpc_slice nothing = grpc_empty_slice();
	grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&nothing, 1);
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

int rpc_probe(const char *path, int timeout_ms, struct err *err)
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
	                                grpc_slice_from_static_string(METHOD), NULL, deadline,
	                                NULL);
	answer.text = grpc_empty_slice();
	grpc_metadata_array_init(&answer.initial);
	grpc_metadata_array_init(&answer.trailing);
	exchange(call, queue, &answer);
	rc = judge(path, &answer, err);
	answer_clear(&answer);
	grpc_call_unref(call);
	grpc_completion_queue_shutdown(queue);
	grpc_completion_queue_destroy(queue);
	grpc_channel_destroy(channel);
	grpc_shutdown_blocking();
	return rc;
}
