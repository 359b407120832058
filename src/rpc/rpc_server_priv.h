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

/* The value that the completion queue returns when an operation has ended. */
struct tag {
	enum event event;
	struct server_call *call;
};

struct server_call {
	struct task task;
	struct rpc_server *server;
	const struct rpc_service *service;
	const struct rpc_method *method;
	bool counted;    /* counts towards rpc_server.counted */
	bool no_message; /* no message will arrive */
	bool ended;      /* the operation `closed` has completed, and `cancelled` is known */
	struct server_call *next_unread;
	/* ERR_OK, or the code with which the server stopped waiting for the message */
	enum err_code dropped;
	atomic_int refs; /* pending operations: closed, sent, a message of its stream */
	struct rpc_call rpc;
	/* the call's result; not on the stack, which must be small during waits */
	struct err err;
	struct rpc_stream *stream; /* NULL: a unary call */
	struct tag arrived, received, closed, sent;
	/* Read and written by gRPC. */
	grpc_call *grpc;
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *request;
	int cancelled;
	grpc_slice text; /* message of the status */
};

struct rpc_server {
	const struct rpc_service *services;
	size_t n_services;
	unsigned max_calls; /* maximum number of calls that need a thread */
	struct listener *listener;
	struct workers *workers;
	struct running *running; /* may be NULL */
	pthread_t poller;
	bool polling;
	grpc_server *grpc;
	grpc_server_credentials *credentials;
	grpc_completion_queue *queue;
	struct tag shut;
	/* Used only by the poller: */
	int64_t watch_at; /* time of the next check for hung calls */
	/* calls whose message is not complete; oldest first */
	struct server_call *unread, **unread_tail;
	unsigned n_unread, max_incomplete;
	int64_t message_ns;
	pthread_mutex_t lock; /* guards all fields below */
	struct wait_queue changed;
	unsigned live;    /* calls that have arrived and are not freed */
	unsigned counted; /* of these, calls that need a thread */
	bool stopping;    /* no further slots are posted */
	bool notified;    /* SERVER_SHUT has arrived: no calls and no connections remain */
};

/*
 * Posts a slot for the next call of any client. When a call uses the slot, the poller posts
 * another.
 */
void rpc_post_slot(struct rpc_server *s);
/* Runs the poller's loop until the queue is shut down and empty. */
void rpc_poll(struct rpc_server *s);
/*
 * Tells ThreadSanitizer, because gRPC is not instrumented, that a thread's writes before
 * rpc_hand(what) are visible, after rpc_unhand(what), to the thread that takes the tag of `what`
 * from the queue.
 */
void rpc_hand(void *what);
void rpc_unhand(void *what);
/* Starts a batch of the call. The tag holds a reference until the batch has completed. */
void rpc_call_start(struct server_call *c, const grpc_op *ops, size_t n, struct tag *tag);

/* ---- rpc_server_stream.c; called by the poller ---- */

struct rpc_stream *rpc_stream_new(struct server_call *c);
/* Frees the stream together with its call. NULL is allowed. */
void rpc_stream_free(struct rpc_stream *s);
/* Call it when the stream's message has been written. */
void rpc_stream_wrote(struct rpc_stream *s);
/* Call it when the stream's end has been written, or never will be. Logs the call. */
void rpc_stream_sent(struct rpc_stream *s);
/*
 * Call it when nothing can be written any more. Notifies the owner, unless the owner has ended the
 * stream.
 */
void rpc_stream_left(struct rpc_stream *s);
