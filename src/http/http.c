/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP engine (see http.h for what it promises): what is sent when, and how long it may take.
 *
 * Life of a call: http_start() puts it on `incoming`. The thread moves it to `queued` and, when
 * fewer than LIMIT_HTTP_IN_FLIGHT requests are out, hands it to libcurl over the current
 * generation. It ends by an answer, an error, its deadline, a cancellation or a retirement, always
 * in call_finish().
 *
 * Threads: the engine's thread owns everything but the fields under `lock`. The lock is never held
 * while libcurl or a callback runs.
 *
 * Why generations: libcurl never gives up a peer that acknowledges bytes but never answers, least
 * of all while a watch keeps the connection in use. A request is given up when its own connection
 * brings nothing for silence_ms (change_silence_ms if it is no GET): behind one address there may
 * be a server that lives and one that does not, and what the first sends says nothing about the
 * second.
 */
#include "http/http_curl.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"

#define CONNECT_MS 10000
#define SILENCE_MS 12000
/* Admission webhooks take 10 s each by default, those that change objects one after the other. */
#define CHANGE_SILENCE_MS 25000
#define POLL_MAX_MS 60000

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct http {
	pthread_t thread;
	int wake; /* eventfd */
	int connect_ms, silence_ms, change_silence_ms;

	pthread_mutex_t lock; /* never held while libcurl or a callback runs */
	struct http_call *incoming, **incoming_tail; /* this block is under lock */
	struct task *tasks, **tasks_tail;
	struct http_endpoint *new_endpoint;
	bool stopped; /* http_stop() was called */
	bool leave;   /* the thread is to end */
	struct http_stats stats;

	/* The engine's thread only. */
	struct http_call *queued, **queued_tail;
	struct http_call *active;
	struct generation *current; /* head of the list; behind it those that were retired */
	struct http_timer *timers;  /* by time */
	unsigned in_flight;
};

/* ---- generations ---- */

static void generation_start(struct http *h, struct http_endpoint *endpoint)
{
	struct generation *g = generation_new(endpoint, h->connect_ms);
	g->next = h->current;
	h->current = g;
	WITH_LOCK(&h->lock);
	h->stats.generations++;
}

static void call_end(struct http_call *c, enum http_end end, const char *why);

static void call_requeue(struct http *h, struct http_call *c);

/*
 * New calls go over fresh connections, and so do those for which there was none yet. Open streams
 * end now, open requests run to their end.
 */
static void generation_retire(struct http *h, const char *why, struct http_endpoint *endpoint)
{
	struct generation *old = h->current;
	if (!endpoint)
		endpoint = http_endpoint_copy(old->endpoint);
	log_limited(LOG_INFO, 10, "connections to %s are replaced: %s", endpoint->url, why);
	generation_start(h, endpoint);
	for (struct http_call *c = h->active, *next; c; c = next) {
		next = c->next;
		if (c->generation == old && c->q.stream)
			call_end(c, HTTP_RETIRED, why);
		else if (c->generation == old && !transfer_is_sent(c))
			call_requeue(h, c);
	}
}

static void generations_reap(struct http *h)
{
	for (struct generation **at = &h->current->next; *at;) {
		struct generation *g = *at;
		if (g->requests + g->streams > 0) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		generation_free(g);
	}
}

/* ---- calls ---- */

static void call_free(struct http_call *c)
{
	if (c->q.bearer)
		explicit_bzero((char *)c->q.bearer, strlen(c->q.bearer));
	free((char *)c->q.method);
	free((char *)c->q.path);
	free((char *)c->q.content_type);
	free((char *)c->q.body);
	free((char *)c->q.accept);
	free((char *)c->q.user_agent);
	free((char *)c->q.bearer);
	str_clear(&c->body);
	free(c);
}

static struct http_call *call_new(struct http *h, const struct http_request *q)
{
	struct http_call *c = xcalloc(1, sizeof(*c));
	c->http = h;
	c->q = *q;
	c->q.method = xstrdup(q->method);
	c->q.path = xstrdup(q->path);
	c->q.content_type = xstrdup_or_null(q->content_type);
	c->q.body = q->body ? xstrndup(q->body, q->body_n) : NULL;
	c->q.accept = xstrdup_or_null(q->accept);
	c->q.user_agent = xstrdup_or_null(q->user_agent);
	c->q.bearer = xstrdup_or_null(q->bearer);
	if (!c->q.deadline_at)
		c->q.deadline_at = DEADLINE_NEVER;
	str_init(&c->body, q->max_body);
	return c;
}

