/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for a few read-only pages: GET and HEAD, no bodies, no TLS, one request
 * per connection. Each page is rendered on its own thread, once at a time; clients that request the
 * page during that time get the same answer.
 *
 * A client can neither make the server's memory grow nor lock out other clients. There are
 * WEB_CONNECTIONS connections; when all are used, a new connection replaces an older one. A request
 * has at most WEB_HEAD_MAX bytes, and each step has a time limit.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"

#define WEB_CONNECTIONS 64
#define WEB_HEAD_MAX 8192 /* bytes of a request's line and headers */
#define WEB_BODY_MAX (4 * 1024 * 1024)

struct web_answer {
	int status;       /* initially 200 */
	const char *type; /* Content-Type; static; initially "text/plain; charset=utf-8" */
	struct str body;  /* initially empty; at most WEB_BODY_MAX */
};

struct web_page {
	const char *path;                                /* "/metrics" */
	void (*make)(void *arg, struct web_answer *ret); /* renders the page; may block */
	void *arg;
};

/* Time limits in ms. */
struct web_tuning {
	int head_ms; /* from accepting the connection to the end of the request's head */
	int send_ms; /* for the client to read an answer */
	int make_ms; /* for a page to be rendered, before its clients get a 503 */
	int stop_ms; /* for pages that are still being rendered when the server stops */
};

struct web_server;
/*
 * Listens on the address (listen_address.h) and starts the thread; a stale unix socket is replaced.
 * `pages` must outlive the server. `tuning` NULL: the defaults. The error is UNAVAILABLE, or a code
 * derived from errno; its message names the address.
 */
int web_server_start(const char *address, const struct web_page *pages, size_t n_pages,
                     const struct web_tuning *tuning, struct web_server **ret, struct err *err)
	MUST_CHECK;
/*
 * Starts to render another page without a client, unless the page is already being rendered. Call
 * it in make() of a page.
 */
void web_server_make(struct web_server *s, size_t page);
/* Returns the server's address, with the assigned port. */
const char *web_server_address(const struct web_server *s);
/*
 * Closes all connections and waits for pages that are being rendered, at most stop_ms in total.
 * Returns NULL, or `s` if a page hangs in the kernel; the data of that page must then also stay
 * valid. NULL is allowed.
 */
struct web_server *web_server_stop(struct web_server *s);
