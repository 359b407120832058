/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes API: one request in, one reply (or a watch stream) out. Knows nothing of sockets:
 * http_server.c brings the requests, tests call it directly.
 *
 *   api.c        path -> target, faults, discovery
 *   api_read.c   get, list
 *   api_write.c  create, update, patch, delete
 *   watch.c      watch
 *   api_sim.c    /sim/...: the switches of the simulator
 */
#pragma once

#include "common/str.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/sim.h"
#include "test/sim/api/status.h"

struct call {
	struct sim *sim;
	const char *method, *path; /* path is decoded and without the query */
	const char *content_type, *authorization;
	const struct strs *query; /* "key=value", decoded */
	const char *body;
	size_t body_len;
	int client_fd; /* to see that the client has gone; -1: none */
};

struct target {
	const struct resource *res;
	char *ns, *name, *sub; /* NULL: not in the path */
};

/* Blocks while a fault says so. */
void api_handle(struct call *call, struct reply *ret);

/* The value of a query parameter, or NULL. */
const char *call_query(const struct call *call, const char *key);
bool call_flag(const struct call *call, const char *key);

enum wait_end { WAIT_READY, WAIT_TIMEOUT, WAIT_GONE };
/*
 * Until fd (-1: none) is readable, ms (-1: for ever) have passed, or the client or snap-sim goes.
 */
enum wait_end call_wait(const struct call *call, int fd, int ms);

void api_get(const struct call *call, const struct target *t, struct reply *ret);
void api_list(const struct call *call, const struct target *t, struct reply *ret);
void api_watch(const struct call *call, const struct target *t, struct reply *ret);
void api_create(const struct call *call, const struct target *t, struct reply *ret);
void api_update(const struct call *call, const struct target *t, struct reply *ret);
void api_patch(const struct call *call, const struct target *t, struct reply *ret);
void api_delete(const struct call *call, const struct target *t, struct reply *ret);
/* Paths below /sim/. */
void api_sim(const struct call *call, struct reply *ret);
/* /api, /apis, ...: false when the path is none of discovery's. */
bool api_discovery(const char *path, struct reply *ret);

/* A watch that is being answered. */
/* The next bytes, at most n, blocking until there are some; 0: the end, -1: cut the connection. */
ssize_t watch_read(struct watch_stream *w, char *buf, size_t n);
void watch_free(struct watch_stream *w);
