/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between a client and gRPC: passes bytes on in both directions through a pair of
 * sockets whose other end gRPC has, and closes the connection when it costs too much (h2_guard.h)
 * or stalls.
 *
 * Nothing is read while the other side has not taken what was read before, so gRPC's flow control
 * works as without it. One thread, the listener's, calls all functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relay;

enum relay_state {
	RELAY_OPEN,
	RELAY_OVER, /* it has ended, or cost too much, which the log says */
};

struct relay_options {
	int epoll;          /* where descriptors are registered; data.ptr is for relay_event() */
	int preface_ms;     /* for the client to send the preface and the head of its SETTINGS */
	int ack_ms;         /* for it to acknowledge the server's */
	int unread_ms;      /* for it to read something of the answers that wait */
	size_t *unfinished; /* bytes of messages, of all relays (h2_guard.h) */
	/* The client has said who it is: `fd` is gRPC's end, which the callee owns. */
	void (*connected)(void *arg, struct relay *relay, int fd);
	void *arg;
};

/* Owns fd (non-blocking); NULL, and fd closed, when it cannot be watched. `options` outlives it. */
struct relay *relay_new(const struct relay_options *options, int fd, int pid, int64_t now);
/* Closes both sides; NULL is fine. */
void relay_free(struct relay *r);
/* The relay of an epoll event. */
struct relay *relay_of(void *epoll_data);
/* Has gRPC got its end? */
bool relay_is_connected(const struct relay *r);
/* Passes on what has come. Unless it is RELAY_OPEN then: free it. */
enum relay_state relay_event(void *epoll_data, uint32_t events, int64_t now);
/* When relay_expire() has something to do next: monotonic ns, DEADLINE_NEVER. */
int64_t relay_due(const struct relay *r);
/* False: a time has run out, free it. */
bool relay_expire(struct relay *r, int64_t now);
