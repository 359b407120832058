/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of all sizes over HTTP/2 from a server that behaves like an API server, usually together
 * with a watch. An answer stalls when libcurl has received all of it and reports that only when
 * other data arrive over the connection; here no other data arrive. Then the request ends at its
 * deadline.
 */
#include "http/http.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/kubeclient/front.h"
#include "test/lib/suite.h"

#define STALLED_MS 8000 /* no operation here takes so long, even on a slow machine */
#define BUFFER 16384    /* of libcurl, unless another size is set */
#define THREADS 8

struct answers_world {
	char dir[64];
	struct front peer;
	struct http *http;
	atomic_bool watching;
};

static bool watch_bytes(void *arg, const char *bytes, size_t n)
{
	struct answers_world *w = arg;
	(void)bytes;
	(void)n;
	w->watching = true;
	return true;
}

static void watch_done(void *arg, struct http_result *result)
{
	(void)arg;
	ck_assert_msg(result->end == HTTP_CANCELLED, "the watch has ended: %s", result->why);
}

static void watch_start(struct answers_world *w)
{
	struct http_request q = { .method = "GET",
		                  .path = "/watch",
		                  .stream = true,
		                  .on_bytes = watch_bytes,
		                  .on_done = watch_done,
		                  .arg = w };
	http_start(w->http, &q);
	while (!w->watching)
		usleep(1000);
}

