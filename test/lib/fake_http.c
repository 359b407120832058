/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripted server. One accept thread and one thread per connection, all joined at the
 * end. `lock` guards everything in struct fake_http; connections write outside it, except
 * pushed stream bytes, which are small and must not interleave.
 */
#include "test/lib/fake_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/wait.h"

#define HEAD_MAX (64 * 1024)

struct rule {
	struct rule *next;
	struct fake_reply reply;
	unsigned used;
};

struct request {
	struct request *next;
	char *line; /* "GET /path?query" */
	char *text; /* head and body */
};

struct conn {
	struct conn *next;
	struct fake_http *f;
	pthread_t thread;
	int fd;
	char *streaming; /* the request line while a stream is open */
	bool stream_over;
	bool closed;
};

struct fake_http {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	int listener, port;
	char url[64];
	bool stop;
	struct rule *rules, **rules_tail;
	struct request *requests; /* newest first */
	struct conn *conns;
	unsigned connections, open, open_most, unexpected;
};

static bool matches(const char *pattern, const char *line)
{
	size_t n = strlen(pattern);
	size_t length = strchr(pattern, '?') ? strlen(line) : strcspn(line, "?");

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(pattern, line, n - 1) == 0;
	return length == n && strncmp(pattern, line, n) == 0;
}

static void send_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		bytes += sent;
		n -= (size_t)sent;
	}
}

static void send_chunk(int fd, const char *bytes)
{
	char *chunk AUTO(free) = xasprintf("%zx\r\n%s\r\n", strlen(bytes), bytes);
	send_all(fd, chunk, strlen(chunk));
}

/* ---- one connection ---- */

static bool receive_more(int fd, struct str *text)
{
	char buf[4096];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	return n > 0 && str_addn(text, buf, (size_t)n);
}

/* Reads one request into `text`; *ret_line is malloc'ed. False at the end of the connection. */
static bool request_read(int fd, struct str *text, char **ret_line)
{
	const char *end, *length;
	size_t head, body = 0, method, path;

	while (!(end = strstr(text->ptr, "\r\n\r\n"))) {
		if (!receive_more(fd, text))
			return false;
	}
	head = (size_t)(end + 4 - text->ptr);
	length = strcasestr(text->ptr, "\r\ncontent-length:");
	if (length && length < end)
		body = strtoul(length + 17, NULL, 10);
	while (text->len < head + body) {
		if (!receive_more(fd, text))
			return false;
	}
	method = strcspn(text->ptr, " ");
	path = strcspn(text->ptr + method + 1, " ");
	*ret_line = xstrndup(text->ptr, method + 1 + path);
	return true;
}

static void request_note(struct fake_http *f, const char *line, const char *text)
{
	struct request *r = xcalloc(1, sizeof(*r));
	r->line = xstrdup(line);
	r->text = xstrdup(text);
	WITH_LOCK(&f->lock);
	r->next = f->requests;
	f->requests = r;
	pthread_cond_broadcast(&f->changed);
}

static struct fake_reply *rule_find(struct fake_http *f, const char *line)
{
	WITH_LOCK(&f->lock);
	for (struct rule *r = f->rules; r; r = r->next) {
		if (!matches(r->reply.on, line) || (r->reply.times && r->used >= r->reply.times))
			continue;
		r->used++;
		return &r->reply;
	}
	f->unexpected++;
	return NULL;
}

static void wait_until_closed(struct conn *c)
{
	char byte;
	while (recv(c->fd, &byte, 1, 0) > 0)
		;
}

