/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread accepts connections. Each connection has a thread, which reads one request, waits for
 * the page, sends the answer and ends. Each page is rendered on a separate thread, because
 * rendering may hang in the kernel. Clients that request a page at the same time share one answer.
 *
 * A new connection is always accepted, because only its request shows whether it is a probe. If all
 * connections are in use, evict_locked() frees one. So a client that sends or reads nothing cannot
 * lock out a probe.
 *
 * This file is independent of the pages, which are in web.c.
 */
#include "web/web_server.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "common/wait_queue.h"
#include "web/web_listener.h"
#include "web/web_request.h"

#define LINGER_MS 1000
#define GRACE_MS 50     /* time for a connection to send its request, and to read its answer */
#define REFUSED_MS 1000 /* pause without new connections when descriptors run out */
#define BACKLOG 4096    /* the kernel may permit fewer */
#define PLAIN "text/plain; charset=utf-8"

/* A page takes less than make_ms and stop_ms unless the host hangs. */
static const struct web_tuning defaults = {
	.head_ms = 10000, .send_ms = 30000, .make_ms = 10000, .stop_ms = 6000
};

/* A page and the thread that renders it; guarded by the lock. */
struct maker {
	struct web_server *server;
	const struct web_page *page;
	bool running;
	unsigned made;    /* how often the page was rendered */
	unsigned waiting; /* connections that wait for the answer */
	/* the last answer, kept until the last of these connections has received it */
	struct web_answer answer;
};

/*
 * A connection slot. The connection's thread changes all fields except `cut`, with the lock held,
 * and closes fd with the lock held.
 */
struct connection {
	struct web_server *server;
	int fd;       /* -1: the slot is free */
	bool reading; /* the request is still incomplete */
	/* the maker of the page that it waits for; NULL: it reads or sends */
	const struct maker *maker;
	int64_t since; /* when the current phase began; monotonic ns */
	bool cut;      /* evicted: the connection's thread ends soon */
};

struct web_server {
	const struct web_page *pages;
	size_t n_pages;
	struct maker *makers; /* one per page */
	struct web_tuning tuning;
	struct web_listener listener;
	pthread_mutex_t lock;      /* guards the fields below, and the makers */
	struct wait_queue changed; /* signals a change of any of these fields */
	bool stopping;
	unsigned threads; /* number of threads: the one that accepts, and those of connections */
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

/* ---- pages ---- */

static void *render_page(void *arg)
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
	wait_queue_wake(&m->server->changed);
	return NULL;
}

static bool begin_page_locked(struct maker *m)
{
	assert_locked(&m->server->lock);
	if (!m->running)
		m->running = thread_start(render_page, m) == 0;
	return m->running;
}

/* Returns false if the connection must end without an answer. */
static bool await_page(struct connection *c, struct maker *m, struct web_answer *ret)
{
	struct web_server *s = c->server;
	struct deadline until = deadline_in_ms(s->tuning.make_ms);
	unsigned made;

	WITH_LOCK(&s->lock);
	made = m->made;
	m->waiting++;
	c->maker = m;
	if (begin_page_locked(m))
		while (m->made == made && !c->cut && wait_queue_wait(&s->changed, &s->lock, until))
			;
	ret->status = 503;
	if (m->made != made) {
		ret->status = m->answer.status;
		ret->type = m->answer.type;
		str_addn(&ret->body, m->answer.body.ptr, m->answer.body.len);
	} else if (m->running) {
		str_addf(&ret->body, "generating %s takes too long: reads of the host hang\n",
		         m->page->path);
	} else {
		str_addf(&ret->body, "%s: cannot start a thread\n", m->page->path);
	}
	if (--m->waiting == 0)
		str_clear(&m->answer.body);
	c->maker = NULL;
	c->since = monotonic_ns();
	return !c->cut;
}

static void answer_unknown(const struct web_server *s, struct web_answer *ret)
{
	ret->status = 404;
	str_add(&ret->body, "no such page; the pages are");
	for (size_t i = 0; i < s->n_pages; i++)
		if (*s->pages[i].path)
			str_addf(&ret->body, " %s", s->pages[i].path);
	str_add(&ret->body, "\n");
}

/* Returns like await_page(). */
static bool find_page(struct connection *c, const struct web_request *q, struct web_answer *ret)
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

/* Sets the timeout of the next call. Returns false if the deadline has passed. */
static bool set_timeout(int fd, int option, struct deadline until)
{
	int ms = deadline_left_ms(until);
	struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	return ms && setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t)) == 0;
}