static void world_start(struct answers_world *w)
{
	struct err err = ERR_INIT;
	char *ca AUTO(free) = NULL;
	char *ca_path AUTO(free) = NULL;
	char *url AUTO(free) = NULL;
	struct http_endpoint e = { .url = NULL };
	*w = (struct answers_world) { .dir = "/tmp/answers-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	certificate_authority(w->dir, "ca");
	certificate(w->dir, "ca", "server", "IP:127.0.0.1");
	w->peer = peer_start(w->dir, "server");
	ca_path = xasprintf("%s/ca.pem", w->dir);
	ck_assert_int_eq(file_read(ca_path, 1 << 20, &ca, NULL, &err), 0);
	url = xasprintf("https://127.0.0.1:%d", w->peer.port);
	e.url = url;
	e.ca = ca;
	ck_assert_msg(http_new(&e, NULL, &w->http, &err) == 0, "%s", err.msg);
}

static void world_stop(struct answers_world *w)
{
	char *command AUTO(free) = xasprintf("rm -r %s", w->dir);
	struct http_stats s = http_stats(w->http);
	ck_assert_uint_eq(s.epochs, 1);
	w->http = http_free(w->http);
	front_stop(&w->peer);
	shell(command);
}

/* Milliseconds that it took. */
static double ask(struct answers_world *w, const char *method, int size, int piece,
                  const char *pauses)
{
	int64_t before = monotonic_ns();
	char *path AUTO(free) = xasprintf("/answer?n=%d&piece=%d&%s", size, piece, pauses);
	struct http_request q = { .method = method, .path = path, .max_body = LIMIT_KUBE_ANSWER };
	struct http_result r;
	http_do(w->http, &q, deadline_in_ms(STALLED_MS), &r);
	ck_assert_msg(r.end == HTTP_ANSWERED, "%s of %d bytes: %s; %zu bytes had come", method,
	              size, r.why, r.body_n);
	ck_assert(r.http2);
	ck_assert_int_eq(r.status, 200);
	ck_assert_uint_eq(r.body_n, (size_t)size);
	free(r.body);
	return (double)(monotonic_ns() - before) / 1e6;
}

/* ---- an answer that is all there when libcurl looks ---- */

static void hold(void *arg)
{
	(void)arg;
	usleep(10000);
}

/*
 * Blocks the engine while the answer arrives: 2 ms after its start; the server answers after 5 ms.
 */
static void *hold_later(void *arg)
{
	struct answers_world *w = arg;
	usleep(2000);
	http_post(w->http, hold, NULL);
	return NULL;
}

static const struct {
	const char *method;
	int piece;
} whole_rows[] = { { "GET", 100 }, { "POST", 100 }, { "GET", 1 << 20 } };

/*
 * The watch comes first in libcurl's list, so it reads data for the others. When an answer's last
 * bytes, which carry its end, do not fit into the buffer, libcurl has to process its end later.
 */
START_TEST(an_answer_of_any_size_ends_beside_a_watch)
{
	struct answers_world w;
	world_start(&w);
	watch_start(&w);
	for (int buffers = 1; buffers <= 4; buffers++) {
		for (int less = 420; less > -20; less -= 20) {
			pthread_t thread;
			ck_assert_int_eq(pthread_create(&thread, NULL, hold_later, &w), 0);
			(void)ask(&w, whole_rows[_i].method, buffers * BUFFER - less,
			          whole_rows[_i].piece, "wait=5000");
			pthread_join(thread, NULL);
		}
	}
	world_stop(&w);
}
END_TEST

/* ---- an answer in two pieces ---- */

/* Blocks the engine before each of its rounds: five times 4 ms. */
struct chain {
	struct http *http;
	atomic_int left; /* 0: the chain is no longer used */
};

static void hold_again(void *arg)
{
	struct chain *chain = arg;
	usleep(4000);
	if (--chain->left > 0)
		http_post(chain->http, hold_again, chain);
}

/*
 * libcurl drops a timer that expires within the millisecond, if the same request had one in the
 * previous round. So each of two consecutive rounds, with a pause between them, receives a piece.
 * The request is sent in the second round; the fifth one receives the end, and nothing calls
 * libcurl again. (A watch would usually hide the fault: when it reads for the request, another
 * timer is set.)
 */
START_TEST(an_answer_ends_when_libcurl_forgets_to_look_for_its_end)
{
	struct answers_world w;
	world_start(&w);
	for (int i = 0; i < 100; i++) {
		struct chain chain = { .http = w.http, .left = 5 };
		http_post(w.http, hold_again, &chain);
		(void)ask(&w, "GET", 200, 100, "wait=6000&pause=4000");
		while (chain.left > 0)
			usleep(1000);
	}
	world_stop(&w);
}
END_TEST

/* ---- at rest ---- */

static unsigned long sleeps_of(const char *task)
{
	char *path AUTO(free) = xasprintf("/proc/self/task/%s/status", task);
	char *status AUTO(free) = NULL;
	const char *line;
	unsigned long n = 0;
	struct err err = ERR_INIT;
	ck_assert_int_eq(file_read(path, 1 << 16, &status, NULL, &err), 0);
	if (strncmp(status, "Name:\thttp\n", 11) != 0)
		return 0;
	line = strstr(status, "\nvoluntary_ctxt_switches:");
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(sscanf(line, "\nvoluntary_ctxt_switches: %lu", &n), 1);
	return n;
}

/* How often the engine's thread has gone to sleep. */
static unsigned long engine_sleeps(void)
{
	unsigned long n = 0;
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	ck_assert_ptr_nonnull(tasks);
	while ((task = readdir(tasks)))
		n += task->d_name[0] == '.' ? 0 : sleeps_of(task->d_name);
	closedir(tasks);
	return n;
}

/* Calling libcurl again after an event must not become an endless loop. */
START_TEST(an_engine_that_waits_for_its_watch_sleeps)
{
	struct answers_world w;
	unsigned long before;
	world_start(&w);
	watch_start(&w);
	(void)ask(&w, "GET", 100, 100, "");
	usleep(200000);
	before = engine_sleeps();
	ck_assert_uint_gt(before, 0);
	usleep(1000000);
	ck_assert_uint_le(engine_sleeps() - before, 5);
	world_stop(&w);
}
END_TEST

/* ---- many slow ones ---- */

#define SLOW_THREADS 50
#define SLOW_FIRST 100   /* answers, until the engine knows their duration */
#define SLOW_COUNTED 150 /* answers behind those */
#define TURN_MS 10       /* of 12.5 that the engine waits between two rounds */
#define SLEEPS_OF_A_TURN 2

struct slow {
	struct answers_world *world;
	atomic_int begun, ended;
	atomic_bool enough;
};

/* All take different times, so that they do not end together. */
static void *slow_thread(void *arg)
{
	struct slow *slow = arg;
	while (!slow->enough) {
		int us = 100000 + slow->begun++ * 7919 % 100000;
		char *wait AUTO(free) = xasprintf("wait=%d", us);
		(void)ask(slow->world, "GET", 100, 100, wait);
		slow->ended++;
	}
	return NULL;
}

static void await_ended(struct slow *slow, int n)
{
	while (slow->ended < n)
		usleep(1000);
}

/* libcurl checks all requests whenever it is called, and few of them end in a millisecond. */
START_TEST(while_many_slow_answers_are_awaited_libcurl_is_called_seldom)
{
	struct answers_world w;
	struct slow slow = { .world = &w };
	pthread_t threads[SLOW_THREADS];
	unsigned long sleeps;
	int64_t ms;
	world_start(&w);
	watch_start(&w);
	for (int i = 0; i < SLOW_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, slow_thread, &slow), 0);
	await_ended(&slow, SLOW_FIRST);
	ms = monotonic_ns() / 1000000;
	sleeps = engine_sleeps();
	await_ended(&slow, SLOW_FIRST + SLOW_COUNTED);
	ms = monotonic_ns() / 1000000 - ms;
	sleeps = engine_sleeps() - sleeps;
	ck_assert_msg(sleeps <= (unsigned long)(ms / TURN_MS + 1) * SLEEPS_OF_A_TURN,
	              "the engine has slept %lu times in %ld ms", sleeps, ms);
	slow.enough = true;
	for (int i = 0; i < SLOW_THREADS; i++)
		pthread_join(threads[i], NULL);
	world_stop(&w);
}
END_TEST

