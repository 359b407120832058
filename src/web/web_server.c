/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread accepts. Each connection has a thread, which reads one request, waits for its page,
 * sends the answer and ends. A page is rendered on a thread of its own, because rendering may hang
 * in the kernel. Clients that request a page at the same time share one answer.
 *
 * A new connection is always accepted, since only its request identifies a probe. When all places
 * are taken, the connection of the lowest rank() is cut. So a client that sends or reads nothing
 * cannot keep a probe out.
 *
 * It knows no page: web.c does.
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
#define SEND_MS 30000
#define LINGER_MS 1000
#define MAKE_MS 10000   /* more than any page takes unless the host hangs */
#define STOP_MS 6000    /* pages being made at the end get so long in all: more than any takes */
#define STUCK_MS 100    /* a client that has not taken its answer for so long is slow */
#define GRACE_MS 50     /* a connection has so long for its request before it may be cut */
#define REFUSED_MS 1000 /* no connection is taken for so long when descriptors run out */
#define BACKLOG 4096    /* the kernel may allow less */
#define STACK (256 * 1024)
#define NS_PER_MS INT64_C(1000000)
#define PLAIN "text/plain; charset=utf-8"

enum connection_step {
	READING,   /* the request */
	WAITING,   /* for the page */
	WRITING,   /* the answer */
	LINGERING, /* until the client closes: else its system may discard the answer */
};

/* A place. Its thread changes `step` and `since` under the lock, and closes fd there. */
struct connection {
	struct web_server *server;
	int fd; /* -1: the place is free */
	enum connection_step step;
	int64_t since;             /* when that began; monotonic ns */
	const struct maker *maker; /* WAITING: of its page */
	bool cut;                  /* it is to end */
};

/* A page and the thread that makes it; under the lock. */
struct maker {
	struct web_server *server;
	const struct web_page *page;
	bool running;
	unsigned made;            /* how often */
	unsigned waiting;         /* connections that want the answer */
	struct web_answer answer; /* the last one, until the last of them has it */
};

struct web_server {
	const struct web_page *pages;
	size_t n_pages;
	struct maker *makers; /* one per page */
	struct web_tuning tuning;
	struct web_listener listener;
	int wake; /* eventfd */
	pthread_t thread;
	pthread_mutex_t lock;   /* guards all below, and the makers */
	pthread_cond_t changed; /* a step, a page, a place, or `stopping` */
	bool stopping;
	unsigned open; /* places that are taken */
	struct connection connections[WEB_CONNECTIONS];
};

/* ---- answers ---- */

