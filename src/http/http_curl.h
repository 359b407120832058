/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libcurl does for the HTTP engine, which decides what is sent when, for how long, over which
 * epoch of connections. Nobody else includes this. Only the engine's thread calls these
 * functions, but for transfer_library().
 */
#pragma once

#include "http/http.h"
#include "common/str.h"

struct curl_slist;

/* When a byte last came over a connection. Connections are told apart by our end's port. */
struct last_byte {
	long port;
	int64_t at; /* monotonic ns */
};

/* The calls that share connections, and what is known of the peer at their other end. */
struct pool_epoch {
	struct pool_epoch *next;
	void *multi;                    /* CURLM */
	struct http_endpoint *endpoint; /* owned; the transfers borrow its PEM texts */
	int connect_ms;                 /* the time that a connection may take to become usable */
	unsigned requests, streams;     /* handed to libcurl and not ended */
	bool moved;                     /* something has come or ended since the last wait */
	bool http1;                     /* the server has answered over HTTP/1.x */
	bool owed;                      /* a request is out and no byte has come since owed_since */
	int64_t owed_since;             /* monotonic ns */
	struct last_byte last_bytes[64]; /* of the connections that received last */
	void *spare[32];                 /* CURL, of calls that have ended: for the next ones */
	unsigned n_spare;
};

struct http_call {
	/* The engine's own. */
	struct http_call *next;
	struct http *http;
	bool cancelled; /* under the engine's lock */

	/* Filled in by the engine before transfer_start(). */
	struct http_request q;    /* strings owned */
	struct pool_epoch *epoch; /* NULL: not handed to libcurl yet */

	/* What has come: http_curl.c writes, the engine reads. */
	struct str body;
	int64_t last_byte; /* when it came, or the call was started; monotonic ns */
	bool answered;     /* a byte has come */

	/* Of http_curl.c and http_setup.c. */
	void *easy; /* CURL */
	struct curl_slist *headers, *connect_to;
	char *url;
	int64_t sent_at; /* as in http_result */
	bool lost;       /* libcurl was to send it again and was not allowed to */
	char curl_error[256];
};

/* ---- libcurl.c ---- */

/* Loads libcurl when called first. UNAVAILABLE naming the package when there is none. */
int transfer_library(struct err *err) MUST_CHECK;

/* ---- http_setup.c ---- */

/* Tells libcurl what is asked of whom: all of c->q but its limits. c->easy has no request yet. */
void transfer_setup(struct http_call *c);
void transfer_setup_free(struct http_call *c); /* libcurl must not use c->easy any more */

/* ---- http_curl.c ---- */

/* Takes over the endpoint. */
struct pool_epoch *epoch_new(struct http_endpoint *endpoint, int connect_ms);
void epoch_free(struct pool_epoch *ep); /* no call may be under way in it */
/* Sets how many connections there may be; to be called when `streams` has changed. */
void epoch_limit(struct pool_epoch *ep);
/* Notes that the peer gave a sign of life: it owes the next one from now on if requests are out. */
void epoch_received(struct pool_epoch *ep, int64_t now);
/* Hands the call to libcurl, over c->epoch. */
void transfer_start(struct http_call *c);
/* The server may have seen the request: it has a connection and at least a part of it was sent. */
bool transfer_is_sent(struct http_call *c);
/* When the connection of a sent call last gave a byte, or the call was started. */
int64_t transfer_received_at(struct http_call *c);
/* Frees what is kept for the next calls: there will be none for a while. */
void transfers_rest(struct pool_epoch *ep);
/*
 * Takes the call back, finished or not, and fills in what is known of the answer. Returns how many
 * connections it opened.
 */
unsigned transfer_end(struct http_call *c, struct http_result *result);
/* Moves bytes; calls `ended`, which calls transfer_end(), for each transfer that is over. */
void transfers_perform(struct pool_epoch *ep,
                       void (*ended)(struct http_call *c, enum http_end end, const char *why));
/* Waits for the sockets of this and the following epochs, for `wake`, at most for `ms`. */
void transfers_wait(struct pool_epoch *ep, int wake, int ms);
