/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens on the unix socket. gRPC's own listener is not used, because it stops permanently when
 * descriptors run out, and removes a successor's socket when it stops (CVE-2023-4785 and a race,
 * both in Debian's 1.51).
 *
 * One thread accepts connections, waits until the client has sent the HTTP/2 preface, and passes a
 * descriptor to gRPC. After that it relays the bytes in both directions, as long as the connection
 * costs no more than its calls justify (relay.h).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct listener;

struct listener_options {
	const char *path;
	/* no write permission for group and others: only root and the driver's user connect */
	mode_t mode;
	gid_t group; /* (gid_t)-1: unchanged */
	/*
	 * Maximum number of connections, including those not yet passed to gRPC. A low descriptor
	 * limit of the process reduces it.
	 */
	unsigned max_connections;
	/* Additional connections, only for processes that run this same program (its --probe). */
	unsigned own_places;
	int preface_timeout_ms; /* timeout for the client to send the preface and SETTINGS */
	int ack_timeout_ms;     /* timeout for the client to acknowledge the server's SETTINGS */
	/* timeout for the client to read pending bytes; during a stop at most 5 s */
	int unread_timeout_ms;
	/*
	 * Called on the listener's thread with a descriptor (non-blocking, close-on-exec) that the
	 * callee owns. The descriptor is one end of a socket pair, to which relay.c forwards the
	 * client's bytes.
	 */
	void (*connected)(void *arg, int fd);
	void *arg;
};

/*
 * Binds under a temporary name, sets mode and group, listens, then renames the socket to `path`. So
 * a stale socket is replaced, and `path` is a socket at any time. Connections wait until
 * listener_run(). INVALID_ARGUMENT if a socket cannot have this path; FAILED_PRECONDITION if the
 * path is a file other than a socket (the file stays unchanged).
 */
int listener_new(const struct listener_options *options, struct listener **ret, struct err *err)
	MUST_CHECK;
/*
 * Returns true if a living process listens on the socket at this path, even if it is too busy to
 * accept. A process that was killed but cannot end, because one of its threads sleeps in the
 * kernel, does not count as living. If the backlog is full, only a listener_new() of this program
 * is recognized, by an fcntl(2) lock. The calling process must have no listener in the same
 * directory, because it would lose that lock.
 */
bool listener_answers(const char *path);
/* Starts to accept connections. */
int listener_run(struct listener *l, struct err *err) MUST_CHECK;
/*
 * Returns the pid of the client behind a descriptor that was passed on; 0 if unknown. Any thread.
 */
int listener_peer_pid(struct listener *l, int fd);
/*
 * Returns true if the file at the path is this listener's socket. Call it on the thread that
 * created the listener.
 */
bool listener_has_name(const struct listener *l);
/*
 * Removes the socket file if it is still this listener's, stops accepting, and closes connections
 * that were not passed on. The others continue. `connected` is not running after the return.
 */
void listener_stop(struct listener *l);
/*
 * Stops the listener, gives clients a second to read the bytes that were written before their
 * descriptors were closed, closes all connections and ends the thread. NULL is allowed; returns
 * NULL.
 */
struct listener *listener_free(struct listener *l);
