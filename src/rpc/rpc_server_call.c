/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call on the gRPC server:
 *
 *   posted     a slot waits for the next call of any client; when one arrives, another is posted
 *   arrived    the method is looked up, its end watched, its message requested
 *   unread     its message has 10 s to arrive; the oldest is dropped when there are too many
 *   received   the poller answers Identity here; any other call is counted and gets a thread
 *   run        rpc_unpack(), its bytes are freed, rpc_run(), the log line, the answer goes to gRPC
 *   open       instead of "run", for methods with many answers: rpc_server_stream.c
 *   gone       its end (closed) and its answer (sent) have both completed; the later one frees the call
 *
 * "closed" arrives early if the caller cancels or disappears, or if its deadline passes, which gRPC
 * watches. The poller then sets the call's cancellation, which wakes the handler. Therefore the
 * poller must not block.
 *
 * The poller owns a call until the call is passed to a thread; then that thread owns it until the
 * thread starts to send the answer; then the poller owns it again.
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

#include "common/failing.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/metric.h"
#include "rpc/listener.h"
#include "rpc/rpc_log.h"
#include "rpc/workers.h"
#include "common/str.h"

#define METHOD_SHOWN 200 /* maximum length in bytes of the method's name in errors and the log */
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
	wait_queue_wake(&s->changed);
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
	rpc_stream_free(c->stream);
	rpc_call_clear(&c->rpc);
	free_slot(c);
	count_gone(s, counted);
}

/*
 * Passes the answer to gRPC, which then owns `out` (may be NULL). The caller must not touch the
 * call afterwards.
 */
static void call_send_answer(struct server_call *c, uint8_t *out, size_t n_out,
                             const struct err *err)
{
	grpc_op ops[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };
	struct str text AUTO(str_clear) = STR_INIT(SHOWN_BYTES_MAX * ERR_MSG_MAX);
	grpc_byte_buffer *message = NULL;
	size_t n = 1;

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
	rpc_call_start(c, ops, n, &c->sent);
	if (message)
		grpc_byte_buffer_destroy(message);
}

/* Like call_send_answer(), but counts and logs the call first. */
static void answer(struct server_call *c, uint8_t *out, size_t n_out, const struct err *err)
{
	const char *method = c->method ? c->method->name : NULL;

	if (cancel_is_set(&c->rpc.cancel))
		metric_add(METRIC_OPERATIONS_ABANDONED, 1, LABELS(method));
	metric_observe(METRIC_OPERATIONS, monotonic_ns() - c->rpc.started,
	               LABELS(method, err_code_name(err ? err->code : ERR_OK)));
	rpc_log_call(&c->rpc, c->method, err);
	call_send_answer(c, out, n_out, err);
}

/* ---- running it ---- */

/* Moves the bytes out of gRPC's buffer, as one slice. The caller releases the slice. */
static int take_bytes(struct server_call *c, grpc_slice *ret, struct err *err)
{
	const grpc_slice_buffer *parts = &c->request->data.raw.slice_buffer;
	grpc_byte_buffer_reader reader;

	if (parts->count == 1) {
		*ret = grpc_slice_ref(parts->slices[0]);
	} else if (grpc_byte_buffer_reader_init(&reader, c->request)) {
		*ret = grpc_byte_buffer_reader_readall(&reader);
		grpc_byte_buffer_reader_destroy(&reader);
	} else {
		return err_set(err, ERR_INTERNAL, "the request cannot be read");
	}
	grpc_byte_buffer_destroy(TAKE(c->request));
	return 0;
}

/* Unpacks the message, and frees its bytes, up to 1 MiB, before the handler waits. */
static int unpack(struct server_call *c, ProtobufCMessage **ret, struct err *err)
{
	grpc_slice bytes;
	int rc;

	if (take_bytes(c, &bytes, err))
		return -1;
	rc = rpc_unpack(c->service, c->method, &c->rpc, GRPC_SLICE_START_PTR(bytes),
	                GRPC_SLICE_LENGTH(bytes), ret, err);
	grpc_slice_unref(bytes);
	return rc;
}

static void dispatch(struct server_call *c, struct err *err, uint8_t **out, size_t *n_out)
{
	ProtobufCMessage *req;

	if (unpack(c, &req, err) || rpc_run(c->service, c->method, &c->rpc, req, out, n_out, err))
		assert(err->code != ERR_OK);
}

