/* SPDX-License-Identifier: Apache-2.0 */
/* Private to rpc_server*.c: the server as its calls see it. */
#pragma once

#include <grpc/grpc.h>

#include <stdatomic.h>

#include "common/wait_queue.h"
#include "rpc/rpc_server.h"
#include "rpc/rpc_stream.h"
#include "rpc/workers.h"

enum event { CALL_ARRIVED, CALL_RECEIVED, CALL_CLOSED, CALL_WROTE, CALL_SENT, SERVER_SHUT };

/* What the completion queue returns when an operation has ended. */
struct tag {
	enum event event;
	struct server_call *call;
};

struct server_call {
	struct task task;
	struct rpc_server *server;
	const struct rpc_service *service;
	const struct rpc_method *method;
	bool counted;    /* in rpc_server.counted */
	bool no_message; /* none will come */
	bool ended;      /* closed has come back, and `cancelled` is known */
	struct server_call *next_unread;
	enum err_code dropped; /* ERR_OK, or why its message was not waited for any longer */
	atomic_int refs; /* closed, sent, a message of its stream: those that have not come back */
	struct rpc_call rpc;
	struct err err; /* how it ended; not on the stack, which is to be small while it waits */
	struct rpc_stream *stream; /* NULL: it has one answer */
	struct tag arrived, received, closed, sent;
	/* What gRPC reads and writes. */
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
	unsigned max_calls; /* that need a thread */
	struct listener *listener;
	struct workers *workers;
	struct running *running; /* may be NULL */
	pthread_t poller;
	bool polling;
	grpc_server *grpc;
	grpc_server_credentials *credentials;
	grpc_completion_queue *queue;
	struct tag shut;
	/* The poller's own: */
	int64_t watch_at;                          /* when to look for calls that hang */
	struct server_call *unread, **unread_tail; /* whose message is not complete; oldest first */
	unsigned n_unread, max_incomplete;
	int64_t message_ns;
	pthread_mutex_t lock; /* guards all below */
	struct wait_queue changed;
	unsigned live;    /* calls that have arrived and are not gone */
	unsigned counted; /* of these, the ones that need a thread */
	bool stopping;    /* no slot is posted any more */
	bool notified;    /* SERVER_SHUT has come: no call and no connection is left */
};

/* Posts a slot for the next call of any client; when a call uses it, the poller posts another. */
void rpc_post_slot(struct rpc_server *s);
/* The poller's loop: until the queue is shut down and empty. */
void rpc_poll(struct rpc_server *s);
/*
 * For ThreadSanitizer, because gRPC is not instrumented: what a thread has written before
 * rpc_hand(what) is visible, after rpc_unhand(what), to the thread that takes the tag of `what`
 * from the queue.
 */
void rpc_hand(void *what);
void rpc_unhand(void *what);
/* Starts a batch of the call; its tag holds it until it has come back. */
void rpc_call_start(struct server_call *c, const grpc_op *ops, size_t n, struct tag *tag);

/* ---- rpc_server_stream.c; the poller calls these ---- */

struct rpc_stream *rpc_stream_new(struct server_call *c);
/* With its call. NULL is fine. */
void rpc_stream_free(struct rpc_stream *s);
/* Its message has been written. */
void rpc_stream_wrote(struct rpc_stream *s);
/* Its end has been written, or never will be: logs the call. */
void rpc_stream_sent(struct rpc_stream *s);
/* Nothing can be written any more: tells the owner, unless it has ended the stream itself. */
void rpc_stream_left(struct rpc_stream *s);
