/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for a few read-only pages: GET and HEAD, no bodies, no TLS, one request
 * per connection. A page is rendered on a thread of its own, once at a time; clients that request
 * it during that time get the same answer.
 *
 * Clients cannot make it grow, nor keep each other out: there are WEB_CONNECTIONS places, and when
 * all are taken, a new connection replaces another one; a request has at most WEB_HEAD_MAX bytes;
 * each step has a time limit.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"

#define WEB_CONNECTIONS 64
#define WEB_HEAD_MAX 8192 /* bytes of a request's line and headers */
#define WEB_BODY_MAX (4 * 1024 * 1024)

struct web_answer {
	int status;       /* 200 before the page is made */
	const char *type; /* Content-Type; static; "text/plain; charset=utf-8" before */
	struct str body;  /* empty before; WEB_BODY_MAX */
};

struct web_page {
	const char *path;                                /* "/metrics" */
	void (*make)(void *arg, struct web_answer *ret); /* may block */
	void *arg;
};

/* Times in ms. */
struct web_tuning {
	int head_ms; /* from the connection to the end of the request's head */
	int send_ms; /* for the client to take an answer */
	int make_ms; /* for a page to be rendered, before its clients get a 503 */
	int stop_ms; /* for pages that are being rendered when the server stops */
};

struct web_server;
/*
 * Listens at the address (listen_address.h) and starts the thread; a stale unix socket is replaced.
 * `pages` outlive the server. `tuning` NULL: the defaults. UNAVAILABLE, or what the errno means:
 * the text names the address.
 */
int web_server_start(const char *address, const struct web_page *pages, size_t n_pages,
                     const struct web_tuning *tuning, struct web_server **ret, struct err *err)
	MUST_CHECK;
/* In a page's make(): has another page made without a client, unless that is in progress. */
void web_server_make(struct web_server *s, size_t page);
/* Where it listens, with the port that it got. */
const char *web_server_address(const struct web_server *s);
/*
 * Cuts all connections and waits for pages that are being made, stop_ms in all. Returns NULL; or
 * `s` if a page hangs in the kernel: then the data of that page must stay, too. NULL is allowed.
 */
struct web_server *web_server_stop(struct web_server *s);
