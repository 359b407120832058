/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of the HTTP engine. http.c runs the thread and accepts calls, http_call.c keeps the
 * lists of calls and epochs, http_expire.c decides when a call is abandoned. Only the engine's
 * files include this header. Only the engine's thread calls these functions.
 */
#pragma once

#include "http/http_curl.h"

#include <pthread.h>

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct http {
	pthread_t thread;
	int wake; /* eventfd */
	int connect_ms, silence_ms, patience_ms;

	pthread_mutex_t lock; /* never held while libcurl or a callback runs */
	/* guarded by lock, like the next five members */
	struct http_call *incoming, **incoming_tail;
	struct task *tasks, **tasks_tail;
	struct http_endpoint *new_endpoint;
	bool stopped; /* http_stop() was called */
	bool leave;   /* the thread has to end */
	struct http_stats stats;

	/* The engine's thread only. */
	struct http_call *queued, **queued_tail;
	struct http_call *active;
	struct pool_epoch *current; /* head of the list of epochs; the retired ones follow */
	struct http_timer *timers;  /* sorted by time */
	unsigned in_flight;
	int64_t answer_ns; /* duration of recent answers, at most ANSWER_LONGEST_NS */
};

/* ---- http_call.c ---- */

struct http_call *call_new(struct http *h, const struct http_request *q); /* on no list yet */
/* passes the call to libcurl */
void call_activate(struct http *h, struct http_call *c);
/* Removes the call from libcurl and fills in the known parts of the answer. */
void call_detach(struct http *h, struct http_call *c, struct http_result *result);
/* Calls on_done and frees the call, which must be on no list. */
void call_finish(struct http_call *c, struct http_result *result, const char *why);
/* call_detach() and call_finish() */
void call_end(struct http_call *c, enum http_end end, const char *why);
/* Starts a new epoch, which owns the endpoint. Later calls use new connections. */
void epoch_start(struct http *h, struct http_endpoint *endpoint);
/*
 * Retires the current epoch: new calls, and calls without a connection, use new connections. Open
 * streams end at once; open requests run to their end. Takes over the endpoint; NULL: the endpoint
 * stays the same.
 */
void epoch_retire(struct http *h, const char *why, struct http_endpoint *endpoint);
void epochs_reap(struct http *h); /* frees retired epochs that no call uses */

/* ---- http_expire.c ---- */

/* Ends calls that were cancelled, are past their deadline, or hang. */
void calls_expire(struct http *h, int64_t now);
/* Returns the time of the next timer, or of the first call that may have to be ended. */
int64_t calls_next_alarm(struct http *h, int64_t now);
