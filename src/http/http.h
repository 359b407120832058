/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP client for one server. This module is the only user of libcurl. It loads libcurl when the
 * first engine is created, so that a process without an engine never maps the library.
 *
 * An engine is one thread. Any thread may start a request; each request ends with exactly one call
 * of on_done on the engine's thread. All callbacks run there, without locks, and must not block.
 *
 * libcurl has no timeout for a request that it queues, nor for a connection whose peer hangs while
 * another stream keeps it in use, so the engine keeps the deadlines and the queue itself. An epoch
 * is a set of connections; new requests use those of the current epoch. When the peer stays silent
 * or the endpoint changes, the epoch is retired, and new and queued requests use new connections.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"

struct http;
struct http_call;

/*
 * Loads libcurl and appends to `ret` the versions of libcurl and its TLS library, or that libcurl
 * is not installed. For a process that starts no server.
 */
void http_library(struct str *ret);

/* The server's address and credentials. Certificates and keys are PEM; all strings are copied. */
struct http_endpoint {
	const char *url;  /* "https://10.96.0.1:443", optionally with a path; no slash at the end */
	const char *ca;   /* the only trusted certificates; NULL: the system's */
	const char *cert; /* client certificate and its key, or NULL */
	const char *key;
	/*
	 * The host name, or the address without brackets, that the server's certificate must have;
	 * NULL: the one in the URL.
	 */
	const char *tls_name;
	const char *proxy; /* proxy for all requests; NULL: none. The environment is ignored */
	bool insecure;     /* the server's certificate is not checked */
};

struct http_endpoint *http_endpoint_copy(const struct http_endpoint *e);
/* only for a copy; returns NULL */
struct http_endpoint *http_endpoint_free(struct http_endpoint *e);
bool http_endpoint_equal(const struct http_endpoint *a, const struct http_endpoint *b);
/* Returns a pointer to "host:port" in a URL, and sets its length. */
const char *http_url_authority(const char *url, size_t *ret_n);

/* Timeouts of the engine; 0 selects the default. Tests make these short. */
struct http_tuning {
	int connect_ms; /* timeout for a new connection to become usable; default 10 s */
	/*
	 * If no byte arrives over a request's connection for this time after the request was sent,
	 * the request ends (HTTP_CUT), and the epoch is retired; default 12 s. The epoch is also
	 * retired if a request ends without an answer and no byte has arrived over any connection
	 * for this time.
	 */
	int silence_ms;
	/* Like silence_ms, but for a patient request; default 25 s. */
	int patience_ms;
};

enum http_end {
	HTTP_ANSWERED, /* status is set and the body is complete (a stream: properly closed) */
	HTTP_NOT_SENT, /* there was no connection: the server has not seen the request */
	/*
	 * Interrupted: the server may have executed it. Neither the engine nor libcurl repeats any
	 * request except GET.
	 */
	HTTP_CUT,
	/* the request's deadline passed; `sent` says whether the server may have seen it */
	HTTP_DEADLINE,
	HTTP_CANCELLED, /* http_cancel(), http_stop() or http_free() */
	HTTP_RETIRED,   /* a stream whose epoch was retired; reopen it */
	HTTP_TOO_LARGE, /* the body is larger than max_body */
};

struct http_result {
	enum http_end end;
	bool sent;
	int64_t sent_at; /* when a connection took the request; monotonic ns; 0: none did */
	bool http2;
	int status;        /* 0: no answer */
	int retry_after_s; /* from the answer, 0 to an hour; 0: not given, or already over */
	int64_t date;      /* the server's clock in its answer, Unix seconds; 0: not given */
	char *body;        /* NUL-terminated; NULL: no body. on_done may take over its ownership */
	size_t body_n;
	char why[256]; /* error message, unless HTTP_ANSWERED; no secrets */
};

/* All strings are copied. */
struct http_request {
	const char *method;
	const char *path; /* appended to the endpoint's URL: "/api/v1/nodes/a?x=y", encoded */
	const char *content_type, *body;
	size_t body_n;
	const char *accept, *user_agent;
	const char *bearer; /* bearer token */
	size_t max_body;
	int64_t deadline_at; /* as in struct deadline; 0: none */
	bool patient;        /* the server may take a long time to answer: patience_ms applies */
	/*
	 * A stream: the body of a 2xx answer is passed to on_bytes as it arrives. on_bytes is
	 * called with n 0 when the answer begins, and returns false to stop the stream (HTTP_CUT).
	 * A stream does not count as a request in flight, and ends when its epoch is retired. The
	 * epoch is retired when no byte arrives for silence_ms (0: no limit), or before the first
	 * byte for open_ms (0: same as silence_ms).
	 */
	bool stream;
	int silence_ms, open_ms;
	bool (*on_bytes)(void *arg, const char *bytes, size_t n);
	void (*on_done)(void *arg, struct http_result *result);
	void *arg;
};

/*
 * Loads libcurl and starts the thread; sends no request. UNAVAILABLE naming the package if libcurl
 * is missing.
 */
int http_new(const struct http_endpoint *endpoint, const struct http_tuning *tuning,
             struct http **ret, struct err *err) MUST_CHECK;
/* Ends all calls with HTTP_CANCELLED, and then the thread. NULL is allowed; returns NULL. */
struct http *http_free(struct http *h);
/*
 * Ends all calls, including those that are started later, with HTTP_CANCELLED; the thread
 * continues.
 */
void http_stop(struct http *h);
/* Any thread. A different endpoint retires the current epoch. */
void http_set_endpoint(struct http *h, const struct http_endpoint *endpoint);
/* Starts a request. Any thread. The handle is valid until on_done is called. */
struct http_call *http_start(struct http *h, const struct http_request *request);
void http_cancel(struct http *h, struct http_call *call);
/* Runs fn soon on the engine's thread. Any thread. */
void http_post(struct http *h, void (*fn)(void *arg), void *arg);

/* A one-shot timer; only the engine's thread may use it. */
struct http_timer {
	void (*fn)(void *arg);
	void *arg;
	int64_t at;
	struct http_timer *next;
	bool set;
};
/* also moves a timer that is already set */
void http_timer_set(struct http *h, struct http_timer *t, int64_t at);
void http_timer_clear(struct http *h, struct http_timer *t);

/*
 * Any thread except the engine's. Starts a request, whose callbacks and deadline this function
 * fills in, and waits for its end, the deadline or the caller's cancellation. *ret is always filled
 * in; the caller frees its body.
 */
void http_do(struct http *h, struct http_request *request, struct deadline d,
             struct http_result *ret);

struct http_stats {
	unsigned long requests;    /* requests that have ended, with any result */
	unsigned long connections; /* connections opened */
	unsigned long epochs;      /* epochs created */
	unsigned long http2;       /* answers received over HTTP/2 */
	unsigned in_flight, queued, streams;
};
struct http_stats http_stats(struct http *h);
