/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sides of a connection. A connection takes no memory except its struct and the bytes that
 * one side has not accepted yet; while both sides keep up, nothing is buffered.
 *
 * Edge-triggered: each event reads until no bytes are left or the other side is full. When gRPC
 * closes its end, its earlier bytes are still sent to the client; when the client closes the
 * connection, gRPC sees the end of the client's bytes.
 */
#include "rpc/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "rpc/h2_guard.h"

#define CHUNK (16 * 1024)
#define CHUNKS_MAX 16 /* chunks of one connection before another connection has its turn */
#define MS INT64_C(1000000)

/*
 * RFC 9113, 3.4: the first bytes of every HTTP/2 client, followed by the header of a SETTINGS
 * frame.
 */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_LEN (sizeof(preface) - 1)
#define HELLO_LEN (PREFACE_LEN + 9)
#define SETTINGS_TYPE 4

struct side {
	struct relay *relay;
	int fd;           /* -1: not yet created */
	uint32_t watched; /* events for which epoll watches the descriptor */
	bool ended;       /* no more bytes will arrive from this side */
	bool closed;      /* this side accepts no more bytes */
	uint8_t *waiting; /* bytes that this side has not accepted yet; malloc'ed */
	size_t n_waiting;
	int64_t full_since; /* when this side last accepted bytes; 0: no bytes wait */
};

struct relay {
	const struct relay_options *options;
	struct side client, grpc;
	int pid;
	int64_t hello_by; /* time limit for the preface; DEADLINE_NEVER: received */
	uint8_t hello[HELLO_LEN];
	size_t n_hello;
	struct h2_guard guard;
};

/* ---- watching ---- */

static bool watch(struct side *s, int op, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = s };

	s->watched = events;
	return epoll_ctl(s->relay->options->epoll, op, s->fd, &event) == 0;
}

/* EPOLLOUT is needed only while bytes wait for this side. */
static void watch_room(struct side *s)
{
	uint32_t events = EPOLLIN | EPOLLET | (s->n_waiting ? EPOLLOUT : 0U);

	if (s->fd >= 0 && events != s->watched)
		watch(s, EPOLL_CTL_MOD, events);
}

/* ---- bytes ---- */

static void drop_waiting(struct side *s)
{
	free(TAKE(s->waiting));
	s->n_waiting = 0;
}

/* Sends bytes. Returns the number of bytes that the side has accepted. */
static size_t relay_send(struct side *s, const uint8_t *p, size_t n, int64_t now)
{
	size_t given = 0;

	while (given < n && !s->closed) {
		ssize_t k = send(s->fd, p + given, n - given, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k >= 0)
			given += (size_t)k;
		else if (errno == EAGAIN || errno == ENOBUFS)
			break;
		else if (errno != EINTR)
			s->closed = true;
	}
	if (given || !s->full_since)
		s->full_since = now;
	return s->closed ? n : given; /* a closed side counts as accepting everything */
}

/* Returns true if all waiting bytes were accepted. */
static bool give_waiting(struct side *s, int64_t now)
{
	size_t given;

	if (!s->n_waiting)
		return true;
	given = relay_send(s, s->waiting, s->n_waiting, now);
	s->n_waiting -= given;
	memmove(s->waiting, s->waiting + given, s->n_waiting);
	if (!s->n_waiting)
		drop_waiting(s);
	return !s->n_waiting;
}

static bool give_or_keep(struct side *s, const uint8_t *p, size_t n, int64_t now)
{
	size_t given;

	s->full_since = 0;
	given = relay_send(s, p, n, now);
	if (given == n)
		return true;
	s->n_waiting = n - given;
	s->waiting = xmalloc(s->n_waiting);
	memcpy(s->waiting, p + given, s->n_waiting);
	return false;
}

/* Counts the bytes received from a side. Returns false if the connection costs too much. */
static bool account(struct relay *r, const struct side *from, const uint8_t *p, size_t n,
                    int64_t now)
{
	const char *reason;

	if (from == &r->grpc) {
		h2_guard_server(&r->guard, p, n, now);
		return true;
	}
	reason = h2_guard_client(&r->guard, p, n, now);
	if (reason)
		log_limited(LOG_WARNING, 10, "closed the connection of process %d: %s", r->pid,
		            reason);
	return !reason;
}

/* Returns RELAY_OVER if the connection has nothing left to do. */
static enum relay_state outcome_of(const struct relay *r)
{
	bool all_answered = r->grpc.ended && !r->client.n_waiting;

	return r->client.closed || all_answered ? RELAY_OVER : RELAY_OPEN;
}

/* Reads `from` until it has no bytes, or `to` is full. */
static enum relay_state relay_pass(struct relay *r, struct side *from, struct side *to, int64_t now)
{
	uint8_t chunk[CHUNK];