static bool stream_is_over(struct conn *c)
{
	char byte;
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	if (poll(&p, 1, 5) > 0 && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return true;
	WITH_LOCK(&c->f->lock);
	return c->stream_over || c->f->stop;
}

static void stream_run(struct conn *c, const struct fake_reply *reply, const char *line)
{
	struct fake_http *f = c->f;
	{
		WITH_LOCK(&f->lock);
		if (reply->body)
			send_chunk(c->fd, reply->body);
		c->streaming = xstrdup(line);
		c->stream_over = false;
		pthread_cond_broadcast(&f->changed);
	}
	while (!stream_is_over(c))
		;
	WITH_LOCK(&f->lock);
	free(TAKE(c->streaming));
	pthread_cond_broadcast(&f->changed);
}

/* Returns false when the connection has to be closed. */
static bool reply_send(struct conn *c, const struct fake_reply *reply, const char *line)
{
	static const struct fake_reply unexpected = { .status = 599,
		                                      .body = "{\"message\":\"unexpected\"}" };
	char *length AUTO(free) = NULL, *head AUTO(free) = NULL;
	const char *body;

	if (!reply)
		reply = &unexpected;
	if (reply->delay_ms) {
		struct timespec nap = { .tv_sec = reply->delay_ms / 1000,
			                .tv_nsec = reply->delay_ms % 1000 * 1000000L };
		nanosleep(&nap, NULL);
	}
	if (reply->hang)
		wait_until_closed(c);
	if (reply->hang || reply->cut)
		return false;
	body = reply->body ? reply->body : "";
	length = reply->stream ? xstrdup("Transfer-Encoding: chunked\r\n")
	                       : xasprintf("Content-Length: %zu\r\n", strlen(body));
	head = xasprintf("HTTP/1.1 %d Fake\r\nContent-Type: %s\r\n%s%s%s\r\n",
	                 reply->status ? reply->status : 200,
	                 reply->type ? reply->type : "application/json", length,
	                 reply->headers ? reply->headers : "",
	                 reply->close ? "Connection: close\r\n" : "");
	send_all(c->fd, head, strlen(head));
	if (reply->stream)
		stream_run(c, reply, line);
	else
		send_all(c->fd, body, strlen(body));
	return !reply->close;
}

static void *conn_run(void *arg)
{
	struct conn *c = arg;
	struct fake_http *f = c->f;
	for (bool more = true; more;) {
		struct str text AUTO(str_clear) = STR_INIT(64 * 1024 * 1024);
		char *line AUTO(free) = NULL;
		struct fake_reply *reply;

		if (!request_read(c->fd, &text, &line))
			break;
		reply = rule_find(f, line);
		request_note(f, line, text.ptr);
		more = reply_send(c, reply, line);
	}
	WITH_LOCK(&f->lock);
	f->open--;
	c->closed = true;
	close(c->fd);
	return NULL;
}

static void conn_start(struct fake_http *f, int fd)
{
	int one = 1;
	struct conn *c = xcalloc(1, sizeof(*c));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->f = f;
	c->fd = fd;
	WITH_LOCK(&f->lock);
	c->next = f->conns;
	f->conns = c;
	f->connections++;
	f->open++;
	if (f->open > f->open_most)
		f->open_most = f->open;
	if (pthread_create(&c->thread, NULL, conn_run, c))
		abort();
}

static void *accept_run(void *arg)
{
	struct fake_http *f = arg;
	for (;;) {
		int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return NULL;
		conn_start(f, fd);
	}
}

/* ---- fake_http.h ---- */

struct fake_http *fake_http_start(void)
{
	struct fake_http *f = xcalloc(1, sizeof(*f));
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(address);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, &attr);
	f->rules_tail = &f->rules;
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(f->listener, (struct sockaddr *)&address, n) || listen(f->listener, 512) ||
	    getsockname(f->listener, (struct sockaddr *)&address, &n))
		abort();
	f->port = ntohs(address.sin_port);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d", f->port);
	if (pthread_create(&f->thread, NULL, accept_run, f))
		abort();
	return f;
}

static void requests_free(struct request *r)
{
	while (r) {
		struct request *next = r->next;
		free(r->line);
		free(r->text);
		free(r);
		r = next;
	}
}

static void rules_free(struct rule *r)
{
	while (r) {
		struct rule *next = r->next;
		free((char *)r->reply.on);
		free((char *)r->reply.headers);
		free((char *)r->reply.type);
		free((char *)r->reply.body);
		free(r);
		r = next;
	}
}

void fake_http_stop(struct fake_http *f)
{
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listener);
	{
		WITH_LOCK(&f->lock);
		f->stop = true;
		for (struct conn *c = f->conns; c; c = c->next)
			if (!c->closed)
				shutdown(c->fd, SHUT_RDWR);
	}
	while (f->conns) {
		struct conn *c = f->conns;
		f->conns = c->next;
		pthread_join(c->thread, NULL);
		free(c);
	}
	requests_free(f->requests);
	rules_free(f->rules);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->changed);
	free(f);
}

