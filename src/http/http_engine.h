/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP engine from inside: http.c runs the thread and hands calls in, http_call.c keeps the
 * lists of calls and epochs, http_expire.c says when one is given up. Nobody else includes
 * this. Only the engine's thread calls these functions.
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
	struct http_call *incoming, **incoming_tail; /* this block is under lock */
	struct task *tasks, **tasks_tail;
	struct http_endpoint *new_endpoint;
	bool stopped; /* http_stop() was called */
	bool leave;   /* the thread is to end */
	struct http_stats stats;

	/* The engine's thread only. */
	struct http_call *queued, **queued_tail;
	struct http_call *active;
	struct pool_epoch *current; /* head of the list; behind it those that were retired */
	struct http_timer *timers;  /* by time */
	unsigned in_flight;
	int64_t answer_ns; /* what the last answers took, ANSWER_LONGEST_NS at most */
};

/* ---- http_call.c ---- */

struct http_call *call_new(struct http *h, const struct http_request *q); /* on no list yet */
void call_activate(struct http *h, struct http_call *c);                  /* hands it to libcurl */
/* Takes the call back from libcurl and fills in what is known of the answer. */
void call_detach(struct http *h, struct http_call *c, struct http_result *result);
/* Tells the caller, and frees the call, which is on no list any more. */
void call_finish(struct http_call *c, struct http_result *result, const char *why);
void call_end(struct http_call *c, enum http_end end, const char *why); /* both */
/* Takes over the endpoint. From now on calls go over new connections. */
void epoch_start(struct http *h, struct http_endpoint *endpoint);
/*
 * New calls go over fresh connections, and so do those for which there was none yet. Open streams
 * end now, open requests run to their end. Takes over the endpoint; NULL: the same as before.
 */
void epoch_retire(struct http *h, const char *why, struct http_endpoint *endpoint);
void epochs_reap(struct http *h); /* frees those that no call uses any more */

/* ---- http_expire.c ---- */

/* Ends calls that were cancelled, are out of time, or hang. */
void calls_expire(struct http *h, int64_t now);
/* When the next timer rings, or the first call may have to be ended. */
int64_t calls_next_alarm(struct http *h, int64_t now);
