/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for a few pages that are read: GET and HEAD, no bodies, no TLS. One
 * thread serves all connections and never blocks; a page whose making may block is made on a thread
 * of its own, one at a time for each page, and all who asked meanwhile get the one answer.
 *
 * Nobody can make it grow: so many connections (the one that is idle for longest makes room), so
 * many bytes of a request, so much time for each step.
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
	const char *path; /* "/metrics" */
	void (*make)(void *arg, struct web_answer *ret);
	void *arg;
	bool slow; /* may block: made on a thread of its own */
};

struct web_tuning {
	int head_ms; /* from the first byte of a request to the end of its head; 0: 10 s */
	int idle_ms; /* without a request; 0: 90 s, more than scrapers pause */
	int send_ms; /* for the client to take an answer; 0: 30 s */
	int make_ms; /* for a slow page to be made, before its clients get a 503; 0: 10 s */
};

struct web_server;
/*
 * Listens at the address (listen_address.h) and starts the thread; a stale unix socket is replaced.
 * `pages` outlive the server. UNAVAILABLE, or what the errno means: the text names the address.
 */
int web_server_start(const char *address, const struct web_page *pages, size_t n_pages,
                     const struct web_tuning *tuning, struct web_server **ret, struct err *err)
	MUST_CHECK;
/*
 * In a page's make() on the server's thread: has a slow page be made that nobody has asked for, if
 * it is not being made already.
 */
void web_server_make(struct web_server *s, size_t page);
/* Where it listens, with the port that it got. */
const char *web_server_address(const struct web_server *s);
/*
 * Cuts all connections and waits for pages that are being made. Returns NULL; or `s` when one hangs
 * in the kernel: then what it may use must stay, too. NULL is fine.
 */
struct web_server *web_server_stop(struct web_server *s);
