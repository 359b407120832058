/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket: our own, because gRPC's listener dies for good when descriptors run out and
 * removes a successor's socket when it stops (CVE-2023-4785 and a race, both in Debian's 1.51).
 *
 * One thread accepts connections, waits until the client has sent the HTTP/2 preface, hands a
 * descriptor over, and from then on passes the bytes on in both directions, as long as the
 * connection costs no more than its calls are worth (relay.h).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct listener;

struct listener_options {
	const char *path;
	mode_t mode; /* without a right to write for group and others: only for root and our user */
	gid_t group; /* (gid_t)-1: unchanged */
	/* Waiting and handed over together; fewer when the process may have few descriptors. */
	unsigned max_connections;
	/* Further ones, only for processes that run this very program: its --probe. */
	unsigned own_places;
	int preface_timeout_ms; /* for the client to send the preface and SETTINGS */
	int ack_timeout_ms;     /* for it to acknowledge the server's */
	int unread_timeout_ms;  /* for it to read something of what waits; in a stop 5 s at most */
	/*
	 * Called on the listener's thread; owns the descriptor (non-blocking, close-on-exec). It is
	 * one end of a pair: relay.c passes on what the client says.
	 */
	void (*connected)(void *arg, int fd);
	void *arg;
};

/*
 * Binds under a temporary name, sets mode and group, listens, then renames the socket to `path`: a
 * stale socket is replaced, and there is one at every moment. Connections wait until
 * listener_run(). INVALID_ARGUMENT: no socket can have that path; FAILED_PRECONDITION: a file that
 * is not a socket is there (it stays untouched).
 */
int listener_new(const struct listener_options *options, struct listener **ret, struct err *err)
	MUST_CHECK;
/*
 * Does a living process listen on the socket at this path? A process that is too busy to accept
 * does. A process that was killed and cannot end, because a thread sleeps in the kernel, does not.
 */
bool listener_answers(const char *path);
/* Starts to accept. */
int listener_run(struct listener *l, struct err *err) MUST_CHECK;
/* The client's process behind a descriptor that was handed over, 0 when unknown. Any thread. */
int listener_peer_pid(struct listener *l, int fd);
/* Is the file at the path this listener's socket? The thread that made it asks. */
bool listener_has_name(const struct listener *l);
/*
 * Removes the socket file if it is still this listener's; accepts no more connections and closes
 * those that were not handed over. The others go on. No `connected` runs when it returns.
 */
void listener_stop(struct listener *l);
/*
 * Stops it, gives clients a second to read what the owners of descriptors have written before they
 * closed them, closes all connections and ends the thread. NULL is fine; returns NULL.
 */
struct listener *listener_free(struct listener *l);
