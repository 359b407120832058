/* SPDX-License-Identifier: Apache-2.0 */
/* Private to rpc_server*.c: the server as its calls see it. */
#pragma once

#include <grpc/grpc.h>

#include "rpc/rpc_server.h"

enum event { CALL_ARRIVED, CALL_RECEIVED, CALL_CLOSED, CALL_SENT, SERVER_SHUT };

/* What gRPC gives back when something has ended. */
struct tag {
	enum event event;
	struct server_call *call;
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

/* Posts one slot for anybody's call; the poller posts the next when it is used. */
void rpc_post_slot(struct rpc_server *s);
/* The poller's loop: until the queue is shut down and empty. */
void rpc_poll(struct rpc_server *s);
/*
 * Tell ThreadSanitizer what gRPC orders, which is not instrumented: all that was written before
 * rpc_hand(what) is seen after rpc_unhand(what) by whoever gets its tag from the queue.
 */
void rpc_hand(void *what);
void rpc_unhand(void *what);
