/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server: with rpc_probe.c, its client, the only module (rpc_server*.c) that includes
 * <grpc/...>.
 *
 * Threads: one poller that never blocks, a bounded pool of workers (started when first needed,
 * kept) that run handlers to their end, one thread that accepts connections. Every function here is
 * called from one thread, the one that made the server.
 */
#pragma once

#include <sys/types.h>

#include "rpc/rpc.h"

struct rpc_server;

struct rpc_server_options {
	const char *path;         /* of the unix socket; absolute or relative */
	mode_t socket_mode;       /* 0: 0600 */
	gid_t socket_group;       /* (gid_t)-1: unchanged */
	unsigned max_workers;     /* 0: LIMIT_RPC_WORKERS */
	unsigned max_queue;       /* 0: LIMIT_RPC_QUEUE */
	unsigned max_connections; /* 0: LIMIT_RPC_CONNECTIONS */
	int preface_timeout_ms;   /* 0: LIMIT_RPC_PREFACE_MS */
};

/* Clears GRPC_* from the environment; at the top of main, before any thread. */
void rpc_server_sanitize_environment(void);

/*
 * Listens (replacing a stale socket atomically, refusing a path that is not a socket) and serves.
 * SIGTERM, SIGINT must be blocked in the calling thread before, so that gRPC's threads inherit
 * that. services (and what they point to) outlive the server.
 */
int rpc_server_start(const struct rpc_server_options *options, const struct rpc_service *services,
                     size_t n_services, struct rpc_server **ret, struct err *err) MUST_CHECK;
/*
 * Accepts no more, lets running calls finish for grace_ms, then cancels them, waits for their
 * handlers, removes the socket if it is still ours, frees everything. NULL is fine.
 */
void rpc_server_stop(struct rpc_server *s, int grace_ms);
