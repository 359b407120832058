/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket: our own, because gRPC's listener dies for good when descriptors run out and
 * removes a successor's socket when it stops (CVE-2023-4785 and a race, both in Debian's 1.51).
 *
 * One thread accepts, waits until a client has sent the first words of HTTP/2, and hands the
 * descriptor over.
 */
#pragma once

#include <sys/types.h>

#include "common/err.h"

struct listener;

struct listener_options {
	const char *path;
	mode_t mode;
	gid_t group;              /* (gid_t)-1: unchanged */
	unsigned max_connections; /* waiting and handed over together */
	int preface_timeout_ms;
	/* Takes the descriptor (non-blocking, close-on-exec) over. On the listener's thread. */
	void (*connected)(void *arg, int fd);
	void *arg;
};

/*
 * Binds under a temporary name, gives it mode and group, listens, then renames it to `path`: a
 * stale socket is replaced without a moment in which there is none. Connections wait until
 * listener_run(). INVALID_ARGUMENT: a path that no socket can have; FAILED_PRECONDITION: something
 * is there that is not a socket (it stays untouched).
 */
int listener_new(const struct listener_options *options, struct listener **ret, struct err *err)
	MUST_CHECK;
/* Starts to accept. */
int listener_run(struct listener *l, struct err *err) MUST_CHECK;
/* Process at the other end of a connection that was handed over, 0 when unknown. Any thread. */
int listener_peer_pid(struct listener *l, int fd);
/* Accepts no more, closes what has not spoken, removes the socket if its name still leads to it. */
void listener_stop(struct listener *l);
/* After listener_stop(), or of one that never ran. NULL is fine; returns NULL. */
struct listener *listener_free(struct listener *l);