/* Returns <= 0 if the client has closed the connection, or if the deadline has passed. */
static ssize_t receive(int fd, char *buf, size_t n, struct deadline until)
{
	ssize_t got;

	do
		got = set_timeout(fd, SO_RCVTIMEO, until) ? recv(fd, buf, n, 0) : 0;
	while (got < 0 && errno == EINTR);
	return got;
}

static bool send_all(int fd, const struct str *out, struct deadline until)
{
	size_t sent = 0;

	while (sent < out->len && set_timeout(fd, SO_SNDTIMEO, until)) {
		ssize_t n = send(fd, out->ptr + sent, out->len - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		sent += n > 0 ? (size_t)n : 0;
	}
	return sent == out->len;
}

/* Returns 0, the status of a refusal, or -1 if no request arrived. *ret points into `head`. */
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
		n = receive(c->fd, head + n_in, WEB_HEAD_MAX - n_in, until);
		if (n <= 0)
			return -1;
		n_in += (size_t)n;
		rc = web_request_parse(head, n_in, ret, &used);
	}
	return rc;
}

/*
 * Marks the request as complete. If this connection was selected for eviction, it is kept and
 * another one is selected, unless the server stops.
 */
static void end_reading(struct connection *c)
{
	WITH_LOCK(&c->server->lock);
	c->reading = false;
	c->cut = c->server->stopping;
	c->since = monotonic_ns();
	wait_queue_wake(&c->server->changed);
}

static bool web_send_answer(const struct connection *c, const struct web_answer *a, bool head)
{
	struct str out AUTO(str_clear) = STR_INIT(WEB_BODY_MAX + WEB_HEAD_MAX);

	str_addf(&out,
	         "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	         "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
	         "Connection: close\r\n\r\n",
	         a->status, phrase(a->status), a->type, a->body.len,
	         a->status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (!head)
		str_addn(&out, a->body.ptr, a->body.len);
	return send_all(c->fd, &out, deadline_in_ms(c->server->tuning.send_ms));
}

static void web_serve(struct connection *c)
{
	struct web_answer a = answer_new(200);
	struct web_request q = { .head = false };
	char head[WEB_HEAD_MAX];
	int rc = read_request(c, head, &q);
	bool wanted = rc >= 0;
	struct deadline until;

	if (wanted)
		end_reading(c);
	if (rc > 0) {
		a.status = rc;
		str_addf(&a.body, "%d %s\n", rc, phrase(rc));
	} else if (wanted) {
		wanted = find_page(c, &q, &a);
	}
	wanted = wanted && web_send_answer(c, &a, q.head) && shutdown(c->fd, SHUT_WR) == 0;
	str_clear(&a.body);
	/*
	 * Reads the remaining bytes, because unread bytes would make the client's system discard
	 * the answer.
	 */
	until = deadline_in_ms(LINGER_MS);
	while (wanted)
		wanted = receive(c->fd, head, sizeof(head), until) > 0;
}

static void *run_connection(void *arg)
{
	struct connection *c = arg;

	pthread_setname_np(pthread_self(), "web");
	web_serve(c);
	WITH_LOCK(&c->server->lock);
	close(TAKE_FD(c->fd));
	c->server->threads--;
	wait_queue_wake(&c->server->changed);
	return NULL;
}

/* ---- connection slots ---- */

/*
 * Returns true if `a` is evicted before `b`. Connections that send a request or read an answer are
 * evicted first (usually a stalled client), then connections that wait for the page with the most
 * waiters. Among equals, the oldest is first.
 */
static bool is_before(const struct connection *a, const struct connection *b)
{
	unsigned wait_a = a->maker ? a->maker->waiting : UINT_MAX;
	unsigned wait_b = b->maker ? b->maker->waiting : UINT_MAX;

	if (a->cut != b->cut)
		return a->cut;
	return wait_a != wait_b ? wait_a > wait_b : a->since < b->since;
}

/*
 * Cuts one connection at a time and waits until it has ended. A request that has arrived completely
 * is still served, because SHUT_RD keeps the received bytes readable.
 */
static void evict_locked(struct web_server *s)
{
	struct connection *least = &s->connections[0];
	struct deadline due = deadline_never();

	assert_locked(&s->lock);
	for (size_t i = 1; i < WEB_CONNECTIONS; i++)
		if (is_before(&s->connections[i], least))
			least = &s->connections[i];
	if (!least->cut && !least->maker)
		due.at = least->since + GRACE_MS * NS_PER_MS;
	if (!least->cut && (least->maker || deadline_passed(due))) {
		least->cut = true;
		shutdown(least->fd, least->reading ? SHUT_RD : SHUT_RDWR);
		wait_queue_wake(&s->changed);
		due = deadline_never();
	}
	IGNORE_RESULT(wait_queue_wait(&s->changed, &s->lock, due));
}

/* Returns a free slot; NULL if the server stops. */
static struct connection *place_locked(struct web_server *s)
{
	assert_locked(&s->lock);
	for (; !s->stopping; evict_locked(s))
		for (size_t i = 0; i < WEB_CONNECTIONS; i++)
			if (s->connections[i].fd < 0)
				return &s->connections[i];
	return NULL;
}

/* Begins a connection, which owns fd. */
static void begin_connection(struct web_server *s, int fd)
{
	struct connection *c;
	int rc;

	WITH_LOCK(&s->lock);
	c = place_locked(s);
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct connection) {
		.server = s, .fd = fd, .reading = true, .since = monotonic_ns()
	};
	rc = thread_start(run_connection, c);
	if (!rc) {
		s->threads++;
		return;
	}
	close(TAKE_FD(c->fd));
	log_limited(LOG_WARNING, 60, "--http-endpoint: cannot start a thread: %s",
	            strerrordesc_np(rc));
}

