/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call on the gRPC server:
 *
 *   posted     a slot waits for the next call of any client; when one arrives, another is posted
 *   arrived    the method is looked up, the call counted, its end watched, its message asked for
 *   received   Identity is answered here, on the poller; any other call gets a thread
 *   run        rpc_dispatch(), then the log line, then the answer is given to gRPC
 *   gone       its end (closed) and its answer (sent) have both come back; the later one frees it
 *
 * "closed" comes early when the caller cancels, vanishes or its deadline passes, which gRPC
 * watches: the poller then sets the call's cancellation, which wakes its handler. Hence the poller
 * must not block.
 *
 * The poller owns a call until it is given to a thread, then that thread until it starts to
 * send the answer, then the poller again.
 */
#include "rpc/rpc_server_priv.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/limits.h"
#include "rpc/listener.h"
#include "rpc/rpc_log.h"
#include "rpc/workers.h"
#include "common/str.h"

#define METHOD_SHOWN 200 /* bytes of the method's name in errors and the log */
#define CENTURY_S INT64_C(3155760000)
#define NS_PER_S INT64_C(1000000000)

_Static_assert((int)ERR_OK == GRPC_STATUS_OK && (int)ERR_CANCELLED == GRPC_STATUS_CANCELLED &&
                       (int)ERR_UNKNOWN == GRPC_STATUS_UNKNOWN &&
                       (int)ERR_INVALID == GRPC_STATUS_INVALID_ARGUMENT &&
                       (int)ERR_DEADLINE == GRPC_STATUS_DEADLINE_EXCEEDED &&
                       (int)ERR_NOT_FOUND == GRPC_STATUS_NOT_FOUND &&
                       (int)ERR_EXISTS == GRPC_STATUS_ALREADY_EXISTS &&
                       (int)ERR_PERMISSION == GRPC_STATUS_PERMISSION_DENIED &&
                       (int)ERR_EXHAUSTED == GRPC_STATUS_RESOURCE_EXHAUSTED &&
                       (int)ERR_PRECONDITION == GRPC_STATUS_FAILED_PRECONDITION &&
                       (int)ERR_ABORTED == GRPC_STATUS_ABORTED &&
                       (int)ERR_RANGE == GRPC_STATUS_OUT_OF_RANGE &&
                       (int)ERR_UNIMPLEMENTED == GRPC_STATUS_UNIMPLEMENTED &&
                       (int)ERR_INTERNAL == GRPC_STATUS_INTERNAL &&
                       (int)ERR_UNAVAILABLE == GRPC_STATUS_UNAVAILABLE &&
                       (int)ERR_DATA_LOSS == GRPC_STATUS_DATA_LOSS &&
                       (int)ERR_UNAUTHENTICATED == GRPC_STATUS_UNAUTHENTICATED,
               "err.h has gRPC's numbers");

struct server_call {
	struct task task;
	struct rpc_server *server;
	const struct rpc_service *service;
	const struct rpc_method *method;
	bool counted;    /* in rpc_server.counted */
	atomic_int refs; /* closed, sent: those that have not come back */
	struct rpc_call rpc;
	struct tag arrived, received, closed, sent;
	/* What gRPC reads and writes. */
	grpc_call *grpc;
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *request;
	int cancelled;
	grpc_slice text; /* of the status */
};

/* ---- ThreadSanitizer ---- */

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define TSAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define TSAN
#endif

#ifdef TSAN
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

void rpc_hand(void *what)
{
	__tsan_release(what);
}

void rpc_unhand(void *what)
{
	__tsan_acquire(what);
}

/* ---- a call's beginning and end ---- */

void rpc_post_slot(struct rpc_server *s)
{
	struct server_call *c = xcalloc(1, sizeof(*c));
	grpc_call_error e;

	c->server = s;
	c->arrived = (struct tag) { CALL_ARRIVED, c };
	c->received = (struct tag) { CALL_RECEIVED, c };
	c->closed = (struct tag) { CALL_CLOSED, c };
	c->sent = (struct tag) { CALL_SENT, c };
	c->text = grpc_empty_slice();
	grpc_call_details_init(&c->details);
	grpc_metadata_array_init(&c->metadata);
	rpc_hand(c);
	e = grpc_server_request_call(s->grpc, &c->grpc, &c->details, &c->metadata, s->queue,
	                             s->queue, &c->arrived);
	assert(e == GRPC_CALL_OK);
}

static void free_slot(struct server_call *c)
{
	grpc_metadata_array_destroy(&c->metadata);
	grpc_call_details_destroy(&c->details);
	free(c);
}

static void count_gone(struct rpc_server *s, bool counted)
{
	WITH_LOCK(&s->lock);
	assert(s->live > 0 && s->counted >= counted);
	s->live--;
	s->counted -= counted;
	pthread_cond_signal(&s->changed);
}

