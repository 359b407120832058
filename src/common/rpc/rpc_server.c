/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server.  The life of a call:
 *
 *   posted     a slot that waits for anybody's call; re-posted when one arrives, so slots never limit
 *   arrived    method looked up, counted against the cap, its end is watched (closed), its message asked for
 *   received   Identity is answered here, on the poller; everything else becomes a job of the workers
 *   run        rpc_dispatch(), the log line, then the answer is given to gRPC (sent)
 *   gone       when closed and sent have both come back; whichever is last frees it
 *
 * closed comes early when the caller cancels, vanishes or its deadline passes (gRPC watches that itself): the
 * poller then sets the call's cancellation, which wakes its handler.  That is why the poller never blocks.
 *
 * The poller owns calls until they are submitted, the worker until it starts the sending; then nobody touches
 * them but the poller.  gRPC is not instrumented for ThreadSanitizer, so what it orders is told in
 * three places (hand, unhand).
 */
#include "common/rpc/rpc_server.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/log.h"
#include "common/rpc/listener.h"
#include "common/rpc/rpc_log.h"
#include "common/rpc/workers.h"
#include "common/str.h"

#define SLOTS 8          /* arrivals that gRPC can report at once */
#define METHOD_SHOWN 200 /* of a method that nobody has */
#define PING_INTERVAL_MS 5000
#define GOODBYE_MS 100
#define CENTURY_S INT64_C(3155760000)

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

enum event { CALL_ARRIVED, CALL_RECEIVED, CALL_CLOSED, CALL_SENT, SERVER_SHUT };

struct tag {
	enum event event;
	struct call *call;
};

struct call {
	struct job job;
	struct rpc_server *server;
	const struct rpc_service *service;
	const struct rpc_method *method;
	bool counted; /* against the cap */
	atomic_int refs;
	struct rpc_call rpc;
	struct tag arrived, received, closed, sent;
	/* gRPC's */
	grpc_call *grpc;
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *request;
	int cancelled;
	grpc_slice text; /* of the status */
};

struct rpc_server {
	const struct rpc_service *services;
	size_t n_services;
	unsigned max_calls; /* that need a worker */
	struct listener *listener;
	struct workers *workers;
	pthread_t poller;
	bool polling;
	grpc_server *grpc;
	grpc_server_credentials *credentials;
	grpc_completion_queue *queue;
	struct tag shut;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t changed;
	unsigned live;    /* calls that have arrived and are not gone */
	unsigned counted; /* of these, the ones that need a worker */
	bool stopping, notified;
};

/* ---------------------------------------------------------------- ThreadSanitizer */

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

/* All that was written to it before is seen by whoever gets its tag from the queue. */
static void hand(void *what)
{
	__tsan_release(what);
}

static void unhand(void *what)
{
	__tsan_acquire(what);
}

/* ---------------------------------------------------------------- a call's beginning and end */

