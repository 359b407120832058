/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between a client and gRPC: relays bytes in both directions through a socket pair
 * whose other end belongs to gRPC, and closes the connection when it costs too much (h2_guard.h) or
 * stalls.
 *
 * Nothing is read from one side until the other has accepted the earlier bytes, so gRPC's flow
 * control works as on a direct connection. One thread, the listener's, calls all functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relay;

enum relay_state {
	RELAY_OPEN,
	RELAY_OVER, /* it has ended, or was too expensive (which was logged) */
};

struct relay_options {
	/* epoll descriptor to register with; data.ptr is passed to relay_event() */
	int epoll;
	/* timeout for the client to send the preface and the header of its SETTINGS */
	int preface_ms;
	int ack_ms;         /* timeout for the client to acknowledge the server's SETTINGS */
	int unread_ms;      /* timeout for the client to read some of the pending answers */
	size_t *unfinished; /* bytes of incomplete messages, of all relays (h2_guard.h) */
	/* Called when the client has sent its preface: `fd` is gRPC's end, owned by the callee. */
	void (*connected)(void *arg, struct relay *relay, int fd);
	void *arg;
};

/*
 * Creates a relay, which owns fd (non-blocking). Returns NULL, with fd closed, if epoll cannot
 * watch it. `options` must outlive the relay.
 */
struct relay *relay_new(const struct relay_options *options, int fd, int pid, int64_t now);
/* Closes both sides. NULL is allowed. */
void relay_free(struct relay *r);
/* Returns the relay of an epoll event. */
struct relay *relay_of(void *epoll_data);
/* Returns true if gRPC has received its end. */
bool relay_is_connected(const struct relay *r);
/* Relays the available bytes. Free the relay unless it returns RELAY_OPEN. */
enum relay_state relay_event(void *epoll_data, uint32_t events, int64_t now);
/* Returns the time of the next call of relay_expire(): monotonic ns, or DEADLINE_NEVER. */
int64_t relay_due(const struct relay *r);
/* Returns false if a timeout has passed; free the relay then. */
bool relay_expire(struct relay *r, int64_t now);