static void call_unref(struct server_call *c)
{
	struct rpc_server *s = c->server;
	bool counted = c->counted;

	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	grpc_call_unref(c->grpc);
	if (c->request)
		grpc_byte_buffer_destroy(c->request);
	grpc_slice_unref(c->text);
	rpc_call_clear(&c->rpc);
	free_slot(c);
	count_gone(s, counted);
}

static void start(struct server_call *c, const grpc_op *ops, size_t n, struct tag *tag)
{
	grpc_call *grpc = c->grpc;
	grpc_call_error e;

	rpc_hand(c);
	e = grpc_call_start_batch(grpc, ops, n, tag, NULL);
	assert(e == GRPC_CALL_OK);
}

/*
 * Logs the call and gives the answer to gRPC, which owns `out` (may be NULL) then. The caller must
 * not touch the call afterwards.
 */
static void answer(struct server_call *c, uint8_t *out, size_t n_out, const struct err *err)
{
	grpc_op ops[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };
	struct str text AUTO(str_clear) = STR_INIT(SHOWN_BYTES_MAX * ERR_MSG_MAX);
	grpc_byte_buffer *message = NULL;
	size_t n = 1;

	rpc_log_call(&c->rpc, c->method, err);
	if (err) {
		str_add_shown(&text, err->msg);
		c->text = grpc_slice_from_copied_string(text.ptr);
	} else {
		grpc_slice body = out ? grpc_slice_new(out, n_out, free) : grpc_empty_slice();

		message = grpc_raw_byte_buffer_create(&body, 1);
		grpc_slice_unref(body);
		ops[n].op = GRPC_OP_SEND_MESSAGE;
		ops[n++].data.send_message.send_message = message;
	}
	ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	ops[n].data.send_status_from_server.status =
		err ? (grpc_status_code)err->code : GRPC_STATUS_OK;
	ops[n++].data.send_status_from_server.status_details = err ? &c->text : NULL;
	start(c, ops, n, &c->sent);
	if (message)
		grpc_byte_buffer_destroy(message);
}

/* ---- running it ---- */

static void dispatch(struct server_call *c, struct err *err, uint8_t **out, size_t *n_out)
{
	const grpc_slice_buffer *parts = &c->request->data.raw.slice_buffer;
	grpc_byte_buffer_reader reader;
	grpc_slice whole;

	if (parts->count == 1) {
		whole = grpc_slice_ref(parts->slices[0]);
	} else if (grpc_byte_buffer_reader_init(&reader, c->request)) {
		whole = grpc_byte_buffer_reader_readall(&reader);
		grpc_byte_buffer_reader_destroy(&reader);
	} else {
		err_set(err, ERR_INTERNAL, "the request cannot be read");
		return;
	}
	if (rpc_dispatch(c->service, c->method, &c->rpc, GRPC_SLICE_START_PTR(whole),
	                 GRPC_SLICE_LENGTH(whole), out, n_out, err))
		assert(err->code != ERR_OK);
	grpc_slice_unref(whole);
}

static void run(struct server_call *c)
{
	struct err err = ERR_INIT;
	uint8_t *out = NULL;
	size_t n_out = 0;

	running_on_thread(&c->rpc.running);
	/* The caller may have left before there was a thread. */
	if (deadline_check(c->rpc.deadline, &err, "start") == 0)
		dispatch(c, &err, &out, &n_out);
	running_end(&c->rpc.running);
	answer(c, out, n_out, err.code ? &err : NULL);
}

_Static_assert(offsetof(struct server_call, task) == 0, "run_task() casts");

static void run_task(struct task *task)
{
	run((struct server_call *)task);
}

static void on_received(struct server_call *c)
{
	struct err err = ERR_INIT;

	if (!c->request) {
		/* When it was too large, gRPC has answered the caller itself. */
		err_set(&err, ERR_INTERNAL, "no request came, or one of more than %d bytes",
		        LIMIT_RPC_MESSAGE);
	} else if (c->method->on_poller) {
		run(c);
		return;
	} else {
		c->task.run = run_task;
		running_begin(c->server->running, &c->rpc.running, c->method->name);
		if (workers_submit(c->server->workers, &c->task))
			return;
		running_end(&c->rpc.running);
		err_set(&err, ERR_UNAVAILABLE, "no thread can be started to run %s: try again",
		        c->method->name);
	}
	answer(c, NULL, 0, &err);
}

/* ---- arrival ---- */

static struct deadline to_deadline(gpr_timespec at, struct cancel *cancel)
{
	gpr_timespec left;

