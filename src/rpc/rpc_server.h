/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server. Only rpc_server*.c and rpc_probe.c, a client of it, include <grpc/...>.
 *
 * Threads: one poller that never blocks, a thread for each call that runs (workers.h), one thread
 * that accepts connections. The thread that starts a server calls every function here.
 */
#pragma once

#include <sys/types.h>

#include "rpc/rpc.h"

struct rpc_server;

struct rpc_server_options {
	const char *path;         /* of the unix socket; absolute or relative */
	mode_t socket_mode;       /* 0: 0600 */
	gid_t socket_group;       /* (gid_t)-1: unchanged */
	unsigned max_calls;       /* 0: LIMIT_RPC_CALLS */
	unsigned max_streams;     /* of one connection; 0: LIMIT_RPC_STREAMS */
	unsigned max_connections; /* 0: LIMIT_RPC_CONNECTIONS */
	unsigned own_places;      /* further connections, for processes of this very program */
	int preface_timeout_ms;   /* 0: LIMIT_RPC_PREFACE_MS */
	unsigned max_incomplete;  /* 0: LIMIT_RPC_INCOMPLETE */
	int message_timeout_ms;   /* 0: LIMIT_RPC_MESSAGE_MS */
	struct running *running;  /* the table of running calls; NULL: none */
	int ack_timeout_ms;       /* 0: LIMIT_RPC_ACK_MS */
	int unread_timeout_ms;    /* 0: LIMIT_RPC_UNREAD_MS */
};

const char *rpc_server_library(void);  /* version of gRPC's core, which counts on its own */
const char *rpc_server_messages(void); /* version of protobuf-c */

/* Removes GRPC_* from the environment; at the top of main(), before any thread. */
void rpc_server_sanitize_environment(void);

/*
 * Listens and serves; a stale socket is replaced atomically, another file at the path is an error
 * (listener.h). The calling thread has blocked SIGTERM and SIGINT before, so that gRPC's threads
 * inherit the mask. `services` and what they point to outlive the server.
 */
int rpc_server_start(const struct rpc_server_options *options, const struct rpc_service *services,
                     size_t n_services, struct rpc_server **ret, struct err *err) MUST_CHECK;
/* Is the file at its path still this server's socket? */
bool rpc_server_has_socket(const struct rpc_server *s);
/*
 * Accepts no more connections and removes the socket if it is still this server's, gives running
 * calls grace_ms, then cancels them, waits for their handlers, frees everything. NULL is fine. A
 * handler that never returns is waited for without end: who stops the process watches the time.
 */
void rpc_server_stop(struct rpc_server *s, int grace_ms);
