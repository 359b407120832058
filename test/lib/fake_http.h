/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted HTTP/1.1 server on a free port of 127.0.0.1, one thread per connection.
 *
 * A test adds rules ("GET /api/v1/nodes/a" -> reply); the first that matches and is not used up
 * answers. A request without a rule gets 599 and is counted as unexpected. Streams stay open;
 * the test pushes bytes into them, ends them, or cuts them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fake_http;

struct fake_reply {
	/*
	 * "METHOD /path?query"; a '*' at the end matches any rest. A pattern without '?' ignores
	 * the query of the request.
	 */
	const char *on;
	int status;          /* 0: 200 */
	const char *headers; /* further header lines, each with \r\n */
	const char *type;    /* NULL: application/json */
	const char *body;
	int delay_ms;   /* before the answer */
	bool cut;       /* the connection is closed without an answer */
	bool hang;      /* never answers; until the server is stopped or the peer closes */
	bool stream;    /* headers, body as the first chunk, then the pushed bytes */
	bool close;     /* closes the connection after the answer */
	unsigned times; /* 0: without limit */
};

struct fake_http *fake_http_start(void);
void fake_http_stop(struct fake_http *f); /* joins all threads, frees */
int fake_http_port(const struct fake_http *f);
const char *fake_http_url(const struct fake_http *f);            /* "http://127.0.0.1:PORT" */
void fake_http_on(struct fake_http *f, struct fake_reply reply); /* strings are copied */
void fake_http_forget(struct fake_http *f);                      /* all rules */

/* The received requests. Patterns as in `on`. */
unsigned fake_http_count(struct fake_http *f, const char *pattern);
unsigned fake_http_unexpected(struct fake_http *f);
unsigned fake_http_connections(struct fake_http *f); /* accepted so far */
unsigned fake_http_open_most(struct fake_http *f);   /* the maximum of concurrently open ones */
/* Head and body of the last request that matches, malloc'ed; NULL if none does. */
char *fake_http_last(struct fake_http *f, const char *pattern);
/* Waits until `n` requests matching have arrived; false after wait_limit(). */
bool fake_http_wait(struct fake_http *f, const char *pattern, unsigned n);

/* Open streams whose request matches. */
bool fake_http_wait_streams(struct fake_http *f, const char *pattern, unsigned n);
unsigned fake_http_push(struct fake_http *f, const char *pattern, const char *bytes); /* how many */
void fake_http_end_streams(struct fake_http *f, const char *pattern); /* the last chunk */
void fake_http_cut_streams(struct fake_http *f, const char *pattern); /* in the middle */
