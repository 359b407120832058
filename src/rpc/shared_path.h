/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server on a path that other programs also serve. It never replaces a server that answers on the
 * path, and takes the path (again) when that server has stopped. One thread calls all functions.
 */
#pragma once

#include "rpc/rpc_server.h"

struct shared_path {
	const char *path; /* must outlive this struct; so must the data of `service` */
	struct rpc_service service;
	struct rpc_server *server; /* NULL: the path is not served by this process */
	/*
	 * Returns true if the server is still in use although its socket was removed; the server is
	 * then kept.
	 */
	bool (*in_use)(void *arg);
	void *arg;
};

/*
 * Serves the path, unless this process already serves it; call it every few seconds. A stale socket
 * on the path is replaced. Returns -1 with UNAVAILABLE if another process serves the path; other
 * codes: its directory is missing, or the path is a file other than a socket.
 */
int shared_path_keep(struct shared_path *s, struct err *err) MUST_CHECK;
/* Ends the server, and removes its socket. */
void shared_path_stop(struct shared_path *s);
