/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a client as the beginning of a connection: only an HTTP/2 client reaches gRPC, with
 * every byte in order, however they are split. The first byte is the length of the pieces.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "rpc/relay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int grpc = -1; /* its end, once the client is known */

static void connected(void *arg, struct relay *relay, int fd)
{
	(void)arg;
	(void)relay;
	grpc = fd;
}

static void ignore_line(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

/* The bytes that reached gRPC are the first ones from the client. */
static size_t drain(const uint8_t *sent, size_t at, size_t n)
{
	uint8_t got[4096];
	ssize_t k;

	while (grpc >= 0 && (k = recv(grpc, got, sizeof(got), MSG_DONTWAIT)) > 0) {
		if ((size_t)k > n - at || memcmp(got, sent + at, (size_t)k) != 0)
			abort();
		at += (size_t)k;
	}
	return at;
}

static enum relay_state pass(int epoll)
{
	enum relay_state state = RELAY_OPEN;
	struct epoll_event e;

	while (state == RELAY_OPEN && epoll_wait(epoll, &e, 1, 0) > 0)
		state = relay_event(e.data.ptr, e.events, 1);
	return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	size_t unfinished = 0, size, sent = 0, arrived = 0;
	enum relay_state state = RELAY_OPEN;
	struct relay_options options = { .preface_ms = 1000,
		                         .ack_ms = 1000,
		                         .unread_ms = 1000,
		                         .unfinished = &unfinished,
		                         .connected = connected };
	struct relay *relay;
	int pair[2];

	if (n < 1)
		return 0;
	log_setup(10, false);
	log_redirect(ignore_line, NULL);
	options.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (options.epoll < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		abort();
	relay = relay_new(&options, pair[1], 7, 1);
	if (!relay)
		abort();
	size = (size_t)data[0] + 1;
	data++;
	n--;
	while (sent < n && state == RELAY_OPEN) {
		size_t k = n - sent < size ? n - sent : size;
		ssize_t rc = send(pair[0], data + sent, k, MSG_NOSIGNAL);

		if (rc < 0)
			abort();
		sent += (size_t)rc;
		state = pass(options.epoll);
		arrived = drain(data, arrived, sent);
	}
	/* The preface and the header of a SETTINGS frame come first. */
	if (grpc >= 0 &&
	    (sent < sizeof(preface) - 1 + 9 || memcmp(data, preface, sizeof(preface) - 1) != 0 ||
	     data[sizeof(preface) - 1 + 3] != 4))
		abort();
	if (grpc >= 0 && state == RELAY_OPEN && arrived != sent)
		abort();
	relay_free(relay);
	if (grpc >= 0)
		close(TAKE_FD(grpc));
	close(pair[0]);
	close(options.epoll);
	return 0;
}