int fake_http_port(const struct fake_http *f)
{
	return f->port;
}

const char *fake_http_url(const struct fake_http *f)
{
	return f->url;
}

void fake_http_on(struct fake_http *f, struct fake_reply reply)
{
	struct rule *r = xcalloc(1, sizeof(*r));
	r->reply = reply;
	r->reply.on = xstrdup_or_null(reply.on);
	r->reply.headers = xstrdup_or_null(reply.headers);
	r->reply.type = xstrdup_or_null(reply.type);
	r->reply.body = xstrdup_or_null(reply.body);
	WITH_LOCK(&f->lock);
	*f->rules_tail = r;
	f->rules_tail = &r->next;
}

/* A connection may be sending a reply: rules stay in memory but no longer match. */
void fake_http_forget(struct fake_http *f)
{
	WITH_LOCK(&f->lock);
	for (struct rule *r = f->rules; r; r = r->next)
		r->reply.times = r->used = 1;
}

static unsigned count_locked(struct fake_http *f, const char *pattern)
{
	unsigned n = 0;
	for (struct request *r = f->requests; r; r = r->next)
		n += matches(pattern, r->line);
	return n;
}

unsigned fake_http_count(struct fake_http *f, const char *pattern)
{
	WITH_LOCK(&f->lock);
	return count_locked(f, pattern);
}

unsigned fake_http_unexpected(struct fake_http *f)
{
	WITH_LOCK(&f->lock);
	return f->unexpected;
}

unsigned fake_http_connections(struct fake_http *f)
{
	WITH_LOCK(&f->lock);
	return f->connections;
}

unsigned fake_http_open_most(struct fake_http *f)
{
	WITH_LOCK(&f->lock);
	return f->open_most;
}

char *fake_http_last(struct fake_http *f, const char *pattern)
{
	WITH_LOCK(&f->lock);
	for (struct request *r = f->requests; r; r = r->next)
		if (matches(pattern, r->line))
			return xstrdup(r->text);
	return NULL;
}

static unsigned streams_locked(struct fake_http *f, const char *pattern)
{
	unsigned n = 0;
	for (struct conn *c = f->conns; c; c = c->next)
		n += c->streaming && !c->stream_over && matches(pattern, c->streaming);
	return n;
}

static bool wait_locked(struct fake_http *f, unsigned (*count)(struct fake_http *, const char *),
                        const char *pattern, unsigned n)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_LIMIT_MS / 1000;
	while (count(f, pattern) < n)
		if (pthread_cond_timedwait(&f->changed, &f->lock, &until))
			return count(f, pattern) >= n;
	return true;
}

bool fake_http_wait(struct fake_http *f, const char *pattern, unsigned n)
{
	WITH_LOCK(&f->lock);
	return wait_locked(f, count_locked, pattern, n);
}

bool fake_http_wait_streams(struct fake_http *f, const char *pattern, unsigned n)
{
	WITH_LOCK(&f->lock);
	return wait_locked(f, streams_locked, pattern, n);
}

unsigned fake_http_push(struct fake_http *f, const char *pattern, const char *bytes)
{
	unsigned n = 0;
	WITH_LOCK(&f->lock);
	for (struct conn *c = f->conns; c; c = c->next) {
		if (!c->streaming || c->stream_over || !matches(pattern, c->streaming))
			continue;
		send_chunk(c->fd, bytes);
		n++;
	}
	return n;
}

static void streams_over(struct fake_http *f, const char *pattern, bool properly)
{
	WITH_LOCK(&f->lock);
	for (struct conn *c = f->conns; c; c = c->next) {
		if (!c->streaming || !matches(pattern, c->streaming))
			continue;
		if (properly)
			send_all(c->fd, "0\r\n\r\n", 5);
		else
			shutdown(c->fd, SHUT_RDWR);
		c->stream_over = true;
	}
}

void fake_http_end_streams(struct fake_http *f, const char *pattern)
{
	streams_over(f, pattern, true);
}

void fake_http_cut_streams(struct fake_http *f, const char *pattern)
{
	streams_over(f, pattern, false);
}