static void note_result(struct server_call *c)
{
	const char *volume = rpc_log_volume(&c->rpc);
	const struct err *err = c->err.code ? &c->err : NULL;

	if (volume && c->method->key)
		failing_note(volume, c->method->name, err, monotonic_ns());
	else if (volume && c->method->reads)
		failing_note_read(volume, c->method->name, err, monotonic_ns());
}

static void call_run(struct server_call *c)
{
	uint8_t *out = NULL;
	size_t n_out = 0;

	running_on_thread(&c->rpc.running);
	/* The caller may have left before a thread was available. */
	if (deadline_check(c->rpc.deadline, &c->err, "start") == 0)
		dispatch(c, &c->err, &out, &n_out);
	running_end(&c->rpc.running);
	note_result(c);
	answer(c, out, n_out, c->err.code ? &c->err : NULL);
}

/*
 * Opens the stream. The owner may use the stream until the owner ends it, or is notified that the
 * caller has left.
 */
static void call_open_stream(struct server_call *c)
{
	ProtobufCMessage *req;

	c->stream = rpc_stream_new(c);
	if (unpack(c, &req, &c->err)) {
		rpc_stream_end(c->stream, &c->err);
		return;
	}
	rpc_log_request(&c->rpc, req);
	if (c->method->opened(c->service->self, c->stream, req, &c->err))
		rpc_stream_end(c->stream, &c->err);
}

_Static_assert(offsetof(struct server_call, task) == 0, "run_task() casts");

static void run_task(struct task *task)
{
	call_run((struct server_call *)task);
}

/* ---- its message ---- */

static void add_unread(struct server_call *c)
{
	struct rpc_server *s = c->server;

	*s->unread_tail = c;
	s->unread_tail = &c->next_unread;
	s->n_unread++;
}

static void remove_unread(struct server_call *c)
{
	struct rpc_server *s = c->server;
	struct server_call **at = &s->unread;

	while (*at && *at != c)
		at = &(*at)->next_unread;
	if (!*at)
		return;
	*at = c->next_unread;
	if (!c->next_unread)
		s->unread_tail = at;
	c->next_unread = NULL;
	s->n_unread--;
}

/* gRPC answers the caller; the batch completes as CALL_RECEIVED without a message. */
static void drop_unread(struct server_call *c, enum err_code code, const char *text)
{
	grpc_call_error e;

	remove_unread(c);
	c->dropped = code;
	log_limited(LOG_WARNING, 10, "dropped %s: %s (pid %d)", c->rpc.method, text,
	            c->rpc.peer_pid);
	e = grpc_call_cancel_with_status(c->grpc, (grpc_status_code)code, text, NULL);
	assert(e == GRPC_CALL_OK);
}

/* Returns false if the maximum number of running calls is reached. */
static bool count_call(struct server_call *c)
{
	struct rpc_server *s = c->server;

	WITH_LOCK(&s->lock);
	if (s->counted == s->max_calls)
		return false;
	s->counted++;
	c->counted = true;
	return true;
}

/* Counts the call and starts it on a thread. Returns -1 if the call must be answered with *err. */
static int submit(struct server_call *c, struct err *err)
{
	if (!count_call(c))
		return err_set(err, ERR_UNAVAILABLE,
		               "busy: %u calls are running, and no more are accepted; retry",
		               c->server->max_calls);
	c->task.run = run_task;
	c->rpc.running.id = c->rpc.id;
	running_begin(c->server->running, &c->rpc.running, c->method->name);
	if (c->rpc.running.table && c->rpc.running.tell_at < c->server->watch_at)
		c->server->watch_at = c->rpc.running.tell_at;
	if (workers_submit(c->server->workers, &c->task))
		return 0;
	running_end(&c->rpc.running);
	return err_set(err, ERR_UNAVAILABLE, "cannot start a thread for %s; retry",
	               c->method->name);
}

/*
 * Logs the call when both its message and its end have completed, because only then is the cause
 * known.
 */
