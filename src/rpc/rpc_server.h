/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server. Only rpc_server*.c and rpc_probe.c, its client, include <grpc/...>.
 *
 * Threads: one poller that never blocks, one thread for each running call (workers.h), one thread
 * that accepts connections. The thread that starts a server calls every function here.
 */
#pragma once

#include <sys/types.h>

#include "rpc/rpc.h"

struct rpc_server;

struct rpc_server_options {
	const char *path;         /* path of the unix socket; absolute or relative */
	mode_t socket_mode;       /* 0: 0600 */
	gid_t socket_group;       /* (gid_t)-1: unchanged */
	unsigned max_calls;       /* 0: LIMIT_RPC_CALLS */
	unsigned max_streams;     /* per connection; 0: LIMIT_RPC_STREAMS */
	unsigned max_connections; /* 0: LIMIT_RPC_CONNECTIONS */
	unsigned own_places;      /* additional connections, for processes of this same program */
	int preface_timeout_ms;   /* 0: LIMIT_RPC_PREFACE_MS */
	unsigned max_incomplete;  /* 0: LIMIT_RPC_INCOMPLETE */
	int message_timeout_ms;   /* 0: LIMIT_RPC_MESSAGE_MS */
	struct running *running;  /* the table of running calls; NULL: none */
	int ack_timeout_ms;       /* 0: LIMIT_RPC_ACK_MS */
	int unread_timeout_ms;    /* 0: LIMIT_RPC_UNREAD_MS */
};

/* returns the version of gRPC's core, which has its own version numbers */
const char *rpc_server_library(void);
const char *rpc_server_messages(void); /* returns the version of protobuf-c */

/* Removes GRPC_* from the environment. Call it at the top of main(), before any thread exists. */
void rpc_server_sanitize_environment(void);

/*
 * Listens and serves. A stale socket is replaced atomically; any other file at the path is an error
 * (listener.h). The calling thread must have blocked SIGTERM and SIGINT, so that gRPC's threads
 * inherit the mask. `services` and their data must outlive the server.
 */
int rpc_server_start(const struct rpc_server_options *options, const struct rpc_service *services,
                     size_t n_services, struct rpc_server **ret, struct err *err) MUST_CHECK;
/* Returns true if the file at the server's path is still this server's socket. */
bool rpc_server_has_socket(const struct rpc_server *s);
/*
 * Accepts no more connections, and removes the socket if it is still this server's. Then gives
 * running calls grace_ms, cancels the remaining ones, waits for their handlers, and frees
 * everything. NULL is allowed. It waits without limit for a handler that never returns, so the
 * caller must limit the time.
 */
void rpc_server_stop(struct rpc_server *s, int grace_ms);