	for (int i = 0; i < CHUNKS_MAX && !from->ended; i++) {
		ssize_t n;

		if (!give_waiting(to, now))
			return outcome_of(r);
		n = recv(from->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return outcome_of(r);
		if (n <= 0) {
			from->ended = true;
			shutdown(to->fd, SHUT_WR);
			return outcome_of(r);
		}
		if (!account(r, from, chunk, (size_t)n, now))
			return RELAY_OVER;
		give_or_keep(to, chunk, (size_t)n, now);
	}
	give_waiting(to, now);
	/* There may be more bytes, and registering again triggers another event. */
	if (!from->ended)
		watch(from, EPOLL_CTL_MOD, from->watched);
	return outcome_of(r);
}

/* ---- the beginning ---- */

static enum relay_state refuse(const struct relay *r, const char *why)
{
	/*
	 * Logged at debug level, because scripts connect only to test whether the socket is served.
	 */
	log_msg(LOG_DEBUG, "closed a connection of process %d: it %s", r->pid, why);
	return RELAY_OVER;
}

static enum relay_state connect_grpc(struct relay *r, int64_t now)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) {
		log_limited(LOG_WARNING, 10, "cannot serve a connection (%s): closed it",
		            strerrorname_np(errno));
		return RELAY_OVER;
	}
	r->grpc.fd = pair[0];
	r->hello_by = DEADLINE_NEVER;
	if (!watch(&r->grpc, EPOLL_CTL_ADD, EPOLLIN | EPOLLET)) {
		close(pair[1]);
		return RELAY_OVER;
	}
	h2_guard_init(&r->guard, r->options->unfinished, now);
	r->options->connected(r->options->arg, r, pair[1]);
	if (!account(r, &r->client, r->hello + PREFACE_LEN, HELLO_LEN - PREFACE_LEN, now))
		return RELAY_OVER;
	give_or_keep(&r->grpc, r->hello, HELLO_LEN, now);
	return RELAY_OPEN;
}

/* Runs until the client has sent enough to be an HTTP/2 client. */
static enum relay_state greet(struct relay *r, int64_t now)
{
	while (r->n_hello < HELLO_LEN) {
		ssize_t n = recv(r->client.fd, r->hello + r->n_hello, HELLO_LEN - r->n_hello,
		                 MSG_DONTWAIT);
		size_t known;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return RELAY_OPEN;
		if (n <= 0)
			return refuse(r, r->n_hello ? "left before the end of the HTTP/2 preface"
			                            : "sent nothing and left");
		r->n_hello += (size_t)n;
		known = r->n_hello < PREFACE_LEN ? r->n_hello : PREFACE_LEN;
		if (memcmp(r->hello, preface, known) != 0)
			return refuse(r, "does not speak HTTP/2");
	}
	if (r->hello[PREFACE_LEN + 3] != SETTINGS_TYPE)
		return refuse(r, "does not begin with SETTINGS");
	return connect_grpc(r, now);
}

/* ---- the listener's calls ---- */

struct relay *relay_new(const struct relay_options *options, int fd, int pid, int64_t now)
{
	struct relay *r = xcalloc(1, sizeof(*r));

	r->options = options;
	r->client = (struct side) { .relay = r, .fd = fd };
	r->grpc = (struct side) { .relay = r, .fd = -1 };
	r->pid = pid;
	r->hello_by = now + options->preface_ms * MS;
	if (watch(&r->client, EPOLL_CTL_ADD, EPOLLIN | EPOLLET))
		return r;
	relay_free(r);
	return NULL;
}

/*
 * Removes the descriptor from epoll before closing it. A child that was just started may hold a
 * copy of the descriptor for a moment; then close() does not remove it from epoll, and an event
 * would refer to a freed relay.
 */
static void close_watched(const struct relay *r, int fd)
{
	epoll_ctl(r->options->epoll, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

void relay_free(struct relay *r)
{
	if (!r)
		return;
	drop_waiting(&r->client);
	drop_waiting(&r->grpc);
	close_watched(r, r->client.fd);
	if (r->grpc.fd >= 0)
		close_watched(r, r->grpc.fd);
	h2_guard_clear(&r->guard);
	free(r);
}

struct relay *relay_of(void *epoll_data)
{
	return ((const struct side *)epoll_data)->relay;
}

bool relay_is_connected(const struct relay *r)
{
	return r->grpc.fd >= 0;
}

enum relay_state relay_event(void *epoll_data, uint32_t events, int64_t now)
{
	struct side *side = epoll_data;
	struct relay *r = side->relay;
	struct side *other = side == &r->client ? &r->grpc : &r->client;
	enum relay_state state = RELAY_OPEN;

	if (r->grpc.fd < 0)
		state = greet(r, now);
	if (r->grpc.fd < 0 || state != RELAY_OPEN)
		return state;
	if (events & ~(uint32_t)EPOLLOUT)
		state = relay_pass(r, side, other, now);
	if (state == RELAY_OPEN && events & EPOLLOUT)
		state = relay_pass(r, other, side, now);
	watch_room(&r->client);
	watch_room(&r->grpc);
	return state;
}

int64_t relay_due(const struct relay *r)
{
	int64_t owes = h2_guard_owes_since(&r->guard);
	int64_t due = r->hello_by;

	if (owes && owes + r->options->ack_ms * MS < due)
		due = owes + r->options->ack_ms * MS;
	if (r->client.n_waiting && r->client.full_since + r->options->unread_ms * MS < due)
		due = r->client.full_since + r->options->unread_ms * MS;
	return due;
}

bool relay_expire(struct relay *r, int64_t now)
{
	if (now < relay_due(r))
		return true;
	if (now >= r->hello_by)
		refuse(r, "did not send the HTTP/2 preface and its SETTINGS in time");
	else
		log_limited(LOG_WARNING, 10, "closed the connection of process %d: it %s", r->pid,
		            r->client.n_waiting ? "does not read its answers"
		                                : "does not acknowledge SETTINGS");
	return false;
}