static void log_unread(struct server_call *c)
{
	struct err err = ERR_INIT;

	if (c->dropped)
		err_set(&err, c->dropped, "its message did not arrive");
	else if (c->cancelled)
		err_set(&err, ERR_CANCELLED,
		        "the caller ended before its message was complete, or the message has "
		        "more than %d bytes",
		        LIMIT_RPC_MESSAGE);
	else
		err_set(&err, ERR_INTERNAL, "the call has ended without a message");
	rpc_log_unread(&c->rpc, c->method, &err);
}

/*
 * Answers the call. A client that has left, or to which gRPC has reported that the message is too
 * large, does not receive this answer.
 */
static void answer_unread(struct server_call *c)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_INTERNAL, "the call has ended without a message");
	c->no_message = true;
	if (c->ended)
		log_unread(c);
	call_send_answer(c, NULL, 0, &err);
}

static void on_received(struct server_call *c)
{
	struct err err = ERR_INIT;

	remove_unread(c);
	/* The message of a dropped call may have arrived just before the call was dropped. */
	if (!c->request || c->dropped || (c->method->opened && c->ended))
		answer_unread(c);
	else if (c->method->opened)
		call_open_stream(c);
	else if (c->method->on_poller)
		call_run(c);
	else if (submit(c, &err))
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

static void count_arrival(struct rpc_server *s)
{
	WITH_LOCK(&s->lock);
	s->live++;
}

/*
 * Starts a separate batch before any other one. The batch completes when the caller has left or was
 * answered.
 */
static void watch_end(struct server_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	op.data.recv_close_on_server.cancelled = &c->cancelled;
	rpc_call_start(c, &op, 1, &c->closed);
}

static void ask_for_message(struct server_call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	if (c->server->n_unread >= c->server->max_incomplete)
		drop_unread(c->server->unread, ERR_EXHAUSTED,
		            "too many calls are without a message, and this one is the oldest");
	add_unread(c);
	op.data.recv_message.recv_message = &c->request;
	rpc_call_start(c, &op, 1, &c->received);
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
	/*
	 * The headers are not used; freeing them here releases half a kilobyte before the call
	 * ends.
	 */
	grpc_metadata_array_destroy(&c->metadata);
	grpc_metadata_array_init(&c->metadata);
	c->rpc.deadline = to_deadline(c->details.deadline, &c->rpc.cancel);
	c->rpc.peer_pid = peer_pid(c);
	c->method = rpc_find(s->services, s->n_services, path, n, &c->service);
	if (!c->method)
		err_set(&err, ERR_UNIMPLEMENTED, "this driver has no method %s", c->rpc.method);
	count_arrival(s);
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
	wait_queue_wake(&s->changed);
}

/* Handles a call whose caller has left, or whose deadline has passed. */
static void on_left(struct server_call *c)
{
	cancel_set(&c->rpc.cancel);
	running_left(&c->rpc.running);
	c->server->watch_at = running_watch(c->server->running);
}

static void call_on_event(struct rpc_server *s, struct tag *tag, bool success)
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
		c->ended = true;
		if (c->no_message)
			log_unread(c);
		if (c->cancelled)
			on_left(c);
		if (c->stream)
			rpc_stream_left(c->stream);
		call_unref(c);
		return;
	case CALL_WROTE:
		rpc_stream_wrote(c->stream);
		call_unref(c);
		return;
	case CALL_SENT:
		if (c->stream)
			rpc_stream_sent(c->stream);
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

/*
 * Drops the calls whose time limit has passed. Returns when it must run again without an event;
 * monotonic ns.
 */
static int64_t next_look(struct rpc_server *s)
{
	int64_t now = monotonic_ns(), late;

	while (s->unread && now - s->unread->rpc.started >= s->message_ns)
		drop_unread(s->unread, ERR_DEADLINE, "the call's message was not complete in time");
	late = s->unread ? s->unread->rpc.started + s->message_ns : INT64_MAX;
	return late < s->watch_at ? late : s->watch_at;
}

/* Runs until the queue is shut down and empty. */
void rpc_poll(struct rpc_server *s)
{
	for (;;) {
		grpc_event event = grpc_completion_queue_next(s->queue, to_gpr(next_look(s)), NULL);
		struct tag *tag = event.tag;

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return;
		if (event.type == GRPC_QUEUE_TIMEOUT) {
			s->watch_at = running_watch(s->running);
			continue;
		}
		rpc_unhand(tag->call ? (void *)tag->call : s);
		call_on_event(s, tag, event.success);
	}
}
