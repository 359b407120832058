/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: one thread, poll() over all sockets. It still reads a frozen connection, so that the
 * kernel acknowledges the peer's bytes, and drops them.
 */
#include "test/kubeclient/relay.h"

#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"

#define PAIRS_MAX 64

struct pair {
	int client, server; /* -1: closed */
	bool frozen;
};

struct relay {
	pthread_t thread;
	/*
	 * Guards the following fields; only the thread closes descriptors, so they stay valid in
	 * poll().
	 */
	pthread_mutex_t lock;
	int listener, port, target;
	bool stop;
	unsigned accepted;
	struct pair pairs[PAIRS_MAX];
	unsigned n;
};

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in) { .sin_family = AF_INET,
		                      .sin_port = htons((uint16_t)port),
		                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void pair_close(struct pair *p)
{
	close(p->client);
	close(p->server);
	p->client = p->server = -1;
}

static void pair_open(struct relay *r)
{
	int server;
	struct sockaddr_in address = loopback(r->target);
	int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
	if (client < 0)
		return;
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	r->accepted++;
	if (r->n == PAIRS_MAX || connect(server, (struct sockaddr *)&address, sizeof(address))) {
		close(client);
		close(server);
		return;
	}
	r->pairs[r->n++] = (struct pair) { .client = client, .server = server };
}

static void forward(struct pair *p, int from, int to)
{
	char buf[65536];
	ssize_t n = recv(from, buf, sizeof(buf), MSG_DONTWAIT);
	if (n <= 0)
		pair_close(p);
	else if (!p->frozen)
		IGNORE_RESULT(send(to, buf, (size_t)n, MSG_NOSIGNAL));
}

static unsigned collect(struct relay *r, struct pollfd *fds)
{
	unsigned n = 0;
	fds[n++] = (struct pollfd) { .fd = r->listener, .events = POLLIN };
	for (unsigned i = 0; i < r->n; i++) {
		fds[n++] = (struct pollfd) { .fd = r->pairs[i].client, .events = POLLIN };
		fds[n++] = (struct pollfd) { .fd = r->pairs[i].server, .events = POLLIN };
	}
	return n;
}

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct pollfd fds[1 + 2 * PAIRS_MAX];
	for (;;) {
		unsigned n;
		{
			WITH_LOCK(&r->lock);
			if (r->stop)
				return NULL;
			n = collect(r, fds);
		}
		poll(fds, n, 20);
		WITH_LOCK(&r->lock);
		for (unsigned i = 1; i + 1 < n; i += 2) {
			struct pair *p = &r->pairs[i / 2];
			if (fds[i].revents && p->client >= 0)
				forward(p, p->client, p->server);
			if (fds[i + 1].revents && p->server >= 0)
				forward(p, p->server, p->client);
		}
		if (fds[0].revents)
			pair_open(r);
	}
}

struct relay *relay_start(int target_port)
{
	struct relay *r = xcalloc(1, sizeof(*r));
	struct sockaddr_in address = loopback(0);
	socklen_t n = sizeof(address);
	pthread_mutex_init(&r->lock, NULL);
	r->target = target_port;
	r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(r->listener, (struct sockaddr *)&address, n), 0);
	ck_assert_int_eq(listen(r->listener, 100), 0);
	ck_assert_int_eq(getsockname(r->listener, (struct sockaddr *)&address, &n), 0);
	r->port = ntohs(address.sin_port);
	ck_assert_int_eq(pthread_create(&r->thread, NULL, relay_run, r), 0);
	return r;
}

int relay_port(const struct relay *r)
{
	return r->port;
}

void relay_freeze(struct relay *r)
{
	WITH_LOCK(&r->lock);
	for (unsigned i = 0; i < r->n; i++)
		r->pairs[i].frozen = true;
}

unsigned relay_connections(struct relay *r)
{
	WITH_LOCK(&r->lock);
	return r->accepted;
}

void relay_stop(struct relay *r)
{
	{
		WITH_LOCK(&r->lock);
		r->stop = true;
	}
	pthread_join(r->thread, NULL);
	for (unsigned i = 0; i < r->n; i++)
		if (r->pairs[i].client >= 0)
			pair_close(&r->pairs[i]);
	close(r->listener);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