static void active_remove(struct http *h, struct http_call *c)
{
	struct http_call **at = &h->active;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

/* Takes the call back from libcurl and fills in what is known of the answer. */
static void call_detach(struct http *h, struct http_call *c, struct http_result *result)
{
	struct generation *g = c->generation;
	unsigned connects = transfer_end(c, result);
	active_remove(h, c);
	if (c->q.stream) {
		g->streams--;
		generation_limit(g);
	} else {
		g->requests--;
		h->in_flight--;
	}
	if (result->end == HTTP_ANSWERED)
		generation_heard(g, monotonic_ns());
	WITH_LOCK(&h->lock);
	h->stats.connections += connects;
	h->stats.http2 += result->http2;
}

/* Back into the queue, at its head: it was started before all that are there. */
static void call_requeue(struct http *h, struct http_call *c)
{
	struct http_result ignored = { 0 };
	call_detach(h, c, &ignored);
	c->generation = NULL;
	c->curl_error[0] = 0;
	c->next = h->queued;
	h->queued = c;
	if (!c->next)
		h->queued_tail = &c->next;
}

/* Tells the caller, and frees the call, which is on no list any more. */
static void call_finish(struct http_call *c, struct http_result *result, const char *why)
{
	{
		WITH_LOCK(&c->http->lock);
		c->http->stats.requests++;
	}
	if (why)
		snprintf(result->why, sizeof(result->why), "%s", why);
	if (c->body.len > 0) {
		result->body_n = c->body.len;
		result->body = str_take(&c->body);
	}
	c->q.on_done(c->q.arg, result);
	free(result->body);
	call_free(c);
}

static void call_end(struct http_call *c, enum http_end end, const char *why)
{
	struct http_result result = { .end = end };
	if (c->generation)
		call_detach(c->http, c, &result);
	call_finish(c, &result, why);
}

static void call_activate(struct http *h, struct http_call *c)
{
	struct generation *g = h->current;
	c->generation = g;
	c->last_byte = monotonic_ns();
	c->next = h->active;
	h->active = c;
	if (c->q.stream) {
		g->streams++;
		generation_limit(g);
	} else {
		g->requests++;
		h->in_flight++;
		if (!g->owed)
			generation_heard(g, c->last_byte);
	}
	transfer_start(c);
}

/* ---- time ---- */

/* A request has ended without an answer: retires the generation if nothing else came either. */
static void judge_silence(struct http *h, const struct generation *g, int64_t now)
{
	if (g == h->current && g->owed && now - g->owed_since >= h->silence_ms * INT64_C(1000000))
		generation_retire(h, "requests get no answer", NULL);
}

/* Detached first: the retirement would put it back into the queue if it was never sent. */
static void call_give_up(struct http *h, struct http_call *c, enum http_end end, const char *why)
{
	struct http_result result = { .end = end };
	if (c->generation)
		call_detach(h, c, &result);
	if (c->generation && !c->q.stream)
		judge_silence(h, c->generation, monotonic_ns());
	call_finish(c, &result, why);
}

static bool is_cancelled(struct http *h, struct http_call *c)
{
	WITH_LOCK(&h->lock);
	return c->cancelled;
}

static bool is_silent(const struct http_call *c, int64_t now)
{
	return c->generation && c->q.stream && c->q.silence_ms > 0 &&
	       now - c->last_byte >= c->q.silence_ms * INT64_C(1000000);
}

/* When a request that was sent is given up because its connection brings nothing. */
static int64_t hung_at(struct http *h, struct http_call *c)
{
	int silence_ms = str_eq(c->q.method, "GET") ? h->silence_ms : h->change_silence_ms;
	if (!c->generation || c->q.stream || !transfer_is_sent(c))
		return DEADLINE_NEVER;
	return transfer_heard(c) + silence_ms * INT64_C(1000000);
}

static void call_cut(struct http *h, struct http_call *c)
{
	if (c->generation == h->current)
		generation_retire(h, "requests get no answer", NULL);
	call_end(c, HTTP_CUT, "no answer, and nothing else came over its connection");
}

/* True when calls were ended, so that the list has changed. */
static bool expire_one(struct http *h, struct http_call *c, int64_t now)
{
	if (is_cancelled(h, c))
		call_give_up(h, c, HTTP_CANCELLED, "cancelled");
	else if (now >= c->q.deadline_at)
		call_give_up(h, c, HTTP_DEADLINE, "no answer in time");
	else if (now >= hung_at(h, c))
		call_cut(h, c);
	else if (is_silent(c, now) && c->generation == h->current)
		generation_retire(h, "a watch has gone silent", NULL);
	else if (is_silent(c, now))
		call_end(c, HTTP_RETIRED, "silent");
	else
		return false;
	return true;
}

static void expire_queued(struct http *h, int64_t now)
{
	for (struct http_call **at = &h->queued; *at;) {
		struct http_call *c = *at;
		if (now < c->q.deadline_at && !is_cancelled(h, c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (!*at)
			h->queued_tail = at;
		(void)expire_one(h, c, now);
	}
}

static void expire_active(struct http *h, int64_t now)
{
	for (struct http_call *c = h->active; c;)
		c = expire_one(h, c, now) ? h->active : c->next;
}

/* ---- the thread ---- */

static void start_queued(struct http *h)
{
	for (struct http_call **at = &h->queued; *at;) {
		struct http_call *c = *at;
		if (!c->q.stream && h->in_flight >= LIMIT_HTTP_IN_FLIGHT) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (!*at)
			h->queued_tail = at;
		call_activate(h, c);
	}
}

static void run_timers(struct http *h, int64_t now)
{
	while (h->timers && h->timers->at <= now) {
		struct http_timer *t = h->timers;
		h->timers = t->next;
		t->set = false;
		t->fn(t->arg);
	}
}

static void run_tasks(struct task *tasks)
{
	while (tasks) {
		struct task *t = tasks;
		tasks = t->next;
		t->fn(t->arg);
		free(t);
	}
}

static void take_endpoint(struct http *h, struct http_endpoint *endpoint)
{
	if (endpoint && !http_endpoint_equal(endpoint, h->current->endpoint))
		generation_retire(h, "server, trust or client certificate changed", endpoint);
	else
		http_endpoint_free(endpoint);
}

static void end_calls(struct http *h)
{
	while (h->active)
		call_end(h->active, HTTP_CANCELLED, "the client is being stopped");
	while (h->queued) {
		struct http_call *c = h->queued;
		h->queued = c->next;
		call_end(c, HTTP_CANCELLED, "the client is being stopped");
	}
	h->queued_tail = &h->queued;
}

/* Takes over what other threads have handed in. False: the thread is to end. */
static bool take_incoming(struct http *h)
{
	struct task *tasks;
	struct http_endpoint *endpoint;
	bool leave, stopped;
	{
		WITH_LOCK(&h->lock);
		*h->queued_tail = h->incoming;
		if (h->incoming)
			h->queued_tail = h->incoming_tail;
		h->incoming = NULL;
		h->incoming_tail = &h->incoming;
		tasks = h->tasks;
		h->tasks = NULL;
		h->tasks_tail = &h->tasks;
		endpoint = TAKE(h->new_endpoint);
		leave = h->leave;
		stopped = h->stopped;
	}
	take_endpoint(h, endpoint);
	run_tasks(tasks);
	if (stopped)
		end_calls(h);
	return !leave;
}

static int64_t earliest(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t next_alarm(struct http *h)
{
	int64_t at = h->timers ? h->timers->at : DEADLINE_NEVER;
	for (const struct http_call *c = h->queued; c; c = c->next)
		at = earliest(at, c->q.deadline_at);
	for (struct http_call *c = h->active; c; c = c->next) {
		at = earliest(at, c->q.deadline_at);
		at = earliest(at, hung_at(h, c));
		if (c->q.stream && c->q.silence_ms > 0)
			at = earliest(at, c->last_byte + c->q.silence_ms * INT64_C(1000000));
	}
	return at;
}

static int timeout_ms(struct http *h)
{
	int64_t at = next_alarm(h);
	int left = deadline_left_ms((struct deadline) { .at = at }); /* never: INT_MAX */
	return left < POLL_MAX_MS ? left : POLL_MAX_MS;
}

static void wait_for_something(struct http *h)
{
	uint64_t count;
	transfers_wait(h->current, h->wake, timeout_ms(h));
	if (read(h->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
}

static void perform(struct http *h)
{
	for (struct generation *g = h->current; g; g = g->next)
		transfers_perform(g, call_end);
	generations_reap(h);
}

static void publish_stats(struct http *h)
{
	unsigned queued = 0, streams = 0;
	for (struct http_call *c = h->queued; c; c = c->next)
		queued++;
	for (struct generation *g = h->current; g; g = g->next)
		streams += g->streams;
	WITH_LOCK(&h->lock);
	h->stats.in_flight = h->in_flight;
	h->stats.queued = queued;
	h->stats.streams = streams;
}

/* Repeated because a callback may start a call while the calls are being ended. */
static void end_everything(struct http *h)
{
	do {
		end_calls(h);
		(void)take_incoming(h);
	} while (h->queued);
	while (h->current) {
		struct generation *g = h->current;
		h->current = g->next;
		generation_free(g);
	}
}

static void *engine(void *arg)
{
	struct http *h = arg;
	while (take_incoming(h)) {
		int64_t now = monotonic_ns();
		run_timers(h, now);
		expire_queued(h, now);
		expire_active(h, now);
		start_queued(h);
		perform(h);
		publish_stats(h);
		wait_for_something(h);
	}
	end_everything(h);
	return NULL;
}

/* ---- what http.h declares ---- */

static void wake(struct http *h)
{
	uint64_t one = 1;
	if (write(h->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

/*
 * The thread blocks all signals: main waits for them. SIGPIPE of a broken connection is then only
 * an error code.
 */
static int start_thread(struct http *h, struct err *err)
{
	sigset_t all, before;
	int rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&h->thread, NULL, engine, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_sys(err, rc, "start the HTTP thread");
	pthread_setname_np(h->thread, "http");
	return 0;
}

int http_new(const struct http_endpoint *endpoint, const struct http_tuning *tuning,
             struct http **ret, struct err *err)
{
	struct http *h;
	if (transfer_library(err))
		return -1;
	h = xcalloc(1, sizeof(*h));
	h->connect_ms = tuning && tuning->connect_ms ? tuning->connect_ms : CONNECT_MS;
	h->silence_ms = tuning && tuning->silence_ms ? tuning->silence_ms : SILENCE_MS;
	h->change_silence_ms =
		tuning && tuning->change_silence_ms ? tuning->change_silence_ms : CHANGE_SILENCE_MS;
	pthread_mutex_init(&h->lock, NULL);
	h->incoming_tail = &h->incoming;
	h->tasks_tail = &h->tasks;
	h->queued_tail = &h->queued;
	h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	generation_start(h, http_endpoint_copy(endpoint));
	if (h->wake < 0 ? err_sys(err, errno, "eventfd") : start_thread(h, err)) {
		end_everything(h);
		if (h->wake >= 0)
			close(h->wake);
		free(h);
		return -1;
	}
	*ret = h;
	return 0;
}

struct http *http_free(struct http *h)
{
	if (!h)
		return NULL;
	{
		WITH_LOCK(&h->lock);
		h->leave = true;
	}
	wake(h);
	pthread_join(h->thread, NULL);
	close(h->wake);
	http_endpoint_free(h->new_endpoint);
	pthread_mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

void http_stop(struct http *h)
{
	{
		WITH_LOCK(&h->lock);
		h->stopped = true;
	}
	wake(h);
}

void http_set_endpoint(struct http *h, const struct http_endpoint *endpoint)
{
	{
		WITH_LOCK(&h->lock);
		http_endpoint_free(h->new_endpoint);
		h->new_endpoint = http_endpoint_copy(endpoint);
	}
	wake(h);
}

struct http_call *http_start(struct http *h, const struct http_request *request)
{
	struct http_call *c = call_new(h, request);
	{
		WITH_LOCK(&h->lock);
		*h->incoming_tail = c;
		h->incoming_tail = &c->next;
	}
	wake(h);
	return c;
}

void http_cancel(struct http *h, struct http_call *c)
{
	{
		WITH_LOCK(&h->lock);
		c->cancelled = true;
	}
	wake(h);
}

void http_post(struct http *h, void (*fn)(void *arg), void *arg)
{
	struct task *t = xcalloc(1, sizeof(*t));
	t->fn = fn;
	t->arg = arg;
	{
		WITH_LOCK(&h->lock);
		*h->tasks_tail = t;
		h->tasks_tail = &t->next;
	}
	wake(h);
}

void http_timer_set(struct http *h, struct http_timer *t, int64_t at)
{
	struct http_timer **place = &h->timers;
	http_timer_clear(h, t);
	t->at = at;
	t->set = true;
	while (*place && (*place)->at <= at)
		place = &(*place)->next;
	t->next = *place;
	*place = t;
}

void http_timer_clear(struct http *h, struct http_timer *t)
{
	struct http_timer **place = &h->timers;
	if (!t->set)
		return;
	while (*place != t)
		place = &(*place)->next;
	*place = t->next;
	t->set = false;
}

struct http_stats http_stats(struct http *h)
{
	WITH_LOCK(&h->lock);
	return h->stats;
}
