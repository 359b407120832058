/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the two halves of the HTTP engine: http.c, which decides what is sent when, how long it
 * may take and over which generation of connections, and http_curl.c, which does it with libcurl.
 * Nobody else includes this. Everything here belongs to the engine's thread but the fields under
 * `lock`.
 */
#pragma once

#include <pthread.h>

#include "http/http.h"
#include "common/str.h"

struct curl_slist;

/* Everything that shares connections. `endpoint` outlives the transfers: they borrow its blobs. */
struct generation {
	struct generation *next;
	void *multi; /* CURLM */
	struct http_endpoint *endpoint;
	unsigned requests, streams; /* handed to libcurl */
	bool http1;                 /* the server has answered over HTTP/1.x */
	bool owed;                  /* a request was sent and no byte has come since owed_since */
	int64_t owed_since;
};

struct http_call {
	struct http_call *next;
	struct http *http;
	struct http_request q;         /* strings owned */
	bool cancelled;                /* under lock */
	struct generation *generation; /* NULL: not handed to libcurl yet */
	struct str body;
	int64_t last_byte;

	/* http_curl.c's own. */
	void *easy; /* CURL */
	struct curl_slist *headers, *connect_to;
	char *url;
	char curl_error[256];
};

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct http {
	pthread_t thread;
	int wake; /* eventfd */
	int connect_ms, silence_ms;

	pthread_mutex_t lock; /* never held while libcurl or a callback runs */
	struct http_call *incoming, **incoming_tail; /* under lock, as all of this block */
	struct task *tasks, **tasks_tail;
	struct http_endpoint *new_endpoint;
	bool stopped; /* http_stop() was called */
	bool leave;   /* the thread is to end */
	struct http_stats stats;

	/* The thread's own. */
	struct http_call *queued, **queued_tail;
	struct http_call *active;
	struct generation *current; /* head of the list; behind it those that drain */
	struct http_timer *timers;  /* by time */
	unsigned in_flight;
};

/* http.c: bytes came. */
void call_heard(struct http_call *c);

/* http_curl.c, libcurl. Loads it when called first: UNAVAILABLE naming the package. */
int transfer_library(struct err *err) MUST_CHECK;
/* Takes over the endpoint. */
struct generation *generation_new(struct http_endpoint *endpoint);
void generation_free(struct generation *g); /* nothing may be under way */
/* After `streams` has changed: how many connections there may be. */
void generation_limit(struct generation *g);
/* Hands the call to c->generation. */
void transfer_start(struct http_call *c);
/*
 * Takes it back, however far it is, and fills in what is known of the answer. Returns how many
 * connections it opened.
 */
unsigned transfer_end(struct http_call *c, struct http_result *result);
/* Moves bytes; `ended` for each transfer that is over (it calls transfer_end()). */
void transfers_perform(struct generation *g,
                       void (*ended)(struct http_call *c, enum http_end end, const char *why));
/* Waits for sockets of this and the following generations, `wake`, or the time. */
void transfers_wait(struct generation *g, int wake, int ms);