	left = gpr_time_sub(at, gpr_now(at.clock_type)); /* `at` is in CLOCK_REALTIME */
	if (left.tv_sec > CENTURY_S)
		return (struct deadline) { .at = DEADLINE_NEVER, .cancel = cancel };
	return (struct deadline) { .at = monotonic_ns() + left.tv_sec * NS_PER_S + left.tv_nsec,
		                   .cancel = cancel };
}

static int peer_pid(struct server_call *c)
{
	char *peer = grpc_call_get_peer(c->grpc); /* "fd:12" */
	uint64_t fd = 0;
	struct err err = ERR_INIT;
	int pid = 0;

	if (peer && str_has_prefix(peer, "fd:") && parse_u64("fd", peer + 3, &fd, &err) == 0)
		pid = listener_peer_pid(c->server->listener, (int)fd);
	gpr_free(peer);
	return pid;
}

/* Counts a call that has arrived. False: it would exceed max_calls. */
static bool count_arrival(struct rpc_server *s, struct server_call *c)
{
	WITH_LOCK(&s->lock);
	s->live++;
	if (!c->method || c->method->on_poller)
		return true;
	if (s->counted == s->max_calls)
		return false;
	s->counted++;
	c->counted = true;
	return true;
}

/* Its own batch, started before any other: its end says that the caller has gone, or is served. */
static void watch_end(struct server_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	op.data.recv_close_on_server.cancelled = &c->cancelled;
	start(c, &op, 1, &c->closed);
}

static void ask_for_message(struct server_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &c->request;
	start(c, &op, 1, &c->received);
}

static void on_arrived(struct server_call *c)
{
	const char *path = (const char *)GRPC_SLICE_START_PTR(c->details.method);
	size_t n = GRPC_SLICE_LENGTH(c->details.method);
	struct rpc_server *s = c->server;
	struct err err = ERR_INIT;

	atomic_store(&c->refs, 2);
	rpc_call_init(&c->rpc, "");
	c->rpc.method = arena_printf(&c->rpc.arena, "%.*s",
	                             (int)(n < METHOD_SHOWN ? n : METHOD_SHOWN), path);
	c->rpc.deadline = to_deadline(c->details.deadline, &c->rpc.cancel);
	c->rpc.peer_pid = peer_pid(c);
	c->method = rpc_find(s->services, s->n_services, path, n, &c->service);
	if (!count_arrival(s, c))
		err_set(&err, ERR_UNAVAILABLE,
		        "busy: %u calls are running, more are not taken; try again", s->max_calls);
	else if (!c->method)
		err_set(&err, ERR_UNIMPLEMENTED, "this driver has no method %s", c->rpc.method);
	watch_end(c);
	if (err.code)
		answer(c, NULL, 0, &err);
	else
		ask_for_message(c);
}

/* ---- the poller ---- */

static bool stopping(struct rpc_server *s)
{
	WITH_LOCK(&s->lock);
	return s->stopping;
}

static void on_shut(struct rpc_server *s)
{
	WITH_LOCK(&s->lock);
	s->notified = true;
	pthread_cond_signal(&s->changed);
}

/* Its caller has gone, or its deadline has passed. */
static void on_left(struct server_call *c)
{
	cancel_set(&c->rpc.cancel);
	running_left(&c->rpc.running);
	c->server->watch_at = running_watch(c->server->running);
}

static void on_event(struct rpc_server *s, struct tag *tag, bool success)
{
	struct server_call *c = tag->call;

	switch (tag->event) {
	case CALL_ARRIVED:
		if (!success) { /* the server stops */
			free_slot(c);
			return;
		}
		if (!stopping(s))
			rpc_post_slot(s);
		on_arrived(c);
		return;
	case CALL_RECEIVED:
		on_received(c);
		return;
	case CALL_CLOSED:
		if (c->cancelled)
			on_left(c);
		call_unref(c);
		return;
	case CALL_SENT:
		call_unref(c);
		return;
	case SERVER_SHUT:
		on_shut(s);
		return;
	}
}

static gpr_timespec to_gpr(int64_t at)
{
	if (at == INT64_MAX)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	return (gpr_timespec) { .tv_sec = at / NS_PER_S,
		                .tv_nsec = (int32_t)(at % NS_PER_S),
		                .clock_type = GPR_CLOCK_MONOTONIC };
}

/* Until the queue is shut down and empty. */
void rpc_poll(struct rpc_server *s)
{
	for (;;) {
		grpc_event event = grpc_completion_queue_next(s->queue, to_gpr(s->watch_at), NULL);
		struct tag *tag = event.tag;

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return;
		if (event.type == GRPC_QUEUE_TIMEOUT) {
			s->watch_at = running_watch(s->running);
			continue;
		}
		rpc_unhand(tag->call ? (void *)tag->call : s);
		on_event(s, tag, event.success);
	}
}
