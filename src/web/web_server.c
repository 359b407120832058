/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's thread: poll() over the listening socket, an eventfd and up to 64 connections.
 *
 *   READING   waits for a request's head                       WAITING or WRITING
 *   WAITING   the page is being made on its thread             WRITING
 *   WRITING   the answer goes out                              READING or LINGERING
 *   LINGERING what the client still sends is thrown away, so
 *             that its system does not throw the answer away   closed
 *
 * A state that lasts too long ends the connection. Between its thread and the server's a slow page
 * shares `lock`; everything else is the server's thread's own. It knows no page: web.c does.
 */
#include "web/web_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "web/web_listener.h"
#include "web/web_request.h"

#define HEAD_MS 10000
#define IDLE_MS 90000
#define SEND_MS 30000
#define LINGER_MS 1000
#define MAKE_MS 10000   /* more than any page takes unless the host hangs */
#define MAKE_END_S 6    /* pages being made at the end get so long in all: more than any takes */
#define REFUSED_MS 1000 /* no connection is taken for so long when descriptors run out */
#define STACK (256 * 1024)
#define NS_PER_MS INT64_C(1000000)
#define PLAIN "text/plain; charset=utf-8"

enum connection_state { READING, WAITING, WRITING, LINGERING };

struct connection {
	int fd;
	enum connection_state state;
	int64_t until; /* when the state has lasted too long; monotonic ns */
	bool head, close;
	struct maker *maker; /* WAITING */
	size_t n_in;
	struct str out;
	size_t sent;
	char in[WEB_HEAD_MAX];
};

/* A slow page and the thread that makes it. */
struct maker {
	struct web_server *server;
	const struct web_page *page;
	pthread_t thread;
	bool running;             /* the server's thread's own: started and not joined */
	bool ended;               /* under the server's lock: the answer is there */
	struct web_answer answer; /* the thread's until then */
};

struct web_server {
	const struct web_page *pages;
	size_t n_pages;
	struct maker *makers; /* one per page */
	struct web_tuning tuning;
	struct web_listener listener;
	int wake;
	pthread_t thread;
	struct connection *connections[WEB_CONNECTIONS];
	int64_t refused_until; /* no connection is taken until then; monotonic ns */
	pthread_mutex_t lock;  /* guards `ended` of the makers, and stopping */
	bool stopping;
};

/* ---- answers ---- */

static const char *phrase(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 431:
		return "Request Header Fields Too Large";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Error";
	}
}

static int64_t in_ms(int ms)
{
	return monotonic_ns() + ms * NS_PER_MS;
}

static void answer(struct web_server *s, struct connection *c, const struct web_answer *a)
{
	c->state = WRITING;
	c->until = in_ms(s->tuning.send_ms);
	c->sent = 0;
	str_clear(&c->out);
	str_addf(&c->out,
	         "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	         "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s\r\n",
	         a->status, phrase(a->status), a->type, a->body.len,
	         a->status == 405 ? "Allow: GET, HEAD\r\n" : "",
	         c->close ? "Connection: close\r\n" : "");
	if (!c->head)
		str_addn(&c->out, a->body.ptr, a->body.len);
}

static struct web_answer answer_new(void)
{
	struct web_answer a = { .status = 200, .type = PLAIN };

	str_init(&a.body, WEB_BODY_MAX);
	return a;
}

/* A request that cannot be served, and what may come behind it. */
static void refuse(struct web_server *s, struct connection *c, int status)
{
	struct web_answer a = answer_new();

	a.status = status;
	c->close = true;
	str_addf(&a.body, "%d %s\n", status, phrase(status));
	answer(s, c, &a);
	str_clear(&a.body);
}

static void answer_unknown(struct web_server *s, struct connection *c)
{
	struct web_answer a = answer_new();

	a.status = 404;
	str_add(&a.body, "there is no such page; there are");
	for (size_t i = 0; i < s->n_pages; i++)
		if (*s->pages[i].path)
			str_addf(&a.body, " %s", s->pages[i].path);
	str_add(&a.body, "\n");
	answer(s, c, &a);
	str_clear(&a.body);
}

