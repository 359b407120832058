/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on a path that other programs serve, too: it never takes the place of one that answers
 * there, and comes (back) when that has gone. One thread calls all functions.
 */
#pragma once

#include "rpc/rpc_server.h"

struct shared_path {
	const char *path; /* outlives it, as what `service` points to does */
	struct rpc_service service;
	struct rpc_server *server; /* NULL: not served at the moment */
	/* Has somebody a use for the server although its socket has gone? Then it is kept. */
	bool (*in_use)(void *arg);
	void *arg;
};

/*
 * Serves the path, unless that is done already: to be called every few seconds. A dead socket there
 * is replaced. -1 UNAVAILABLE: another process serves it; else why not: its folder is missing, or
 * another file is there.
 */
int shared_path_keep(struct shared_path *s, struct err *err) MUST_CHECK;
/* Ends the server, and removes its socket. */
void shared_path_stop(struct shared_path *s);
