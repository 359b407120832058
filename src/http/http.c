/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP engine (http.h has its contract): its thread, and the functions that other threads call.
 * http_call.c has the calls and the epochs of connections, http_expire.c the time limits.
 *
 * Life of a call: http_start() adds it to `incoming`. The thread moves it to `queued` and, while
 * fewer than LIMIT_HTTP_IN_FLIGHT requests are in flight, passes it to libcurl over the current
 * epoch. The call ends with an answer, an error, its deadline, a cancellation or a retirement,
 * always in call_finish().
 *
 * Threads: the engine's thread owns everything except the fields under `lock`. The lock is never
 * held while libcurl or a callback runs.
 */
#include "http/http_engine.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/mem.h"

#define CONNECT_MS 10000
#define SILENCE_MS 12000
/* Admission webhooks may take 10 s each, and mutating webhooks run one after the other. */
#define PATIENCE_MS 25000
#define POLL_MAX_MS 60000
/*
 * libcurl checks each transfer whenever it is called, so a call of libcurl costs 2 us for each
 * request in flight. So the next call is delayed by a part of the time that answers take, in order
 * to handle several events at once; the slower the server, the fewer requests end in a millisecond.
 * With the minimum delay, checking takes at most a tenth of the time; with the maximum delay it
 * takes a two-hundredth, and a longer delay would save little.
 */
#define GATHER_MIN 8                   /* requests in flight */
#define GATHER_PART 8                  /* divisor of the time that an answer takes */
#define GATHER_LEAST_NS INT64_C(20000) /* for each request in flight */
#define GATHER_MOST_NS INT64_C(400000) /* for each request in flight */

/* ---- the thread ---- */

static void http_start_queued(struct http *h)
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

static void apply_endpoint(struct http *h, struct http_endpoint *endpoint)
{
	if (endpoint && !http_endpoint_equal(endpoint, h->current->endpoint))
		epoch_retire(h, "server, trust or client certificate changed", endpoint);
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

/* Takes over the calls and tasks of other threads. Returns false if the thread has to end. */
static bool http_consume_incoming(struct http *h)
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
	apply_endpoint(h, endpoint);
	run_tasks(tasks);
	if (stopped)
		end_calls(h);
	return !leave;
}

static void wait_for_something(struct http *h)
{
	uint64_t count;
	struct deadline alarm = { .at = calls_next_alarm(h, monotonic_ns()) };
	int left = deadline_left_ms(alarm); /* INT_MAX: never */
	transfers_wait(h->current, h->wake, left < POLL_MAX_MS ? left : POLL_MAX_MS);
	if (read(h->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
}

/* Delays the next call of libcurl after the round that began at `last`. */
static void gather(const struct http *h, int64_t last)
{
	int64_t ns = h->answer_ns / GATHER_PART;
	struct timespec until;
	if (h->in_flight <= GATHER_MIN)
		return;
	if (ns < h->in_flight * GATHER_LEAST_NS)
		ns = h->in_flight * GATHER_LEAST_NS;
	if (ns > h->in_flight * GATHER_MOST_NS)
		ns = h->in_flight * GATHER_MOST_NS;
	until = deadline_timespec((struct deadline) { .at = last + ns });
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void perform(struct http *h)
{
	for (struct pool_epoch *ep = h->current; ep; ep = ep->next)
		transfers_perform(ep, call_end);
	epochs_reap(h);
}

static void publish_stats(struct http *h)
{
	unsigned queued = 0, streams = 0;
	for (struct http_call *c = h->queued; c; c = c->next)
		queued++;
	for (struct pool_epoch *ep = h->current; ep; ep = ep->next)
		streams += ep->streams;
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
		(void)http_consume_incoming(h);
	} while (h->queued);
	while (h->current) {
		struct pool_epoch *ep = h->current;
		h->current = ep->next;
		epoch_free(ep);
	}
}

static void *http_engine_thread(void *arg)
{
	struct http *h = arg;
	while (http_consume_incoming(h)) {
		int64_t now = monotonic_ns();
		run_timers(h, now);
		calls_expire(h, now);
		http_start_queued(h);
		perform(h);
		if (!h->in_flight)
			transfers_rest(h->current);
		publish_stats(h);
		wait_for_something(h);
		gather(h, now);
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
 * Starts the thread with all signals blocked, because main waits for them. SIGPIPE of a broken
 * connection then only results in an error code.
 */
static int start_thread(struct http *h, struct err *err)
{
	sigset_t all, before;
	int rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&h->thread, NULL, http_engine_thread, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the HTTP thread");
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
	h->patience_ms = tuning && tuning->patience_ms ? tuning->patience_ms : PATIENCE_MS;
	pthread_mutex_init(&h->lock, NULL);
	h->incoming_tail = &h->incoming;
	h->tasks_tail = &h->tasks;
	h->queued_tail = &h->queued;
	h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoch_start(h, http_endpoint_copy(endpoint));
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

/* ---- one request from a thread that waits for it ---- */

/*
 * On the caller's stack, which is safe because the engine ends each call exactly once, and
 * http_do() does not return earlier. When the caller abandons the call, http_do() tells the engine
 * to cancel it, and still waits for its end, which follows at once.
 */
struct http_waiter {
	sem_t told; /* posted at the end of the call, and by the caller's cancellation */
	atomic_bool done;
	struct http_result *result; /* owned by the engine until done */
};

/* *w is not accessed after sem_post(), because it may be freed then. */
static void waiter_done(void *arg, struct http_result *result)
{
	struct http_waiter *w = arg;
	*w->result = *result;
	result->body = NULL;
	atomic_store(&w->done, true);
	sem_post(&w->told);
}

void http_do(struct http *h, struct http_request *request, struct deadline d,
             struct http_result *ret)
{
	struct http_waiter w = { .result = ret };
	struct http_call *call;
	sem_init(&w.told, 0, 0);
	request->on_done = waiter_done;
	request->arg = &w;
	if (!request->deadline_at || request->deadline_at > d.at)
		request->deadline_at = d.at;
	call = http_start(h, request);
	/* The engine enforces the deadline. */
	sem_wait_deadline(&w.told, (struct deadline) { DEADLINE_NEVER, d.cancel });
	if (!atomic_load(&w.done))
		http_cancel(h, call);
	while (!atomic_load(&w.done))
		sem_wait_until(&w.told, DEADLINE_NEVER);
	sem_destroy(&w.told);
}