static void post_slot(struct rpc_server *s)
{
	struct call *c = xcalloc(1, sizeof *c);
	grpc_call_error e;

	c->server = s;
	c->arrived = (struct tag) { CALL_ARRIVED, c };
	c->received = (struct tag) { CALL_RECEIVED, c };
	c->closed = (struct tag) { CALL_CLOSED, c };
	c->sent = (struct tag) { CALL_SENT, c };
	c->text = grpc_empty_slice();
	grpc_call_details_init(&c->details);
	grpc_metadata_array_init(&c->metadata);
	hand(c);
	e = grpc_server_request_call(s->grpc, &c->grpc, &c->details, &c->metadata, s->queue,
	                             s->queue, &c->arrived);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static void free_slot(struct call *c)
{
	grpc_metadata_array_destroy(&c->metadata);
	grpc_call_details_destroy(&c->details);
	free(c);
}

static void count_gone(struct rpc_server *s, bool counted)
{
	WITH_LOCK(&s->lock);
	s->live--;
	s->counted -= counted;
	pthread_cond_signal(&s->changed);
}

static void call_unref(struct call *c)
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

static void start(struct call *c, const grpc_op *ops, size_t n, struct tag *tag)
{
	grpc_call *grpc = c->grpc;
	grpc_call_error e;

	hand(c);
	e = grpc_call_start_batch(grpc, ops, n, tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

/* Logs the call and gives the answer to gRPC; the call must not be touched afterwards. out may be NULL. */
static void answer(struct call *c, uint8_t *out, size_t n_out, const struct err *err)
{
	grpc_op ops[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };
	grpc_byte_buffer *message = NULL;
	size_t n = 1;

	rpc_log_call(&c->rpc, c->method, err);
	if (err) {
		c->text = grpc_slice_from_copied_string(err->msg);
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

/* ---------------------------------------------------------------- running it */

static void dispatch(struct call *c, struct err *err, uint8_t **out, size_t *n_out)
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

static void run(struct call *c)
{
	struct err err = ERR_INIT;
	uint8_t *out = NULL;
	size_t n_out = 0;

	/* Nobody may be left to hear the answer of what had to wait. */
	if (deadline_check(c->rpc.deadline, &err, "wait for a free worker") == 0)
		dispatch(c, &err, &out, &n_out);
	answer(c, out, n_out, err.code ? &err : NULL);
}

static void run_job(struct job *job)
{
	run((struct call *)job);
}

static void on_received(struct call *c)
{
	struct err err = ERR_INIT;

	if (!c->request) {
		/* gRPC has already told the caller when it was too large. */
		err_set(&err, ERR_INTERNAL, "no request came, or one of more than %d bytes",
		        LIMIT_RPC_MESSAGE);
	} else if (c->method->on_poller) {
		run(c);
		return;
	} else {
		c->job.run = run_job;
		if (workers_submit(c->server->workers, &c->job))
			return;
		err_set(&err, ERR_UNAVAILABLE, "no thread can be started to run %s: try again",
		        c->method->name);
	}
	answer(c, NULL, 0, &err);
}

/* ---------------------------------------------------------------- arrival */

static struct deadline to_deadline(gpr_timespec at, struct cancel *cancel)
{
	gpr_timespec left;

	left = gpr_time_sub(at, gpr_now(at.clock_type)); /* it comes in CLOCK_REALTIME */
	if (left.tv_sec > CENTURY_S)
		return (struct deadline) { .at = DEADLINE_NEVER, .cancel = cancel };
	return (struct deadline) { .at = monotonic_ns() + left.tv_sec * INT64_C(1000000000) +
		                         left.tv_nsec,
		                   .cancel = cancel };
}

static int peer_pid(struct call *c)
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

/* False: as many calls as may be are running or waiting. */
static bool count_arrival(struct rpc_server *s, struct call *c)
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

/* Its own batch, begun before all else: this is how a handler learns that its caller has gone. */
static void watch_end(struct call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	op.data.recv_close_on_server.cancelled = &c->cancelled;
	start(c, &op, 1, &c->closed);
}

static void ask_for_message(struct call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &c->request;
	start(c, &op, 1, &c->received);
}

static void on_arrived(struct call *c)
{
	const char *path = (const char *)GRPC_SLICE_START_PTR(c->details.method);
	size_t n = GRPC_SLICE_LENGTH(c->details.method);
	struct rpc_server *s = c->server;
	struct err err = ERR_INIT;

	atomic_store(&c->refs, 2); /* closed, sent */
	rpc_call_init(&c->rpc, "");
	c->rpc.method = arena_printf(&c->rpc.arena, "%.*s",
	                             (int)(n < METHOD_SHOWN ? n : METHOD_SHOWN), path);
	c->rpc.deadline = to_deadline(c->details.deadline, &c->rpc.cancel);
	c->rpc.peer_pid = peer_pid(c);
	c->method = rpc_find(s->services, s->n_services, path, n, &c->service);
	if (!count_arrival(s, c))
		err_set(&err, ERR_UNAVAILABLE,
		        "busy: %u calls are running or waiting, more are not taken; try again",
		        s->max_calls);
	else if (!c->method)
		err_set(&err, ERR_UNIMPLEMENTED, "this driver has no method %s", c->rpc.method);
	watch_end(c);
	if (err.code)
		answer(c, NULL, 0, &err);
	else
		ask_for_message(c);
}

/* ---------------------------------------------------------------- the poller */

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

static void on_event(struct rpc_server *s, struct tag *tag, bool success)
{
	struct call *c = tag->call;

	switch (tag->event) {
	case CALL_ARRIVED:
		if (!success) { /* the server stops */
			free_slot(c);
			return;
		}
		if (!stopping(s))
			post_slot(s);
		on_arrived(c);
		return;
	case CALL_RECEIVED:
		on_received(c);
		return;
	case CALL_CLOSED:
		if (c->cancelled)
			cancel_set(&c->rpc.cancel);
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

/* Until the queue is shut down and empty. */
static void poll_queue(struct rpc_server *s)
{
	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		struct tag *tag = event.tag;

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return;
		unhand(tag->call ? (void *)tag->call : s);
		on_event(s, tag, event.success);
	}
}

static void *poll_thread(void *arg)
{
	pthread_setname_np(pthread_self(), "rpc-poller");
	poll_queue(arg);
	return NULL;
}

/* ---------------------------------------------------------------- start and stop */

extern char **environ;

void rpc_server_sanitize_environment(void)
{
	/* An empty or unknown GRPC_POLL_STRATEGY makes grpc_init() abort; none of them is our configuration. */
	char **kept = environ;

	for (char **e = environ; e && *e; e++)
		if (!str_has_prefix(*e, "GRPC_"))
			*kept++ = *e;
	if (kept)
		*kept = NULL;
}

static void log_grpc(gpr_log_func_args *args)
{
	log_limited(LOG_WARNING, 10, "gRPC: %s", args->message);
}

static void on_connected(void *arg, int fd)
{
	struct rpc_server *s = arg;

	grpc_server_add_channel_from_fd(s->grpc, fd, s->credentials);
}

static grpc_server *new_grpc_server(void)
{
#define INTEGER(key_, value_) \
	{ .type = GRPC_ARG_INTEGER, .key = (char *)key_, .value.integer = (value_) }
	grpc_arg args[] = {
		INTEGER(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, LIMIT_RPC_MESSAGE),
		INTEGER(GRPC_ARG_MAX_METADATA_SIZE, LIMIT_RPC_METADATA),
		INTEGER(GRPC_ARG_MAX_CONCURRENT_STREAMS, LIMIT_RPC_STREAMS),
		INTEGER(GRPC_ARG_ENABLE_CHANNELZ, 0),
		/* Identity only: a small gzip message may unpack to a gigabyte before any limit is looked at. */
		INTEGER(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
		/* Clients may ping an idle connection this often without being thrown out. */
		INTEGER(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MS),
		INTEGER(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
	};
#undef INTEGER
	grpc_channel_args all = { ARRAY_LEN(args), args };

	return grpc_server_create(&all, NULL);
}

static struct rpc_server *server_new(const struct rpc_server_options *o,
                                     const struct rpc_service *services, size_t n_services)
{
	unsigned workers = o->max_workers ? o->max_workers : LIMIT_RPC_WORKERS;
	struct rpc_server *s = xcalloc(1, sizeof *s);

	s->services = services;
	s->n_services = n_services;
	s->max_calls = workers + (o->max_queue ? o->max_queue : LIMIT_RPC_QUEUE);
	s->shut = (struct tag) { SERVER_SHUT, NULL };
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->workers = workers_new(workers);
	gpr_set_log_function(log_grpc);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
	grpc_init();
	s->grpc = new_grpc_server();
	s->credentials = grpc_insecure_server_credentials_create();
	s->queue = grpc_completion_queue_create_for_next(NULL);
	grpc_server_register_completion_queue(s->grpc, s->queue, NULL);
	return s;
}

static int bind_listener(struct rpc_server *s, const struct rpc_server_options *o, struct err *err)
{
	struct listener_options options = {
		.path = o->path,
		.mode = o->socket_mode ? o->socket_mode : 0600,
		.group = o->socket_group,
		.max_connections = o->max_connections ? o->max_connections : LIMIT_RPC_CONNECTIONS,
		.preface_timeout_ms =
			o->preface_timeout_ms ? o->preface_timeout_ms : LIMIT_RPC_PREFACE_MS,
		.connected = on_connected,
		.arg = s,
	};

	return listener_new(&options, &s->listener, err);
}

static int start_threads(struct rpc_server *s, struct err *err)
{
	int rc;

	grpc_server_start(s->grpc);
	for (int i = 0; i < SLOTS; i++)
		post_slot(s);
	rc = pthread_create(&s->poller, NULL, poll_thread, s);
	if (rc)
		return err_sys(err, rc, "start the thread that polls gRPC");
	s->polling = true;
	return listener_run(s->listener, err);
}

int rpc_server_start(const struct rpc_server_options *options, const struct rpc_service *services,
                     size_t n_services, struct rpc_server **ret, struct err *err)
{
	struct rpc_server *s = server_new(options, services, n_services);

	if (bind_listener(s, options, err) || start_threads(s, err)) {
		rpc_server_stop(s, 0);
		return -1;
	}
	*ret = s;
	return 0;
}

/* False when calls are left, or (`connections` too) clients that hold their connections, when d passes. */
static bool wait_quiet(struct rpc_server *s, bool connections, struct deadline d)
{
	struct timespec until = deadline_timespec(d);

	WITH_LOCK(&s->lock);
	while (s->live || (connections && !s->notified))
		if (pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until))
			return false;
	return true;
}

/* Calls get the grace; a client that sits on an idle connection and does not read that we leave gets a moment. */
static void drain(struct rpc_server *s, int grace_ms)
{
	if (!wait_quiet(s, false, deadline_in_ms(grace_ms)))
		log_msg(LOG_WARNING, "calls still run after %d ms: they are told to end", grace_ms);
	else if (wait_quiet(s, true, deadline_in_ms(GOODBYE_MS)))
		return;
	grpc_server_cancel_all_calls(s->grpc);
	wait_quiet(s, true, deadline_never());
}

static void begin_stop(struct rpc_server *s)
{
	{
		WITH_LOCK(&s->lock);
		s->stopping = true;
	}
	hand(s);
	grpc_server_shutdown_and_notify(s->grpc, s->queue, &s->shut);
}

static void release(struct rpc_server *s)
{
	listener_free(s->listener);
	grpc_completion_queue_destroy(s->queue);
	grpc_server_destroy(s->grpc);
	grpc_server_credentials_release(s->credentials);
	grpc_shutdown_blocking();
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s);
}

void rpc_server_stop(struct rpc_server *s, int grace_ms)
{
	if (!s)
		return;
	if (s->listener)
		listener_stop(s->listener);
	begin_stop(s);
	if (s->polling)
		drain(s, grace_ms);
	workers_free(s->workers);
	/* Not before all calls are gone: a batch started on a queue that is shut down aborts. */
	grpc_completion_queue_shutdown(s->queue);
	if (s->polling)
		pthread_join(s->poller, NULL);
	else
		poll_queue(s);
	release(s);
}