static const char *phrase(int status)
{
	static const struct {
		int status;
		const char *phrase;
	} rows[] = {
		{ 200, "OK" },
		{ 400, "Bad Request" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 431, "Request Header Fields Too Large" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].phrase;
	return "Error";
}

static struct web_answer answer_new(int status)
{
	struct web_answer a = { .status = status, .type = PLAIN };

	str_init(&a.body, WEB_BODY_MAX);
	return a;
}

static void print_answer(const struct web_answer *a, bool head, struct str *ret)
{
	str_addf(ret,
	         "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	         "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
	         "Connection: close\r\n\r\n",
	         a->status, phrase(a->status), a->type, a->body.len,
	         a->status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (!head)
		str_addn(ret, a->body.ptr, a->body.len);
}

/* ---- threads ---- */

static int start_thread(pthread_t *thread, bool detached, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return rc;
}

/* ---- pages ---- */

static void *make(void *arg)
{
	struct maker *m = arg;
	struct web_answer a = answer_new(200);

	m->page->make(m->page->arg, &a);
	WITH_LOCK(&m->server->lock);
	str_clear(&m->answer.body);
	m->answer = a;
	if (!m->waiting)
		str_clear(&m->answer.body);
	m->made++;
	m->running = false;
	pthread_cond_broadcast(&m->server->changed);
	return NULL;
}

static bool begin_making_locked(struct maker *m)
{
	pthread_t ignored;

	assert_locked(&m->server->lock);
	if (!m->running)
		m->running = start_thread(&ignored, true, make, m) == 0;
	return m->running;
}

static bool wait_locked(struct web_server *s, struct deadline until)
{
	struct timespec ts = deadline_timespec(until);

	assert_locked(&s->lock);
	return !pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &ts);
}

/* Hands the page over: a copy while others want it. */
static void take_made_locked(struct maker *m, struct web_answer *ret)
{
	assert_locked(&m->server->lock);
	ret->status = m->answer.status;
	ret->type = m->answer.type;
	if (m->waiting == 1) {
		ret->body = m->answer.body;
		str_init(&m->answer.body, WEB_BODY_MAX);
	} else {
		str_addn(&ret->body, m->answer.body.ptr, m->answer.body.len);
	}
}

/* False: the connection is to end without an answer. */
static bool await_page(struct connection *c, struct maker *m, struct web_answer *ret)
{
	struct web_server *s = c->server;
	struct deadline until = deadline_in_ms(s->tuning.make_ms);
	unsigned made;

	WITH_LOCK(&s->lock);
	made = m->made;
	m->waiting++;
	c->maker = m;
	if (begin_making_locked(m))
		while (m->made == made && !c->cut && !s->stopping && wait_locked(s, until))
			;
	ret->status = 503;
	if (m->made != made)
		take_made_locked(m, ret);
	else if (m->running)
		str_addf(&ret->body,
		         "%s is being made for too long: the host hangs where it looks\n",
		         m->page->path);
	else
		str_addf(&ret->body, "%s: no thread can be started\n", m->page->path);
	m->waiting--;
	c->maker = NULL;
	return m->made != made || !(c->cut || s->stopping);
}

static void answer_unknown(const struct web_server *s, struct web_answer *ret)
{
	ret->status = 404;
	str_add(&ret->body, "there is no such page; there are");
	for (size_t i = 0; i < s->n_pages; i++)
		if (*s->pages[i].path)
			str_addf(&ret->body, " %s", s->pages[i].path);
	str_add(&ret->body, "\n");
}

/* As await_page(). */
static bool answer(struct connection *c, const struct web_request *q, struct web_answer *ret)
{
	const struct web_server *s = c->server;

	for (size_t i = 0; i < s->n_pages; i++)
		if (strlen(s->pages[i].path) == q->path_n &&
		    memcmp(s->pages[i].path, q->path, q->path_n) == 0)
			return await_page(c, &s->makers[i], ret);
	answer_unknown(s, ret);
	return true;
}

/* ---- a connection ---- */

static void set_step(struct connection *c, enum connection_step step)
{
	WITH_LOCK(&c->server->lock);
	if (c->step == READING) /* its request has come after all: another one is cut */
		c->cut = false;
	c->step = step;
	c->since = monotonic_ns();
	pthread_cond_broadcast(&c->server->changed);
}

/* False: the time is over. */
static bool wait_for(const struct connection *c, short events, struct deadline until)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	int rc;

	do
		rc = poll(&p, 1, deadline_left_ms(until));
	while (rc < 0 && errno == EINTR);
	return rc > 0;
}