/* Who made the page hangs in the kernel, maybe for ever: its clients must not fill all places. */
static void give_up_page(struct web_server *s, struct connection *c)
{
	struct web_answer a = answer_new();

	a.status = 503;
	str_addf(&a.body, "%s is being made for too long: the host hangs where it looks\n",
	         c->maker->page->path);
	c->maker = NULL;
	c->close = true;
	answer(s, c, &a);
	str_clear(&a.body);
}

/* ---- slow pages ---- */

static void *make(void *arg)
{
	struct maker *m = arg;

	m->page->make(m->page->arg, &m->answer);
	{
		WITH_LOCK(&m->server->lock);
		m->ended = true;
	}
	IGNORE_RESULT(eventfd_write(m->server->wake, 1));
	return NULL;
}

static int start_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	rc = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return rc;
}

static bool begin_making(struct maker *m)
{
	if (m->running)
		return true;
	m->answer = answer_new();
	m->ended = false;
	m->running = start_thread(&m->thread, make, m) == 0;
	return m->running;
}

static bool has_ended(struct maker *m)
{
	WITH_LOCK(&m->server->lock);
	return m->running && m->ended;
}

/* Gives the pages that have been made to those who wait for them. */
static void take_made(struct web_server *s)
{
	for (size_t i = 0; i < s->n_pages; i++) {
		struct maker *m = &s->makers[i];

		if (!has_ended(m))
			continue;
		pthread_join(m->thread, NULL);
		m->running = false;
		for (size_t j = 0; j < WEB_CONNECTIONS; j++)
			if (s->connections[j] && s->connections[j]->maker == m) {
				s->connections[j]->maker = NULL;
				answer(s, s->connections[j], &m->answer);
			}
		str_clear(&m->answer.body);
	}
}

/* ---- requests ---- */

static void serve_page(struct web_server *s, struct connection *c, size_t page)
{
	struct web_answer a;

	if (s->pages[page].slow && begin_making(&s->makers[page])) {
		c->state = WAITING;
		c->maker = &s->makers[page];
		c->until = in_ms(s->tuning.make_ms);
		return;
	}
	if (s->pages[page].slow) {
		refuse(s, c, 503);
		return;
	}
	a = answer_new();
	s->pages[page].make(s->pages[page].arg, &a);
	answer(s, c, &a);
	str_clear(&a.body);
}

static void serve(struct web_server *s, struct connection *c, const struct web_request *q)
{
	c->head = q->head;
	c->close = q->close;
	for (size_t i = 0; i < s->n_pages; i++)
		if (strlen(s->pages[i].path) == q->path_n &&
		    memcmp(s->pages[i].path, q->path, q->path_n) == 0) {
			serve_page(s, c, i);
			return;
		}
	answer_unknown(s, c);
}

/* Serves the request whose head has come, if one has. */
static void take_request(struct web_server *s, struct connection *c)
{
	struct web_request q;
	size_t used = 0;
	int rc = c->n_in ? web_request_parse(c->in, c->n_in, &q, &used) : WEB_MORE;

	if (rc == WEB_MORE && c->n_in == sizeof(c->in))
		rc = 431;
	if (rc == WEB_MORE)
		return;
	if (rc) {
		refuse(s, c, rc);
		return;
	}
	serve(s, c, &q);
	memmove(c->in, c->in + used, c->n_in - used);
	c->n_in -= used;
}

/* ---- connections ---- */

static void connection_free(struct connection *c)
{
	close(c->fd);
	str_clear(&c->out);
	free(c);
}

