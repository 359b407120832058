/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP to one server. This room is the only user of libcurl and loads it when the first engine is
 * made, so that a process without an engine never maps it.
 *
 * An engine is one thread. Any thread may start a request; each request ends with exactly one call
 * of on_done on the engine's thread. All callbacks run there, without locks, and must not block.
 *
 * libcurl has no timeout for a request that it queues, nor for a connection whose peer hangs while
 * another stream keeps it in use. So the engine keeps the deadlines and the queue itself. The
 * connections that are open at one time are an epoch of the connection pool. When the peer has
 * gone silent or the endpoint changes, the epoch is retired: new requests, and queued ones, go over
 * new connections.
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
 * Loads libcurl and adds its version and that of its TLS library; without libcurl, that there is
 * none. For a process that serves nothing.
 */
void http_library(struct str *ret);

/* Where the server is and how it is trusted. PEM texts; everything is copied. */
struct http_endpoint {
	const char *url;  /* "https://10.96.0.1:443", optionally with a path; no slash at the end */
	const char *ca;   /* the only certificates trusted; NULL: the system's */
	const char *cert; /* client certificate and its key, or NULL */
	const char *key;
	const char *tls_name; /* the name the certificate must have; NULL: the host of the URL */
	const char *proxy;    /* NULL: none, whatever the environment says */
	bool insecure;        /* the server's certificate is not checked */
};

struct http_endpoint *http_endpoint_copy(const struct http_endpoint *e);
struct http_endpoint *http_endpoint_free(struct http_endpoint *e); /* of a copy; returns NULL */
bool http_endpoint_equal(const struct http_endpoint *a, const struct http_endpoint *b);
/* Where "host:port" begins in a URL, and how long it is. */
const char *http_url_authority(const char *url, size_t *ret_n);

/* How long the engine waits; 0 takes the default. Tests make these short. */
struct http_tuning {
	int connect_ms; /* until a new connection is usable; default 10 s */
	/*
	 * A request was sent and no byte came over its connection for so long: it ends (HTTP_CUT),
	 * and the epoch is retired; default 12 s. Likewise when a request ends without an
	 * answer and no byte came over any connection for so long.
	 */
	int silence_ms;
	/* The same for a patient request; default 25 s. */
	int patience_ms;
};

enum http_end {
	HTTP_ANSWERED, /* status is set and the body is whole (a stream: it was closed properly) */
	HTTP_NOT_SENT, /* no connection: the server has not seen the request */
	/*
	 * Broken off: the server may have acted on it. No request but a GET is ever sent again by
	 * the engine or by libcurl.
	 */
	HTTP_CUT,
	HTTP_DEADLINE,  /* its deadline passed; sent says whether the server may have seen it */
	HTTP_CANCELLED, /* http_cancel(), http_stop() or http_free() */
	HTTP_RETIRED,   /* a stream whose epoch was retired: open it again */
	HTTP_TOO_LARGE, /* the body is larger than max_body */
};

struct http_result {
	enum http_end end;
	bool sent;
	int64_t sent_at; /* when a connection took it; monotonic ns; 0: none did */
	bool http2;
	int status;        /* 0: no answer */
	int retry_after_s; /* of the answer, 0 to an hour; 0: not given, or it is over */
	char *body;        /* with a NUL behind it; NULL when there is none. on_done may take it */
	size_t body_n;
	char why[256]; /* what went wrong unless HTTP_ANSWERED; no secrets */
};

/* All strings are copied. */
struct http_request {
	const char *method;
	const char *path; /* appended to the endpoint's URL: "/api/v1/nodes/a?x=y", encoded */
	const char *content_type, *body;
	size_t body_n;
	const char *accept, *user_agent;
	const char *bearer; /* token */
	size_t max_body;
	int64_t deadline_at; /* as in struct deadline; 0: none */
	bool patient;        /* a long silence may be the server at work: patience_ms counts */
	/*
	 * A stream: the body of a 2xx answer goes to on_bytes as it arrives. on_bytes is called
	 * with n 0 when the answer begins, and returns false to break off (HTTP_CUT). A stream does
	 * not count as a request in flight and ends when its epoch is retired. When no byte
	 * comes for silence_ms (0: no limit), or before the first one for open_ms (0: as
	 * silence_ms), the epoch is retired.
	 */
	bool stream;
	int silence_ms, open_ms;
	bool (*on_bytes)(void *arg, const char *bytes, size_t n);
	void (*on_done)(void *arg, struct http_result *result);
	void *arg;
};

/*
 * Loads libcurl and starts the thread; contacts nobody. UNAVAILABLE naming the package when there
 * is no libcurl.
 */
int http_new(const struct http_endpoint *endpoint, const struct http_tuning *tuning,
             struct http **ret, struct err *err) MUST_CHECK;
/* Ends all calls with HTTP_CANCELLED, then the thread. NULL is fine; returns NULL. */
struct http *http_free(struct http *h);
/* Ends all calls, and from now on each that is started, with HTTP_CANCELLED; the thread goes on. */
void http_stop(struct http *h);
/* Any thread. A different endpoint retires the current epoch. */
void http_set_endpoint(struct http *h, const struct http_endpoint *endpoint);
/* Any thread. The handle is valid until on_done is called. */
struct http_call *http_start(struct http *h, const struct http_request *request);
void http_cancel(struct http *h, struct http_call *call);
/* Any thread. Runs fn on the engine's thread, soon. */
void http_post(struct http *h, void (*fn)(void *arg), void *arg);

/* A timer that rings once; only the engine's thread may use it. */
struct http_timer {
	void (*fn)(void *arg);
	void *arg;
	int64_t at;
	struct http_timer *next;
	bool set;
};
void http_timer_set(struct http *h, struct http_timer *t, int64_t at); /* a set timer is moved */
void http_timer_clear(struct http *h, struct http_timer *t);

/*
 * Any thread but the engine's. Starts a request, whose callbacks and deadline are filled in here,
 * and waits for its end, the deadline or the caller's cancellation. *ret is always filled in; the
 * caller frees its body.
 */
void http_do(struct http *h, struct http_request *request, struct deadline d,
             struct http_result *ret);

struct http_stats {
	unsigned long requests;    /* ended, however */
	unsigned long connections; /* opened */
	unsigned long epochs;      /* made */
	unsigned long http2;       /* answers that came over HTTP/2 */
	unsigned in_flight, queued, streams;
};
struct http_stats http_stats(struct http *h);
