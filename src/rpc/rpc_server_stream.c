/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with many answers (rpc_stream.h). This file owns the waiting message and the call's result;
 * rpc_server_call.c owns the rest of a call.
 *
 * gRPC accepts one message at a time. `writing` is set until the message's batch has completed on
 * the poller, which then writes the next message, or the end. Each batch holds a reference to the
 * call. The lock guards the fields that threads share; no function except gRPC's, which do not
 * block, is called with the lock held.
 */
#include "rpc/rpc_server_priv.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "rpc/rpc_log.h"

struct rpc_stream {
	struct server_call *call;
	struct tag wrote;
	pthread_mutex_t lock; /* guards the fields below */
	uint8_t *next;        /* sent when `writing` has ended */
	size_t n_next;
	bool waits;   /* `next` is a message; needed because an empty message has no bytes */
	bool writing; /* gRPC is writing a message */
	bool begun;   /* gRPC has received the headers */
	bool ended;   /* rpc_stream_end() was called, or the caller has left */
	bool failed;  /* the stream ends with the error `end` */
	bool over;    /* gRPC has received the end */
	struct err end;
};

struct rpc_stream *rpc_stream_new(struct server_call *c)
{
	struct rpc_stream *s = xcalloc(1, sizeof(*s));

	s->call = c;
	s->wrote = (struct tag) { CALL_WROTE, c };
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void rpc_stream_free(struct rpc_stream *s)
{
	if (!s)
		return;
	free(s->next);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- under the lock ---- */

static size_t headers(struct rpc_stream *s, grpc_op *op)
{
	if (s->begun)
		return 0;
	s->begun = true;
	*op = (grpc_op) { .op = GRPC_OP_SEND_INITIAL_METADATA };
	return 1;
}

static void write_next_locked(struct rpc_stream *s)
{
	grpc_slice body = s->next ? grpc_slice_new(s->next, s->n_next, free) : grpc_empty_slice();
	grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&body, 1);
	grpc_op ops[2];
	size_t n;

	grpc_slice_unref(body);
	s->next = NULL;
	s->waits = false;
	s->writing = true;
	n = headers(s, ops);
	ops[n] = (grpc_op) { .op = GRPC_OP_SEND_MESSAGE };
	ops[n++].data.send_message.send_message = message;
	atomic_fetch_add(&s->call->refs, 1);
	rpc_call_start(s->call, ops, n, &s->wrote);
	grpc_byte_buffer_destroy(message);
}

static void write_end_locked(struct rpc_stream *s)
{
	struct server_call *c = s->call;
	struct str text AUTO(str_clear) = STR_INIT(SHOWN_BYTES_MAX * ERR_MSG_MAX);
	grpc_op ops[2];
	size_t n = headers(s, ops);

	s->over = true;
	if (s->failed) {
		str_add_shown(&text, s->end.msg);
		c->text = grpc_slice_from_copied_string(text.ptr);
	}
	ops[n] = (grpc_op) { .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
	ops[n].data.send_status_from_server.status =
		s->failed ? (grpc_status_code)s->end.code : GRPC_STATUS_OK;
	ops[n++].data.send_status_from_server.status_details = s->failed ? &c->text : NULL;
	rpc_call_start(c, ops, n, &c->sent);
}

static void go_on_locked(struct rpc_stream *s)
{
	if (s->writing || s->over)
		return;
	if (s->waits)
		write_next_locked(s);
	else if (s->ended)
		write_end_locked(s);
}

/* ---- the owner's side ---- */

void rpc_stream_send(struct rpc_stream *s, const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = n ? xmalloc(n) : NULL;

	if (n)
		protobuf_c_message_pack(message, bytes);
	WITH_LOCK(&s->lock);
	assert(!s->ended);
	free(s->next);
	s->next = bytes;
	s->n_next = n;
	s->waits = true;
	go_on_locked(s);
}

void rpc_stream_end(struct rpc_stream *s, const struct err *err)
{
	WITH_LOCK(&s->lock);
	if (s->ended)
		return;
	s->ended = true;
	s->failed = err != NULL;
	if (err)
		s->end = *err;
	go_on_locked(s);
}

/* ---- the poller's side ---- */

void rpc_stream_wrote(struct rpc_stream *s)
{
	WITH_LOCK(&s->lock);
	s->writing = false;
	go_on_locked(s);
}

void rpc_stream_sent(struct rpc_stream *s)
{
	/* Waits for the thread that has ended the stream and may still hold the lock. */
	WITH_LOCK(&s->lock);
	rpc_log_call(&s->call->rpc, s->call->method, s->failed ? &s->end : NULL);
}

static bool is_ended(struct rpc_stream *s)
{
	WITH_LOCK(&s->lock);
	return s->ended;
}

void rpc_stream_left(struct rpc_stream *s)
{
	const struct server_call *c = s->call;
	struct err err = ERR_INIT;

	if (is_ended(s))
		return;
	/*
	 * Another thread of the owner may end the stream at the same time; the owner then no longer
	 * uses it.
	 */
	c->method->closed(c->service->self, s);
	err_set(&err, ERR_CANCELLED, "the caller has ended, or its deadline has passed");
	rpc_stream_end(s, &err);
}
