/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC core as a client: one channel with its own connection, one completion queue per call, so
 * that calls of several threads share nothing. The calling thread does all the work of its call.
 */
#include "test/lib/rpc_client.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"

struct rpc_client {
	grpc_channel *channel;
	bool wait_for_ready;
};

struct rpc_pending {
	grpc_completion_queue *queue;
	grpc_call *call;
	grpc_byte_buffer *request, *response;
	grpc_metadata_array initial, trailing;
	grpc_metadata extra;
	grpc_status_code status;
	grpc_slice text;
	int batches; /* not yet ended */
	bool many;   /* answers: each but the last is dropped */
	grpc_byte_buffer *next;
};

struct rpc_client *rpc_client_new(const struct rpc_client_options *options)
{
#define INTEGER(key_, value_) \
	{ .type = GRPC_ARG_INTEGER, .key = (char *)key_, .value.integer = (value_) }
	grpc_arg args[] = {
		INTEGER(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
		INTEGER(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
		INTEGER(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200),
		INTEGER(GRPC_ARG_ENABLE_RETRIES, 0),
		INTEGER(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
		INTEGER(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
		        options->gzip ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_NONE),
	};
#undef INTEGER
	grpc_channel_args all = { ARRAY_LEN(args), args };
	struct rpc_client *c = xcalloc(1, sizeof(*c));
	grpc_channel_credentials *credentials;
	char *target AUTO(free) = xasprintf("unix:%s", options->path);

	grpc_init();
	credentials = grpc_insecure_credentials_create();
	c->channel = grpc_channel_create(target, credentials, &all);
	c->wait_for_ready = options->wait_for_ready;
	grpc_channel_credentials_release(credentials);
	return c;
}

struct rpc_client *rpc_client_free(struct rpc_client *c)
{
	if (!c)
		return NULL;
	grpc_channel_destroy(c->channel);
	grpc_shutdown_blocking();
	free(c);
	return NULL;
}

static gpr_timespec when(int timeout_ms)
{
	if (timeout_ms < 0)
		return gpr_inf_future(GPR_CLOCK_REALTIME);
	return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
	                    gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

static void start(struct rpc_pending *p, const grpc_op *ops, size_t n)
{
	if (grpc_call_start_batch(p->call, ops, n, p, NULL) != GRPC_CALL_OK)
		abort();
	p->batches++;
}

static void wait_one(struct rpc_pending *p)
{
	(void)grpc_completion_queue_pluck(p->queue, p, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	p->batches--;
}

static struct rpc_pending *pending_new(struct rpc_client *c, const char *method, const void *in,
                                       size_t n, int timeout_ms)
{
	struct rpc_pending *p = xcalloc(1, sizeof(*p));
	grpc_slice path = grpc_slice_from_copied_string(method);
	grpc_slice body = grpc_slice_from_copied_buffer(in ? in : "", n);

	p->queue = grpc_completion_queue_create_for_pluck(NULL);
	p->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, p->queue,
	                                   path, NULL, when(timeout_ms), NULL);
	p->request = grpc_raw_byte_buffer_create(&body, 1);
	grpc_metadata_array_init(&p->initial);
	grpc_metadata_array_init(&p->trailing);
	p->text = grpc_empty_slice();
	grpc_slice_unref(path);
	grpc_slice_unref(body);
	return p;
}

/* Receives the answer and the status, with which every call ends. */
static void start_receiving(struct rpc_pending *p)
{
	grpc_op ops[3] = { { .op = GRPC_OP_RECV_INITIAL_METADATA },
		           { .op = GRPC_OP_RECV_MESSAGE },
		           { .op = GRPC_OP_RECV_STATUS_ON_CLIENT } };

	ops[0].data.recv_initial_metadata.recv_initial_metadata = &p->initial;
	ops[1].data.recv_message.recv_message = &p->response;
	ops[2].data.recv_status_on_client.trailing_metadata = &p->trailing;
	ops[2].data.recv_status_on_client.status = &p->status;
	ops[2].data.recv_status_on_client.status_details = &p->text;
	start(p, ops, 3);
}

/* Has its own tag, which is awaited separately. */
static void ask_for_next(struct rpc_pending *p)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &p->next;
	if (grpc_call_start_batch(p->call, &op, 1, &p->next, NULL) != GRPC_CALL_OK)
		abort();
}

/* Until there are no more: the call has ended. */
static void read_all(struct rpc_pending *p)
{
	for (;;) {
		(void)grpc_completion_queue_pluck(p->queue, &p->next,
		                                  gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		if (!p->next)
			return;
		if (p->response)
			grpc_byte_buffer_destroy(p->response);
		p->response = p->next;
		p->next = NULL;
		ask_for_next(p);
	}
}

struct rpc_pending *rpc_client_start_many(struct rpc_client *c, const char *method, const void *in,
                                          size_t n, int timeout_ms)
{
	struct rpc_pending *p = pending_new(c, method, in, n, timeout_ms);
	grpc_op ops[5] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		           { .op = GRPC_OP_SEND_MESSAGE },
		           { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		           { .op = GRPC_OP_RECV_INITIAL_METADATA },
		           { .op = GRPC_OP_RECV_STATUS_ON_CLIENT } };

	ops[1].data.send_message.send_message = p->request;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &p->initial;
	ops[4].data.recv_status_on_client.trailing_metadata = &p->trailing;
	ops[4].data.recv_status_on_client.status = &p->status;
	ops[4].data.recv_status_on_client.status_details = &p->text;
	p->many = true;
	start(p, ops, 5);
	ask_for_next(p);
	return p;
}

struct rpc_pending *rpc_client_start_with(struct rpc_client *c, const char *method, const void *in,
                                          size_t n, int timeout_ms, const char *key,
                                          const char *value)
{
	struct rpc_pending *p = pending_new(c, method, in, n, timeout_ms);
	grpc_op ops[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		           { .op = GRPC_OP_SEND_MESSAGE },
		           { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT } };

	if (key) {
		p->extra.key = grpc_slice_from_copied_string(key);
		p->extra.value = grpc_slice_from_copied_string(value);
		ops[0].data.send_initial_metadata.count = 1;
		ops[0].data.send_initial_metadata.metadata = &p->extra;
	}
	if (c->wait_for_ready)
		ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
		               GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
	ops[1].data.send_message.send_message = p->request;
	start(p, ops, 3);
	start_receiving(p);
	return p;
}

struct rpc_pending *rpc_client_start(struct rpc_client *c, const char *method, const void *in,
                                     size_t n, int timeout_ms)
{
	return rpc_client_start_with(c, method, in, n, timeout_ms, NULL, NULL);
}

struct rpc_pending *rpc_client_start_stream(struct rpc_client *c, const char *method,
                                            const void *in, size_t n, int count, int timeout_ms)
{
	struct rpc_pending *p = pending_new(c, method, in, n, timeout_ms);
	grpc_op first = { .op = GRPC_OP_SEND_INITIAL_METADATA };
	grpc_op message = { .op = GRPC_OP_SEND_MESSAGE };
	grpc_op last = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };

	start(p, &first, 1);
	wait_one(p);
	for (int i = 0; i < count; i++) {
		grpc_byte_buffer *copy = grpc_byte_buffer_copy(p->request);

		message.data.send_message.send_message = copy;
		start(p, &message, 1);
		wait_one(p);
		grpc_byte_buffer_destroy(copy);
	}
	start(p, &last, 1);
	start_receiving(p);
	return p;
}

struct rpc_pending *rpc_client_start_headers(struct rpc_client *c, const char *method,
                                             int timeout_ms)
{
	struct rpc_pending *p = pending_new(c, method, NULL, 0, timeout_ms);
	grpc_op first = { .op = GRPC_OP_SEND_INITIAL_METADATA };

	start(p, &first, 1);
	wait_one(p);
	start_receiving(p);
	return p;
}

void rpc_pending_cancel(struct rpc_pending *p)
{
	grpc_call_cancel(p->call, NULL);
}

static void take_response(struct rpc_pending *p, struct rpc_answer *answer)
{
	grpc_byte_buffer_reader reader;
	grpc_slice all;

	if (!p->response || !grpc_byte_buffer_reader_init(&reader, p->response))
		return;
	all = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	answer->n = GRPC_SLICE_LENGTH(all);
	answer->bytes = xmalloc(answer->n + 1);
	memcpy(answer->bytes, GRPC_SLICE_START_PTR(all), answer->n);
	grpc_slice_unref(all);
}

static void pending_free(struct rpc_pending *p)
{
	grpc_completion_queue_shutdown(p->queue);
	(void)grpc_completion_queue_pluck(p->queue, NULL, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
	grpc_call_unref(p->call);
	grpc_completion_queue_destroy(p->queue);
	grpc_byte_buffer_destroy(p->request);
	if (p->response)
		grpc_byte_buffer_destroy(p->response);
	grpc_metadata_array_destroy(&p->initial);
	grpc_metadata_array_destroy(&p->trailing);
	grpc_slice_unref(p->text);
	if (GRPC_SLICE_LENGTH(p->extra.key)) {
		grpc_slice_unref(p->extra.key);
		grpc_slice_unref(p->extra.value);
	}
	free(p);
}

int rpc_pending_wait(struct rpc_pending *p, struct rpc_answer *answer)
{
	size_t n;

	if (p->many)
		read_all(p);
	while (p->batches)
		wait_one(p);
	*answer = (struct rpc_answer) { .code = (int)p->status };
	n = GRPC_SLICE_LENGTH(p->text);
	if (n >= sizeof(answer->text))
		n = sizeof(answer->text) - 1;
	memcpy(answer->text, GRPC_SLICE_START_PTR(p->text), n);
	take_response(p, answer);
	pending_free(p);
	return answer->code;
}

int rpc_client_call_bytes(struct rpc_client *c, const char *method, const void *in, size_t n,
                          int timeout_ms, struct rpc_answer *answer)
{
	return rpc_pending_wait(rpc_client_start(c, method, in, n, timeout_ms), answer);
}

int rpc_client_call(struct rpc_client *c, const char *method, const ProtobufCMessage *req,
                    const ProtobufCMessageDescriptor *resp, int timeout_ms, ProtobufCMessage **ret,
                    struct rpc_answer *answer)
{
	size_t n = protobuf_c_message_get_packed_size(req);
	uint8_t *in AUTO(free) = xmalloc(n + 1);

	protobuf_c_message_pack(req, in);
	rpc_client_call_bytes(c, method, in, n, timeout_ms, answer);
	if (ret)
		*ret = answer->code == 0
		               ? protobuf_c_message_unpack(resp, NULL, answer->n, answer->bytes)
		               : NULL;
	return answer->code;
}

void rpc_answer_clear(struct rpc_answer *answer)
{
	free(answer->bytes);
	*answer = (struct rpc_answer) { 0 };
}