/* ---- many ---- */

struct crowd {
	struct answers_world *world;
	atomic_int next;
	int n;
	int least, most; /* bytes */
	double *took;    /* ms, of each */
};

static void *crowd_thread(void *arg)
{
	struct crowd *crowd = arg;
	for (int i; (i = crowd->next++) < crowd->n;) {
		int size = crowd->least + (int)((long)i * 7919 % (crowd->most - crowd->least + 1));
		crowd->took[i] =
			ask(crowd->world, i % 2 && size < BUFFER ? "POST" : "GET", size, 2000, "");
	}
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int answers_asked_for(void)
{
	const char *text = getenv("ANSWERS");
	uint64_t n = 200;
	struct err err = ERR_INIT;
	ck_assert_msg(!text || parse_u64("ANSWERS", text, &n, &err) == 0, "%s", err.msg);
	ck_assert(n > 0 && n < 1000000);
	return (int)n;
}

static const struct {
	const char *what;
	int least, most;
	int threads;
} crowd_rows[] = {
	{ "objects, 1 at once", 500, 4000, 1 },
	{ "objects, 8 at once", 500, 4000, THREADS },
	{ "short lists, 1 at once", 4000, 150000, 1 },
	{ "pages, 1 at once", 500000, 1000000, 1 },
	{ "pages, 8 at once", 500000, 1000000, THREADS },
	{ "the longest answers", LIMIT_KUBE_ANSWER - 200, LIMIT_KUBE_ANSWER, 2 },
};

START_TEST(of_many_answers_none_is_late)
{
	struct answers_world w;
	struct crowd crowd = { .world = &w,
		               .n = answers_asked_for(),
		               .least = crowd_rows[_i].least,
		               .most = crowd_rows[_i].most };
	pthread_t threads[THREADS];
	world_start(&w);
	watch_start(&w);
	crowd.took = xcalloc((size_t)crowd.n, sizeof(*crowd.took));
	for (int i = 0; i < crowd_rows[_i].threads; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, crowd_thread, &crowd), 0);
	for (int i = 0; i < crowd_rows[_i].threads; i++)
		pthread_join(threads[i], NULL);
	qsort(crowd.took, (size_t)crowd.n, sizeof(*crowd.took), by_time);
	printf("%s: %d, p50 %.1f p99 %.1f p99.9 %.1f longest %.1f ms, %lu connections\n",
	       crowd_rows[_i].what, crowd.n, crowd.took[crowd.n / 2],
	       crowd.took[crowd.n * 99 / 100], crowd.took[(long)crowd.n * 999 / 1000],
	       crowd.took[crowd.n - 1], http_stats(w.http).connections + 1);
	free(crowd.took);
	world_stop(&w);
}
END_TEST

SUITE_TIMEOUT("answers", 600,
              LOOP(an_answer_of_any_size_ends_beside_a_watch, ARRAY_LEN(whole_rows)),
              an_answer_ends_when_libcurl_forgets_to_look_for_its_end,
              an_engine_that_waits_for_its_watch_sleeps,
              while_many_slow_answers_are_awaited_libcurl_is_called_seldom,
              LOOP(of_many_answers_none_is_late, ARRAY_LEN(crowd_rows)));
