/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libcurl side of the HTTP engine. The engine decides which request is sent when, how long it
 * may take, and over which epoch of connections. Only the engine includes this file. Only the
 * engine's thread calls these functions, except transfer_library().
 */
#pragma once

#include "http/http.h"
#include "common/str.h"

struct curl_slist;

/*
 * When the last byte was received over a connection. A connection is identified by its local port.
 */
struct last_byte {
	long port;
	int64_t at; /* monotonic ns */
};

/* An epoch: the calls that share connections, and the known state of their peer. */
struct pool_epoch {
	struct pool_epoch *next;
	void *multi;                    /* CURLM */
	struct http_endpoint *endpoint; /* owned; the transfers borrow its PEM data */
	int connect_ms;                 /* timeout for a connection to become usable */
	unsigned requests, streams;     /* numbers of those passed to libcurl and not yet ended */
	/* a byte has arrived or a call has ended since the last wait */
	bool moved;
	bool http1; /* the server has answered over HTTP/1.x */
	/* a request was sent and no byte has arrived since owed_since */
	bool owed;
	int64_t owed_since; /* monotonic ns */
	/* one for each of the connections that received most recently */
	struct last_byte last_bytes[64];
	void *spare[32]; /* CURL handles of ended calls, reused by the next calls */
	unsigned n_spare;
};

struct http_call {
	/* Used only by the engine. */
	struct http_call *next;
	struct http *http;
	bool cancelled; /* under the engine's lock */

	/* Filled in by the engine before transfer_start(). */
	struct http_request q;    /* strings owned */
	struct pool_epoch *epoch; /* NULL: not yet passed to libcurl */

	/* The received data: written by http_curl.c, read by the engine. */
	struct str body;
	int64_t last_byte; /* when it arrived, or when the call started; monotonic ns */
	bool answered;     /* a byte of the answer has arrived */
	int64_t date;      /* as in http_result */

	/* Used only by http_curl.c and http_setup.c. */
	void *easy; /* CURL */
	struct curl_slist *headers, *connect_to;
	char *url;
	int64_t sent_at; /* as in http_result */
	/* the last socket that was opened for the call, possibly closed; 0: none */
	int socket;
	bool lost; /* libcurl was about to repeat the request, and was prevented from doing so */
	char curl_error[256];
};

/* ---- libcurl.c ---- */

/* Loads libcurl in its first call. UNAVAILABLE naming the package if libcurl is missing. */
int transfer_library(struct err *err) MUST_CHECK;

/* ---- http_setup.c ---- */

/* Configures c->easy, which has no request yet, with all of c->q except its limits. */
void transfer_setup(struct http_call *c);
void transfer_setup_free(struct http_call *c); /* libcurl must not use c->easy any more */

/* ---- http_curl.c ---- */

/* Creates an epoch, which owns the endpoint. */
struct pool_epoch *epoch_new(struct http_endpoint *endpoint, int connect_ms);
void epoch_free(struct pool_epoch *ep); /* no call may be in flight in the epoch */
/* Sets the maximum number of connections. Call it when `streams` has changed. */
void epoch_limit(struct pool_epoch *ep);
/*
 * Records that the peer has sent data. If requests are in flight, the wait for the next data of the
 * peer begins at `now`.
 */
void epoch_received(struct pool_epoch *ep, int64_t now);
/* Passes the call to libcurl, over c->epoch. */
void transfer_start(struct http_call *c);
/*
 * Returns true if the server may have seen the request, because it has a connection and at least a
 * part of the request was sent.
 */
bool transfer_is_sent(struct http_call *c);
/*
 * Returns why a call over this epoch has not been sent yet. The reason is derived from the calls in
 * `active`, because a call that waits for another call's connection has no state of its own.
 */
const char *transfer_waits_for(struct http_call *active, const struct pool_epoch *ep);
/* Returns the time of the last byte over a sent call's connection, or of the call's start. */
int64_t transfer_received_at(struct http_call *c);
/*
 * Frees the objects that are kept for later calls. Call it when no call is expected for some time.
 */
void transfers_rest(struct pool_epoch *ep);
/*
 * Removes the call from libcurl, finished or not, and fills in the known parts of the answer.
 * Returns the number of connections that the call opened.
 */
unsigned transfer_end(struct http_call *c, struct http_result *result);
/* Moves bytes; calls `ended`, which calls transfer_end(), for each transfer that has ended. */
void transfers_perform(struct pool_epoch *ep,
                       void (*ended)(struct http_call *c, enum http_end end, const char *why));
/* Waits for the sockets of this and the following epochs, or for `wake`, at most for `ms`. */
void transfers_wait(struct pool_epoch *ep, int wake, int ms);