/*
 * Returns true if the client has closed the connection without a request, so that a flood of such
 * connections needs no threads.
 */
static bool is_abandoned(int fd)
{
	char c;

	return recv(fd, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void *run_server(void *arg)
{
	struct web_server *s = arg;
	int fd, rc;

	pthread_setname_np(pthread_self(), "web");
	for (;;) {
		fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC);
		rc = errno;
		if (fd >= 0 && is_abandoned(fd))
			close(fd);
		else if (fd >= 0)
			begin_connection(s, fd);
		WITH_LOCK(&s->lock);
		if (s->stopping)
			break;
		if (fd >= 0 || rc == EINTR || rc == ECONNABORTED)
			continue;
		log_limited(LOG_WARNING, 60, "--http-endpoint: cannot accept a connection: %s",
		            strerrordesc_np(rc));
		IGNORE_RESULT(wait_queue_wait(&s->changed, &s->lock, deadline_in_ms(REFUSED_MS)));
	}
	WITH_LOCK(&s->lock);
	s->threads--;
	wait_queue_wake(&s->changed);
	return NULL;
}

/* ---- start and stop ---- */

static struct web_server *release(struct web_server *s)
{
	web_listener_close(&s->listener);
	pthread_mutex_destroy(&s->lock);
	free(s->makers);
	free(s);
	return NULL;
}

static struct web_server *web_server_new(const struct web_page *pages, size_t n_pages,
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
	s->tuning = tuning ? *tuning : defaults;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

int web_server_start(const char *address, const struct web_page *pages, size_t n_pages,
                     const struct web_tuning *tuning, struct web_server **ret, struct err *err)
{
	struct web_server *s = web_server_new(pages, n_pages, tuning);
	int rc;

	*ret = s; /* set before the thread starts, because its pages may use it */
	s->threads = 1;
	if (web_listener_open(&s->listener, address, BACKLOG, err) == 0) {
		rc = thread_start(run_server, s);
		if (rc == 0)
			return 0;
		IGNORE_RESULT(err_sys_of(err, ERR_CALL_TASK, rc, "start a thread"));
	}
	*ret = release(s);
	return err_wrap(err, "--http-endpoint=%s", address);
}

void web_server_make(struct web_server *s, size_t page)
{
	WITH_LOCK(&s->lock);
	IGNORE_RESULT(begin_page_locked(&s->makers[page]));
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

/*
 * Ends all connections. Returns NULL, or a page that is still being rendered because its thread
 * hangs; that thread still uses the server's data.
 */
static const struct maker *end_all(struct web_server *s)
{
	struct deadline until = deadline_in_ms(s->tuning.stop_ms);

	WITH_LOCK(&s->lock);
	s->stopping = true;
	shutdown(s->listener.fd, SHUT_RDWR); /* ends accept4() */
	for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
		s->connections[i].cut = true;
		if (s->connections[i].fd >= 0)
			shutdown(s->connections[i].fd, SHUT_RDWR);
	}
	wait_queue_wake(&s->changed);
	while (s->threads)
		IGNORE_RESULT(wait_queue_wait(&s->changed, &s->lock, deadline_never()));
	while (running_locked(s) && wait_queue_wait(&s->changed, &s->lock, until))
		;
	return running_locked(s);
}

struct web_server *web_server_stop(struct web_server *s)
{
	const struct maker *hung = s ? end_all(s) : NULL;

	if (!hung)
		return s ? release(s) : NULL;
	log_msg(LOG_WARNING, "--http-endpoint: generating %s has not ended for %d ms",
	        *hung->page->path ? hung->page->path : "the gauges of /metrics", s->tuning.stop_ms);
	web_listener_close(&s->listener);
	return s;
}