static bool is_transient(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* 0, the status of a refusal, or -1: no request came. *ret points into `head`. */
static int read_request(const struct connection *c, char head[WEB_HEAD_MAX],
                        struct web_request *ret)
{
	struct deadline until = deadline_in_ms(c->server->tuning.head_ms);
	size_t n_in = 0, used;
	int rc = WEB_MORE;
	ssize_t n;

	while (rc == WEB_MORE) {
		if (n_in == WEB_HEAD_MAX)
			return 431;
		if (!wait_for(c, POLLIN, until))
			return -1;
		n = recv(c->fd, head + n_in, WEB_HEAD_MAX - n_in, MSG_DONTWAIT);
		if (is_transient(n))
			continue;
		if (n <= 0)
			return -1;
		n_in += (size_t)n;
		rc = web_request_parse(head, n_in, ret, &used);
	}
	return rc;
}

static bool send_all(const struct connection *c, const struct str *out)
{
	struct deadline until = deadline_in_ms(c->server->tuning.send_ms);
	size_t sent = 0;
	ssize_t n;

	while (sent < out->len) {
		n = send(c->fd, out->ptr + sent, out->len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && !(is_transient(n) && wait_for(c, POLLOUT, until)))
			return false;
		sent += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Reads what else the client sends: unread bytes would make its system discard the answer. */
static void linger(struct connection *c, char buf[WEB_HEAD_MAX])
{
	struct deadline until = deadline_in_ms(LINGER_MS);
	ssize_t n = 1;

	set_step(c, LINGERING);
	if (shutdown(c->fd, SHUT_WR))
		return;
	while ((n > 0 || is_transient(n)) && wait_for(c, POLLIN, until))
		n = recv(c->fd, buf, WEB_HEAD_MAX, MSG_DONTWAIT);
}

static void serve(struct connection *c)
{
	struct web_answer a = answer_new(200);
	struct web_request q = { .head = false };
	struct str out = STR_INIT(WEB_BODY_MAX + WEB_HEAD_MAX);
	char head[WEB_HEAD_MAX];
	int rc = read_request(c, head, &q);
	bool wanted = rc >= 0;

	if (wanted)
		set_step(c, WAITING);
	if (rc > 0) {
		a.status = rc;
		str_addf(&a.body, "%d %s\n", rc, phrase(rc));
	} else if (wanted) {
		wanted = answer(c, &q, &a);
	}
	if (wanted) {
		print_answer(&a, q.head, &out);
		set_step(c, WRITING);
	}
	str_clear(&a.body);
	if (wanted && send_all(c, &out))
		linger(c, head);
	str_clear(&out);
}

static void *run_connection(void *arg)
{
	struct connection *c = arg;

	pthread_setname_np(pthread_self(), "web");
	serve(c);
	WITH_LOCK(&c->server->lock);
	close(TAKE_FD(c->fd));
	c->server->open--;
	pthread_cond_broadcast(&c->server->changed);
	return NULL;
}

/* ---- places ---- */

/*
 * The lowest is cut first. An answer that goes out is hardly ever seen here, since the system's
 * buffers take it at once; nor is a page that one client waits for, unless it hangs.
 */
static int rank(const struct connection *c)
{
	switch (c->step) {
	case LINGERING: /* it has its answer */
		return 0;
	case WRITING:
		return monotonic_ns() - c->since >= STUCK_MS * NS_PER_MS ? 1 : 4;
	case READING:
		return 2;
	case WAITING:
		break;
	}
	return c->maker && c->maker->waiting > 1 ? 3 : 5;
}

static bool is_before(const struct connection *a, const struct connection *b)
{
	return rank(a) < rank(b) || (rank(a) == rank(b) && a->since < b->since);
}

/* A request that has come whole is served all the same: shutdown() leaves what can be read. */
static void cut_locked(struct connection *c)
{
	assert_locked(&c->server->lock);
	c->cut = true;
	shutdown(c->fd, c->step == READING ? SHUT_RD : SHUT_RDWR);
	pthread_cond_broadcast(&c->server->changed);
}

/* When it may be cut: a request that is on its way is not far behind its connection. */
static int64_t due(const struct connection *c)
{
	return c->step == READING ? c->since + GRACE_MS * NS_PER_MS : 0;
}

/* A free place; NULL: the server stops. One connection at a time is cut, until a place is free. */
static struct connection *place_locked(struct web_server *s)
{
	assert_locked(&s->lock);
	while (!s->stopping) {
		struct connection *least = NULL;
		bool ending = false;

		for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
			struct connection *c = &s->connections[i];

			if (c->fd < 0)
				return c;
			ending |= c->cut;
			if (!least || is_before(c, least))
				least = c;
		}
		if (!ending && due(least) <= monotonic_ns())
			cut_locked(least);
		wait_locked(s, (struct deadline) { .at = least->cut || ending ? DEADLINE_NEVER
		                                                              : due(least) });
	}
	return NULL;
}

/* Takes over fd. */
static void begin_connection(struct web_server *s, int fd)
{
	struct connection *c;
	pthread_t ignored;
	int rc = 0;

	WITH_LOCK(&s->lock);
	c = place_locked(s);
	if (c) {
		*c = (struct connection) { .server = s, .fd = fd, .since = monotonic_ns() };
		rc = start_thread(&ignored, true, run_connection, c);
	}
	if (c && !rc) {
		s->open++;
		return;
	}
	close(fd);
	if (rc) {
		c->fd = -1;
		log_limited(LOG_WARNING, 60, "--http-endpoint: no thread can be started: %s",
		            strerrordesc_np(rc));
	}
}

/* ---- the thread that accepts ---- */

/* Returns how long no connection is to be taken, in ms. */
static int accept_one(struct web_server *s)
{
	int fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	char c;

	if (fd >= 0 && recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0) { /* closed already */
		close(fd);
		return 0;
	}
	if (fd >= 0) {
		begin_connection(s, fd);
		return 0;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return 0;
	log_limited(LOG_WARNING, 60, "--http-endpoint: no connection can be taken: %s",
	            strerrordesc_np(errno));
	return REFUSED_MS;
}

static void *run(void *arg)
{
	struct web_server *s = arg;
	struct pollfd fds[] = { { .fd = s->wake, .events = POLLIN }, { .events = POLLIN } };
	int refused_ms = 0;

	pthread_setname_np(pthread_self(), "web");
	while (!fds[0].revents) {
		fds[1].fd = refused_ms ? -1 : s->listener.fd;
		if (poll(fds, ARRAY_LEN(fds), refused_ms ? refused_ms : -1) >= 0)
			refused_ms = fds[1].revents ? accept_one(s) : 0;
	}
	return NULL;
}

/* ---- start and stop ---- */

static struct web_server *release(struct web_server *s)
{
	web_listener_close(&s->listener);
	if (s->wake >= 0)
		close(s->wake);
	pthread_cond_destroy(&s->changed);
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
		s->makers[i] = (struct maker) { .server = s,
			                        .page = &pages[i],
			                        .answer = answer_new(200) };
	for (size_t i = 0; i < WEB_CONNECTIONS; i++)
		s->connections[i].fd = -1;
	s->tuning.head_ms = ms_or(tuning ? tuning->head_ms : 0, HEAD_MS);
	s->tuning.send_ms = ms_or(tuning ? tuning->send_ms : 0, SEND_MS);
	s->tuning.make_ms = ms_or(tuning ? tuning->make_ms : 0, MAKE_MS);
	s->tuning.stop_ms = ms_or(tuning ? tuning->stop_ms : 0, STOP_MS);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->listener.fd = s->wake = -1;
	return s;
}

static int start(struct web_server *s, const char *address, struct err *err)
{
	int rc;

	if (web_listener_open(&s->listener, address, BACKLOG, err))
		return -1;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		return err_sys(err, errno, "eventfd");
	rc = start_thread(&s->thread, false, run, s);
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
	WITH_LOCK(&s->lock);
	IGNORE_RESULT(begin_making_locked(&s->makers[page]));
}

const char *web_server_address(const struct web_server *s)
{
	return s->listener.text;
}

static const struct maker *running_locked(const struct web_server *s)
{
	for (size_t i = 0; i < s->n_pages; i++)
		if (s->makers[i].running)
			return &s->makers[i];
	return NULL;
}

/* NULL, or a page that is still being rendered: its thread hangs and keeps its data. */
static const struct maker *end_all(struct web_server *s)
{
	struct deadline until = deadline_in_ms(s->tuning.stop_ms);

	WITH_LOCK(&s->lock);
	for (size_t i = 0; i < WEB_CONNECTIONS; i++)
		if (s->connections[i].fd >= 0)
			shutdown(s->connections[i].fd, SHUT_RDWR);
	while (s->open)
		pthread_cond_wait(&s->changed, &s->lock);
	while (running_locked(s) && wait_locked(s, until))
		;
	return running_locked(s);
}

struct web_server *web_server_stop(struct web_server *s)
{
	const struct maker *hung;

	if (!s)
		return NULL;
	{
		WITH_LOCK(&s->lock);
		s->stopping = true;
		pthread_cond_broadcast(&s->changed);
	}
	IGNORE_RESULT(eventfd_write(s->wake, 1));
	pthread_join(s->thread, NULL);
	hung = end_all(s);
	if (!hung)
		return release(s);
	log_msg(LOG_WARNING, "--http-endpoint: what makes %s has not ended for %d ms",
	        *hung->page->path ? hung->page->path : "the gauges of /metrics", s->tuning.stop_ms);
	web_listener_close(&s->listener);
	return s;
}
