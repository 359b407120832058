/* SPDX-License-Identifier: Apache-2.0 */
/* Private to rpc_server*.c: the server as its calls see it. */
#pragma once

#include <grpc/grpc.h>

#include "rpc/rpc_server.h"

enum event { CALL_ARRIVED, CALL_RECEIVED, CALL_CLOSED, CALL_SENT, SERVER_SHUT };

/* What the completion queue returns when an operation has ended. */
struct tag {
	enum event event;
	struct server_call *call;
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
	pthread_cond_t changed;
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