/* False: it has ended. */
static bool receive(struct web_server *s, struct connection *c)
{
	ssize_t n = recv(c->fd, c->in + c->n_in, sizeof(c->in) - c->n_in, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	if (!c->n_in)
		c->until = in_ms(s->tuning.head_ms);
	c->n_in += (size_t)n;
	take_request(s, c);
	return true;
}

static bool transmit(struct web_server *s, struct connection *c)
{
	ssize_t n = send(c->fd, c->out.ptr + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += (size_t)n;
	if (c->sent < c->out.len)
		return true;
	str_clear(&c->out);
	if (c->close) {
		c->state = LINGERING;
		c->until = in_ms(LINGER_MS);
		return shutdown(c->fd, SHUT_WR) == 0;
	}
	c->state = READING;
	c->until = in_ms(c->n_in ? s->tuning.head_ms : s->tuning.idle_ms);
	take_request(s, c);
	return true;
}

/* False: the client has closed its end too. */
static bool throw_away(struct connection *c)
{
	ssize_t n = recv(c->fd, c->in, sizeof(c->in), 0);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static short events_of(const struct connection *c)
{
	switch (c->state) {
	case READING:
	case LINGERING:
		return POLLIN;
	case WRITING:
		return POLLOUT;
	case WAITING:
		break;
	}
	return 0; /* only that it breaks */
}

static bool move(struct web_server *s, struct connection *c, short ready)
{
	if (c->state == READING && ready & (POLLIN | POLLHUP | POLLERR))
		return receive(s, c);
	if (c->state == WRITING && ready & (POLLOUT | POLLHUP | POLLERR))
		return transmit(s, c);
	if (c->state == LINGERING)
		return throw_away(c);
	return !(ready & (POLLHUP | POLLERR | POLLNVAL));
}

/* A free place; the connection that waits longest for a request gives its own away. */
static struct connection **place(struct web_server *s)
{
	struct connection **oldest = NULL;

	for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
		struct connection *c = s->connections[i];

		if (!c)
			return &s->connections[i];
		if (c->state == READING && (!oldest || c->until < (*oldest)->until))
			oldest = &s->connections[i];
	}
	if (oldest)
		connection_free(TAKE(*oldest));
	return oldest;
}

static void accept_one(struct web_server *s)
{
	struct connection **at = place(s), *c;
	int fd;

	if (!at)
		return; /* none is idle: it waits in the backlog, and this loop for the others */
	fd = accept4(s->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		log_limited(LOG_WARNING, 60, "--http-endpoint: no connection can be taken: %s",
		            strerrordesc_np(errno));
		s->refused_until = in_ms(REFUSED_MS);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	c->fd = fd;
	c->state = READING;
	c->until = in_ms(s->tuning.head_ms);
	str_init(&c->out, WEB_BODY_MAX + WEB_HEAD_MAX);
	*at = c;
}

/* ---- the thread ---- */

/* No connection can be taken now. */
static bool all_busy(const struct web_server *s)
{
	if (s->refused_until > monotonic_ns())
		return true;
	for (size_t i = 0; i < WEB_CONNECTIONS; i++)
		if (!s->connections[i] || s->connections[i]->state == READING)
			return false;
	return true;
}

/* Ends what has lasted too long; returns when the next one has. */
static int64_t expire(struct web_server *s)
{
	int64_t now = monotonic_ns(), next = DEADLINE_NEVER;

	if (s->refused_until > now)
		next = s->refused_until;
	for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
		struct connection *c = s->connections[i];

		if (c && c->until <= now && c->state == WAITING)
			give_up_page(s, c);
		else if (c && c->until <= now)
			connection_free(TAKE(s->connections[i]));
		if (s->connections[i] && s->connections[i]->until < next)
			next = s->connections[i]->until;
	}
	return next;
}

static bool is_stopping(struct web_server *s)
{
	WITH_LOCK(&s->lock);
	return s->stopping;
}

static void poll_once(struct web_server *s)
{
	struct pollfd fds[WEB_CONNECTIONS + 2] = { { .fd = s->wake, .events = POLLIN },
		                                   { .fd = s->listener.fd, .events = POLLIN } };
	eventfd_t ignored;
	struct deadline next = { .at = expire(s) };

	if (all_busy(s))
		fds[1].fd = -1;
	for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
		const struct connection *c = s->connections[i];

		fds[i + 2].fd = c ? c->fd : -1;
		fds[i + 2].events = c ? events_of(c) : 0;
	}
	if (poll(fds, ARRAY_LEN(fds), next.at == DEADLINE_NEVER ? -1 : deadline_left_ms(next)) < 0)
		return;
	for (size_t i = 0; i < WEB_CONNECTIONS; i++)
		if (s->connections[i] && fds[i + 2].revents &&
		    !move(s, s->connections[i], fds[i + 2].revents))
			connection_free(TAKE(s->connections[i]));
	if (fds[0].revents) {
		IGNORE_RESULT(eventfd_read(s->wake, &ignored));
		take_made(s);
	}
	if (fds[1].revents)
		accept_one(s);
}

static void *run(void *arg)
{
	struct web_server *s = arg;

	pthread_setname_np(pthread_self(), "web");
	while (!is_stopping(s))
		poll_once(s);
	for (size_t i = 0; i < WEB_CONNECTIONS; i++)
		if (s->connections[i])
			connection_free(TAKE(s->connections[i]));
	return NULL;
}

/* ---- start and stop ---- */

static struct web_server *release(struct web_server *s)
{
	web_listener_close(&s->listener);
	if (s->wake >= 0)
		close(s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s->makers);
	free(s);
	return NULL;
}

static int ms_or(int ms, int otherwise)
{
	return ms ? ms : otherwise;
}

static struct web_server *server_new(const struct web_page *pages, size_t n_pages,
                                     const struct web_tuning *tuning)
{
	struct web_server *s = xcalloc(1, sizeof(*s));

	s->pages = pages;
	s->n_pages = n_pages;
	s->makers = xcalloc(n_pages, sizeof(*s->makers));
	for (size_t i = 0; i < n_pages; i++)
		s->makers[i] = (struct maker) { .server = s, .page = &pages[i] };
	s->tuning.head_ms = ms_or(tuning ? tuning->head_ms : 0, HEAD_MS);
	s->tuning.idle_ms = ms_or(tuning ? tuning->idle_ms : 0, IDLE_MS);
	s->tuning.send_ms = ms_or(tuning ? tuning->send_ms : 0, SEND_MS);
	s->tuning.make_ms = ms_or(tuning ? tuning->make_ms : 0, MAKE_MS);
	pthread_mutex_init(&s->lock, NULL);
	s->listener.fd = s->wake = -1;
	return s;
}

static int start(struct web_server *s, const char *address, struct err *err)
{
	int rc;

	if (web_listener_open(&s->listener, address, WEB_CONNECTIONS, err))
		return -1;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		return err_sys(err, errno, "eventfd");
	rc = start_thread(&s->thread, run, s);
	return rc ? err_sys(err, rc, "start a thread") : 0;
}

int web_server_start(const char *address, const struct web_page *pages, size_t n_pages,
                     const struct web_tuning *tuning, struct web_server **ret, struct err *err)
{
	struct web_server *s = server_new(pages, n_pages, tuning);

	*ret = s; /* before the thread, whose pages may use it */
	if (start(s, address, err)) {
		*ret = release(s);
		return err_wrap(err, "--http-endpoint=%s", address);
	}
	return 0;
}

void web_server_make(struct web_server *s, size_t page)
{
	IGNORE_RESULT(begin_making(&s->makers[page]));
}

const char *web_server_address(const struct web_server *s)
{
	return s->listener.text;
}

/* False: who makes the page hangs in the kernel, and keeps what it needs. */
static bool end_making(struct maker *m, const struct timespec *until)
{
	if (!m->running)
		return true;
	if (pthread_timedjoin_np(m->thread, NULL, until)) {
		log_msg(LOG_WARNING, "--http-endpoint: who makes %s has not ended for %d s",
		        *m->page->path ? m->page->path : "the gauges of /metrics", MAKE_END_S);
		web_listener_close(&m->server->listener);
		return false;
	}
	str_clear(&m->answer.body);
	return true;
}

struct web_server *web_server_stop(struct web_server *s)
{
	struct timespec until;

	if (!s)
		return NULL;
	{
		WITH_LOCK(&s->lock);
		s->stopping = true;
	}
	IGNORE_RESULT(eventfd_write(s->wake, 1));
	pthread_join(s->thread, NULL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += MAKE_END_S;
	for (size_t i = 0; i < s->n_pages; i++)
		if (!end_making(&s->makers[i], &until))
			return s;
	return release(s);
}
