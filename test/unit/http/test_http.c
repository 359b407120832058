/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP engine against a scripted HTTP/1.1 server. */
#include "http/http.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <glob.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/fake_http.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

static struct http *engine_for(const char *url, const struct http_tuning *tuning)
{
	struct http *h = NULL;
	struct err err = ERR_INIT;
	struct http_endpoint e = { .url = url };
	ck_assert_msg(http_new(&e, tuning, &h, &err) == 0, "%s", err.msg);
	return h;
}

static bool libcurl_is_mapped(void)
{
	char *maps AUTO(free) = NULL;
	struct err err = ERR_INIT;
	ck_assert_int_eq(file_read("/proc/self/maps", 1 << 20, &maps, NULL, &err), 0);
	return strstr(maps, "libcurl") != NULL;
}

/* libcurl loads thirty libraries and 5 MB, which node mode does not need. */
START_TEST(libcurl_is_loaded_with_the_first_engine_only)
{
	struct http *h;
	ck_assert(!libcurl_is_mapped());
	h = engine_for("http://127.0.0.1:1", NULL);
	ck_assert(libcurl_is_mapped());
	http_free(h);
}
END_TEST

START_TEST(a_missing_libcurl_is_named_with_its_package)
{
	struct http *h = NULL;
	struct err err = ERR_INIT;
	struct http_endpoint e = { .url = "http://127.0.0.1:1" };
	glob_t found;
	SKIP_UNLESS_ROOT("a mount namespace without libcurl");
	ck_assert_int_eq(glob("/usr/lib/*/libcurl.so.4", 0, NULL, &found), 0);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		ck_assert_int_eq(mount("/dev/null", found.gl_pathv[i], NULL, MS_BIND, NULL), 0);
	globfree(&found);
	ck_assert_int_eq(http_new(&e, NULL, &h, &err), -1);
	ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
	ck_assert_msg(strstr(err.msg, "Debian package libcurl4") != NULL, "%s", err.msg);
}
END_TEST

static struct http_request request_for(const char *method, const char *path)
{
	return (struct http_request) { .method = method, .path = path, .max_body = 1 << 20 };
}

/* A POST with every part that a request can have. */
static struct http_request whole_request(const char *path)
{
	struct http_request q = request_for("POST", path);
	q.content_type = "application/json";
	q.body = "{\"hello\":true}";
	q.body_n = strlen(q.body);
	q.bearer = "token-1";
	q.user_agent = "snap-csi/1.0";
	q.accept = "application/json";
	return q;
}

static const char *const exempting[] = { "nowhere.invalid", "*", ".invalid", "" };

START_TEST(every_request_goes_to_the_endpoints_proxy)
{
	struct http_request q = request_for("GET", "/a");
	struct fake_http *f = fake_http_start();
	struct http_endpoint e = { .url = "http://nowhere.invalid", .proxy = fake_http_url(f) };
	struct err err = ERR_INIT;
	struct http_result r;
	struct http *h = NULL;

	setenv("NO_PROXY", exempting[_i], 1);
	setenv("no_proxy", exempting[_i], 1);
	ck_assert_int_eq(http_new(&e, NULL, &h, &err), 0);
	fake_http_on(f,
	             (struct fake_reply) { .on = "GET http://nowhere.invalid/a", .status = 207 });
	http_do(h, &q, wait_limit(), &r);
	ck_assert_msg(r.end == HTTP_ANSWERED && r.status == 207, "%d %s", r.status, r.why);
	free(r.body);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(a_request_brings_status_body_and_retry_after)
{
	struct http_request q = whole_request("/a?fieldManager=snap-csi");
	struct http_result r;
	char *seen AUTO(free) = NULL;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	fake_http_on(f, (struct fake_reply) { .on = "POST /a",
	                                      .status = 429,
	                                      .headers = "Retry-After: 7\r\n",
	                                      .body = "{\"x\":1}" });
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.end, HTTP_ANSWERED);
	ck_assert_int_eq(r.status, 429);
	ck_assert_int_eq(r.retry_after_s, 7);
	ck_assert_str_eq(r.body, "{\"x\":1}");
	free(r.body);

	seen = fake_http_last(f, "POST /a?fieldManager=snap-csi");
	ck_assert_ptr_nonnull(seen);
	ck_assert_ptr_nonnull(strstr(seen, "\r\nAuthorization: Bearer token-1\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\nUser-Agent: snap-csi/1.0\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\nContent-Type: application/json\r\n"));
	ck_assert_ptr_nonnull(strstr(seen, "\r\n\r\n{\"hello\":true}"));
	ck_assert_ptr_null(strcasestr(seen, "\r\nExpect:"));
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(retry_after_is_a_number_of_seconds_to_come)
{
	static const struct {
		const char *header;
		int least, most;
	} rows[] = {
		{ "Retry-After: 0\r\n", 0, 0 },
		{ "Retry-After: 3600\r\n", 3600, 3600 },
		{ "Retry-After: -5\r\n", 0, 0 },
		{ "Retry-After: soon\r\n", 0, 0 },
		{ "Retry-After: 9223372036854775807\r\n", 0, 3600 },
		{ "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", 0, 0 },
		{ "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n", 3600, 3600 },
	};
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_request q = request_for("GET", "/a");
		struct http_result r;
		fake_http_forget(f);
		fake_http_on(f, (struct fake_reply) { .on = "GET /a",
		                                      .status = 503,
		                                      .headers = rows[i].header,
		                                      .body = "{}" });
		http_do(h, &q, wait_limit(), &r);
		free(r.body);
		ck_assert_msg(r.retry_after_s >= rows[i].least && r.retry_after_s <= rows[i].most,
		              "%s: %d", rows[i].header, r.retry_after_s);
	}
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(a_server_that_is_away_is_told_from_an_answer_that_was_lost)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *away = engine_for("http://127.0.0.1:1", NULL);
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct http_result r;
	fake_http_on(f, (struct fake_reply) { .on = "POST /cut", .cut = true });

	q = request_for("GET", "/");
	http_do(away, &q, wait_limit(), &r);
	ck_assert_int_eq(r.end, HTTP_NOT_SENT);
	ck_assert_msg(strstr(r.why, "Connection refused") != NULL, "%s", r.why);

	q = request_for("POST", "/cut");
	q.body = "{}";
	q.body_n = 2;
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.end, HTTP_CUT);
	ck_assert_int_eq(r.status, 0);
	ck_assert(r.why[0] != 0);
	http_free(away);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

/*
 * When a reused connection ends without a byte of an answer, libcurl silently repeats the request
 * over a new one. The server may have executed the first request.
 */
START_TEST(a_change_whose_connection_ends_is_not_sent_again_unnoticed)
{
	static const struct {
		const char *method;
		enum http_end end;
		unsigned times;
	} rows[] = {
		{ "GET", HTTP_ANSWERED, 2 },
		{ "POST", HTTP_CUT, 1 },
		{ "PATCH", HTTP_CUT, 1 },
		{ "DELETE", HTTP_CUT, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *on AUTO(free) = xasprintf("%s /cut", rows[i].method);
		struct fake_http *f = fake_http_start();
		struct http *h = engine_for(fake_http_url(f), NULL);
		struct http_request q = request_for("GET", "/a");
		struct http_result r;

		fake_http_on(f, (struct fake_reply) { .on = "GET /a", .body = "{}" });
		fake_http_on(f, (struct fake_reply) { .on = on, .cut = true, .times = 1 });
		fake_http_on(f, (struct fake_reply) { .on = on, .body = "{}" });
		http_do(h, &q, wait_limit(), &r);
		ck_assert_int_eq(r.end, HTTP_ANSWERED);
		free(r.body);
		q = request_for(rows[i].method, "/cut");
		if (i > 0) {
			q.body = "{}";
			q.body_n = 2;
		}
		http_do(h, &q, wait_limit(), &r);
		ck_assert_msg(r.end == rows[i].end, "%s: %d %s", rows[i].method, r.end, r.why);
		ck_assert_msg(fake_http_count(f, on) == rows[i].times, "%s: %u times",
		              rows[i].method, fake_http_count(f, on));
		ck_assert(r.sent && (r.end == HTTP_ANSWERED || strstr(r.why, "was closed")));
		free(r.body);
		http_free(h);
		fake_http_stop(f);
	}
}
END_TEST

START_TEST(a_deadline_ends_a_request_that_hangs)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct http_result r = { .sent = false };
	fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
	q = request_for("GET", "/hang");
	/* On a busy machine the shortest of these times does not suffice to send it. */
	for (int ms = 200; !r.sent; ms *= 2) {
		http_do(h, &q, deadline_in_ms(ms), &r);
		ck_assert_int_eq(r.end, HTTP_DEADLINE);
	}
	http_free(h);
	fake_http_stop(f);
}
END_TEST

static void *cancel_later(void *arg)
{
	usleep(100 * 1000);
	cancel_set(arg);
	return NULL;
}

/* Listens, accepts nothing, and has a backlog of `backlog` connections. */
static int silent_server(int backlog, char url[64], const char *scheme)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	snprintf(url, 64, "%s://127.0.0.1:%d", scheme, ntohs(at.sin_port));
	return fd;
}

static _Atomic bool resolver_hangs;

/*
 * Replaces libc's function, which libcurl calls on a separate thread. Until the flag is cleared it
 * behaves like a resolver whose name server does not answer.
 */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
	__typeof__(&getaddrinfo) real;

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	while (resolver_hangs)
		usleep(10000);
	return real(node, service, hints, ret);
}

static const struct {
	const char *what, *scheme;
	bool full; /* of connections that the server does not accept */
	const char *why;
	bool unresolved;
} unsent[] = {
	{ "a server without an answer to TLS", "https", false,
	  "the server accepted the connection, but not its TLS handshake", false },
	{ "a black hole", "http", true, "the server did not accept the connection", false },
	{ "a black hole with TLS", "https", true, "the server did not accept the connection",
	  false },
	{ "a name server that does not answer", "http", false,
	  "the name of the server could not be resolved", true },
	{ "the same with TLS", "https", false, "the name of the server could not be resolved",
	  true },
};

START_TEST(a_request_that_was_not_sent_in_time_says_what_it_waited_for)
{
	struct http_request q;
	struct http_result r;
	struct http *h;
	char url[64];
	int fd = silent_server(unsent[_i].full ? 0 : 8, url, unsent[_i].scheme),
	    fill[2] = { -1, -1 };
	struct sockaddr_in at;
	socklen_t n = sizeof(at);

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	for (int i = 0; unsent[_i].full && i < 2; i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		IGNORE_RESULT(connect(fill[i], (struct sockaddr *)&at, sizeof(at)));
	}
	resolver_hangs = unsent[_i].unresolved;
	if (unsent[_i].unresolved)
		snprintf(url, sizeof(url), "%s://apiserver.invalid:6443", unsent[_i].scheme);
	h = engine_for(url, NULL);
	/*
	 * On a busy machine the shortest of these times does not suffice to begin the connection.
	 */
	for (int ms = 200; ms < 10000; ms *= 2) {
		q = request_for("GET", "/a");
		http_do(h, &q, deadline_in_ms(ms), &r);
		ck_assert_int_eq(r.end, HTTP_DEADLINE);
		ck_assert(!r.sent);
		if (str_has_prefix(r.why, unsent[_i].why))
			break;
	}
	ck_assert_msg(str_has_prefix(r.why, unsent[_i].why), "%s: %s", unsent[_i].what, r.why);
	resolver_hangs = false;
	http_free(h);
	for (int i = 0; i < 2; i++)
		if (fill[i] >= 0)
			close(fill[i]);
	close(fd);
}
END_TEST

START_TEST(a_cancelled_caller_is_woken_at_once)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct http_result r;
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = deadline_never();
	pthread_t t;
	fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
	d.cancel = &cancel;
	q = request_for("GET", "/hang");
	pthread_create(&t, NULL, cancel_later, &cancel);
	http_do(h, &q, d, &r);
	ck_assert_int_eq(r.end, HTTP_CANCELLED);
	pthread_join(t, NULL);

	q = request_for("GET", "/hang");
	http_do(h, &q, d, &r); /* already cancelled */
	ck_assert_int_eq(r.end, HTTP_CANCELLED);
	cancel_destroy(&cancel);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(a_body_above_the_limit_is_refused)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct http_result r;
	char *big AUTO(free) = xmalloc(5001);
	memset(big, 'x', 5000);
	big[5000] = 0;
	fake_http_on(f, (struct fake_reply) { .on = "GET /big", .body = big });
	q = request_for("GET", "/big");
	q.max_body = 4000;
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.end, HTTP_TOO_LARGE);
	ck_assert_msg(strstr(r.why, "4000 bytes") != NULL, "%s", r.why);
	free(r.body);
	q = request_for("GET", "/big");
	q.max_body = 5000;
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.end, HTTP_ANSWERED);
	ck_assert_uint_eq(r.body_n, 5000);
	free(r.body);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

#define MANY 150
struct many {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned good, ended;
};

static void many_done(void *arg, struct http_result *r)
{
	struct many *m = arg;
	WITH_LOCK(&m->lock);
	m->ended++;
	m->good += r->end == HTTP_ANSWERED && r->status == 200;
	pthread_cond_signal(&m->changed);
}

static void start_many(struct http *h, struct many *m, const char *path, unsigned n)
{
	struct http_request q = request_for("POST", path);
	q.on_done = many_done;
	q.arg = m;
	for (unsigned i = 0; i < n; i++)
		(void)http_start(h, &q);
}

START_TEST(many_parallel_requests_share_few_connections)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct many m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	fake_http_on(f, (struct fake_reply) { .on = "GET /*", .delay_ms = 5, .body = "{}" });
	for (unsigned i = 0; i < MANY; i++) {
		struct http_request q = request_for("GET", "/x");
		q.on_done = many_done;
		q.arg = &m;
		(void)http_start(h, &q);
	}
	{
		WITH_LOCK(&m.lock);
		while (m.ended < MANY)
			pthread_cond_wait(&m.changed, &m.lock);
	}
	ck_assert_uint_eq(m.good, MANY);
	ck_assert_msg(fake_http_open_most(f) <= 8, "%u connections", fake_http_open_most(f));
	http_free(h);
	fake_http_stop(f);
}
END_TEST

/* Eight connections hang; the ninth request gets one when the first eight are abandoned. */
START_TEST(a_request_that_had_to_wait_says_when_it_was_sent)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct many m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct http_request last = request_for("POST", "/hang");
	int64_t before = monotonic_ns();
	struct http_result r;
	fake_http_on(f, (struct fake_reply) { .on = "POST /hang", .hang = true });
	for (unsigned i = 0; i < 8; i++) {
		struct http_request q = request_for("POST", "/hang");
		q.deadline_at = before + 2500 * INT64_C(1000000);
		q.on_done = many_done;
		q.arg = &m;
		(void)http_start(h, &q);
	}
	ck_assert(fake_http_wait(f, "POST /hang", 8));
	http_do(h, &last, deadline_in_ms(5000), &r);
	ck_assert_int_eq(r.end, HTTP_DEADLINE);
	ck_assert(r.sent);
	ck_assert_msg(r.sent_at >= before + 2499 * INT64_C(1000000), "after %" PRId64 " ms",
	              (r.sent_at - before) / 1000000);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

struct stream {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct str bytes;
	bool ended;
	enum http_end end;
	int status;
};

static struct stream stream_new(void)
{
	return (struct stream) { .lock = PTHREAD_MUTEX_INITIALIZER,
		                 .changed = PTHREAD_COND_INITIALIZER,
		                 .bytes = STR_INIT(100000) };
}

static bool stream_bytes(void *arg, const char *bytes, size_t n)
{
	struct stream *s = arg;
	WITH_LOCK(&s->lock);
	str_addn(&s->bytes, bytes, n);
	pthread_cond_signal(&s->changed);
	return true;
}

static void stream_done(void *arg, struct http_result *r)
{
	struct stream *s = arg;
	WITH_LOCK(&s->lock);
	s->ended = true;
	s->end = r->end;
	s->status = r->status;
	pthread_cond_signal(&s->changed);
}

static struct http_request stream_request(struct stream *s, const char *path)
{
	struct http_request q = request_for("GET", path);
	q.stream = true;
	q.on_bytes = stream_bytes;
	q.on_done = stream_done;
	q.arg = s;
	return q;
}

static void stream_wait(struct stream *s, const char *want)
{
	WITH_LOCK(&s->lock);
	while (!s->ended && !(want && strstr(s->bytes.ptr, want)))
		pthread_cond_wait(&s->changed, &s->lock);
}

START_TEST(a_stream_brings_bytes_as_they_come_and_says_how_it_ended)
{
	static const struct {
		const char *what;
		bool cut;
		enum http_end end;
	} rows[] = { { "ended", false, HTTP_ANSWERED }, { "cut", true, HTTP_CUT } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_request q;
		struct fake_http *f = fake_http_start();
		struct http *h = engine_for(fake_http_url(f), NULL);
		struct stream s = stream_new();
		fake_http_on(
			f, (struct fake_reply) { .on = "GET /w", .stream = true, .body = "one\n" });
		q = stream_request(&s, "/w");
		(void)http_start(h, &q);
		stream_wait(&s, "one\n");
		fake_http_push(f, "GET /w", "two\n");
		stream_wait(&s, "two\n");
		if (rows[i].cut)
			fake_http_cut_streams(f, "GET /w");
		else
			fake_http_end_streams(f, "GET /w");
		stream_wait(&s, NULL);
		ck_assert_msg(s.end == rows[i].end, "%s: %d", rows[i].what, s.end);
		str_clear(&s.bytes);
		http_free(h);
		fake_http_stop(f);
	}
}
END_TEST

START_TEST(a_silent_stream_is_retired)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct stream s = stream_new();
	fake_http_on(f, (struct fake_reply) { .on = "GET /w", .stream = true });
	q = stream_request(&s, "/w");
	q.silence_ms = 200;
	(void)http_start(h, &q);
	stream_wait(&s, NULL);
	ck_assert_int_eq(s.end, HTTP_RETIRED);
	ck_assert_uint_eq(http_stats(h).epochs, 2);
	str_clear(&s.bytes);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(a_stream_that_is_not_answered_is_retired_sooner)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct stream s = stream_new();
	fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
	q = stream_request(&s, "/hang");
	q.open_ms = 200;
	q.silence_ms = 60000;
	(void)http_start(h, &q);
	stream_wait(&s, NULL);
	ck_assert_int_eq(s.end, HTTP_RETIRED);
	ck_assert_uint_eq(http_stats(h).epochs, 2);
	str_clear(&s.bytes);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(a_new_endpoint_retires_streams_and_lets_requests_finish)
{
	struct http_request q;
	struct http_request again;
	struct fake_http *a = fake_http_start(), *b = fake_http_start();
	struct http *h = engine_for(fake_http_url(a), NULL);
	struct stream s = stream_new(), slow = stream_new();
	struct http_result r;
	fake_http_on(a, (struct fake_reply) { .on = "GET /w", .stream = true });
	fake_http_on(a, (struct fake_reply) { .on = "GET /slow", .delay_ms = 300, .body = "late" });
	fake_http_on(b, (struct fake_reply) { .on = "GET /x", .body = "new" });
	q = stream_request(&s, "/w");
	(void)http_start(h, &q);
	q = stream_request(&slow, "/slow");
	q.stream = false;
	(void)http_start(h, &q);
	ck_assert(fake_http_wait_streams(a, "GET /w", 1));
	ck_assert(fake_http_wait(a, "GET /slow", 1));

	http_set_endpoint(h, &(struct http_endpoint) { .url = fake_http_url(a) }); /* the same */
	again = request_for("GET", "/x");
	http_set_endpoint(h, &(struct http_endpoint) { .url = fake_http_url(b) });
	http_do(h, &again, wait_limit(), &r);
	ck_assert_str_eq(r.body, "new");
	free(r.body);
	stream_wait(&s, NULL);
	ck_assert_int_eq(s.end, HTTP_RETIRED);
	stream_wait(&slow, NULL);
	ck_assert_int_eq(slow.end, HTTP_ANSWERED);
	ck_assert_uint_eq(http_stats(h).epochs, 2);
	str_clear(&s.bytes);
	str_clear(&slow.bytes);
	http_free(h);
	fake_http_stop(a);
	fake_http_stop(b);
}
END_TEST

START_TEST(requests_without_an_answer_for_long_retire_the_epoch)
{
	static const int silences[] = { NEVER_MS, 250 };
	for (size_t i = 0; i < ARRAY_LEN(silences); i++) {
		struct fake_http *f = fake_http_start();
		struct http *h = engine_for(fake_http_url(f),
		                            &(struct http_tuning) { .silence_ms = silences[i] });
		fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
		for (int n = 0; n < 3 || (i && http_stats(h).epochs == 1); n++) {
			struct http_request q = request_for("GET", "/hang");
			struct http_result r;
			http_do(h, &q, deadline_in_ms(100), &r);
			ck_assert_int_eq(r.end, HTTP_DEADLINE);
		}
		ck_assert(i || http_stats(h).epochs == 1);
		http_free(h);
		fake_http_stop(f);
	}
}
END_TEST

/* A port whose connections are established but never send a byte. */
static int mute_port(int *ret_fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(address);
	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(*ret_fd, (const struct sockaddr *)&address, n), 0);
	ck_assert_int_eq(listen(*ret_fd, 16), 0);
	ck_assert_int_eq(getsockname(*ret_fd, (struct sockaddr *)&address, &n), 0);
	return ntohs(address.sin_port);
}

/* Over TLS nothing of a request is sent before the server has answered the handshake. */
START_TEST(a_request_that_was_never_sent_ends_once_when_its_epoch_is_retired)
{
	int fd AUTO(fd) = -1;
	char *url AUTO(free) = xasprintf("https://127.0.0.1:%d", mute_port(&fd));
	struct http *h = engine_for(url, &(struct http_tuning) { .silence_ms = 1 });
	for (unsigned i = 1; i <= 3; i++) {
		struct http_request q = request_for("GET", "/a");
		struct http_result r;
		http_do(h, &q, deadline_in_ms(400), &r);
		ck_assert_msg(r.end == HTTP_DEADLINE && !r.sent, "%d %s", r.end, r.why);
	}
	ck_assert_uint_eq(http_stats(h).requests, 3);
	ck_assert_uint_eq(http_stats(h).epochs, 4);
	http_free(h);
}
END_TEST

struct pusher {
	struct fake_http *server;
	atomic_bool leave;
};

/* For example another replica's watch: active, over its own connection. */
static void *push_events(void *arg)
{
	struct pusher *p = arg;
	while (!p->leave) {
		fake_http_push(p->server, "GET /w", "event\n");
		usleep(20000);
	}
	return NULL;
}

START_TEST(a_request_over_a_silent_connection_ends_whatever_other_connections_bring)
{
	static const char *const methods[] = { "GET", "POST" };
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct fake_http *f = fake_http_start();
		struct http *h =
			engine_for(fake_http_url(f), &(struct http_tuning) { .silence_ms = 500 });
		struct stream s = stream_new();
		struct pusher pusher = { .server = f };
		struct http_request q = stream_request(&s, "/w");
		struct http_result r;
		pthread_t t;
		fake_http_on(f, (struct fake_reply) { .on = "GET /w", .stream = true });
		fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
		fake_http_on(f, (struct fake_reply) { .on = "POST /hang", .hang = true });
		(void)http_start(h, &q);
		ck_assert(fake_http_wait_streams(f, "GET /w", 1));
		ck_assert_int_eq(pthread_create(&t, NULL, push_events, &pusher), 0);
		q = request_for(methods[i], "/hang");
		http_do(h, &q, wait_limit(), &r);
		ck_assert_msg(r.end == HTTP_CUT && r.sent, "%s: %d %s", methods[i], r.end, r.why);
		ck_assert_uint_eq(http_stats(h).epochs, 2);
		pusher.leave = true;
		pthread_join(t, NULL);
		http_free(h);
		str_clear(&s.bytes);
		fake_http_stop(f);
	}
}
END_TEST

/* Webhooks are called before the answer, one after the other. */
START_TEST(a_patient_request_is_waited_for_longer)
{
	static const struct {
		const char *method;
		bool patient;
		enum http_end end;
	} rows[] = {
		{ "GET", false, HTTP_CUT },
		{ "POST", false, HTTP_CUT },
		{ "POST", true, HTTP_ANSWERED },
		{ "DELETE", true, HTTP_ANSWERED },
	};
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), &(struct http_tuning) { .silence_ms = 200 });
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_request q = request_for(rows[i].method, "/slow");
		struct http_result r;
		char *on AUTO(free) = xasprintf("%s /slow", rows[i].method);
		q.patient = rows[i].patient;
		fake_http_on(f, (struct fake_reply) { .on = on, .delay_ms = 1500, .body = "{}" });
		http_do(h, &q, wait_limit(), &r);
		ck_assert_msg(r.end == rows[i].end, "%s: %d %s", rows[i].method, r.end, r.why);
		free(r.body);
	}
	http_free(h);
	fake_http_stop(f);
}
END_TEST

/* Over HTTP/1.1 they use all permitted connections. */
START_TEST(hung_requests_hold_up_no_others)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), &(struct http_tuning) { .silence_ms = 500 });
	struct many m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct http_request q;
	struct http_result r;
	fake_http_on(f, (struct fake_reply) { .on = "POST /hang", .hang = true });
	fake_http_on(f, (struct fake_reply) { .on = "POST /x", .body = "{}" });
	start_many(h, &m, "/hang", 8);
	ck_assert(fake_http_wait(f, "POST /hang", 8));
	q = request_for("POST", "/x");
	http_do(h, &q, wait_limit(), &r);
	ck_assert_msg(r.end == HTTP_ANSWERED, "%d %s", r.end, r.why);
	free(r.body);
	ck_assert_uint_eq(fake_http_count(f, "POST /x"), 1);
	http_free(h);
	ck_assert_uint_eq(m.ended, 8);
	ck_assert_uint_eq(m.good, 0);
	fake_http_stop(f);
}
END_TEST

/* libcurl's handles serve one request after the other while requests are sequential. */
START_TEST(nothing_of_a_request_is_left_for_the_next_one)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct many m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct http_request q = whole_request("/x?fieldManager=snap-csi");
	char *seen AUTO(free) = NULL;
	struct http_result r;
	fake_http_on(f, (struct fake_reply) { .on = "POST /hang", .hang = true });
	fake_http_on(f, (struct fake_reply) { .on = "POST /x", .status = 201, .body = "{}" });
	fake_http_on(f, (struct fake_reply) { .on = "GET /y", .headers = "X: y\r\n" });
	start_many(h, &m, "/hang", 1);
	ck_assert(fake_http_wait(f, "POST /hang", 1));
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.status, 201);
	free(r.body);
	q = request_for("GET", "/y");
	http_do(h, &q, wait_limit(), &r);
	ck_assert_int_eq(r.status, 200);
	free(r.body);
	seen = fake_http_last(f, "GET /y");
	ck_assert_ptr_nonnull(strstr(seen, "GET /y HTTP/1.1\r\n"));
	ck_assert_ptr_null(strstr(seen, "hello"));
	ck_assert_ptr_null(strcasestr(seen, "\r\nAuthorization:"));
	ck_assert_ptr_null(strcasestr(seen, "\r\nContent-"));
	ck_assert_ptr_null(strcasestr(seen, "\r\nUser-Agent:"));
	ck_assert_ptr_null(strstr(seen, "\r\nAccept: application/json\r\n"));
	http_free(h);
	fake_http_stop(f);
}
END_TEST

/* Of nine requests over eight connections one waits: that creates the last one's handle. */
START_TEST(what_was_sent_with_a_handle_before_is_not_sent_now)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct many m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct http_request q = request_for("POST", "/x");
	struct http_result r;
	fake_http_on(f, (struct fake_reply) { .on = "POST /hang", .hang = true });
	fake_http_on(f, (struct fake_reply) { .on = "POST /x", .delay_ms = 200, .body = "{}" });
	start_many(h, &m, "/hang", 7);
	ck_assert(fake_http_wait(f, "POST /hang", 7));
	start_many(h, &m, "/x", 2);
	WAIT_UNTIL(fake_http_count(f, "POST /x") >= 2);
	while (http_stats(h).in_flight > 7)
		usleep(10000);
	start_many(h, &m, "/hang", 1);
	ck_assert(fake_http_wait(f, "POST /hang", 8));
	http_do(h, &q, deadline_in_ms(300), &r);
	ck_assert_int_eq(r.end, HTTP_DEADLINE);
	ck_assert(!r.sent && !r.sent_at);
	ck_assert_uint_eq(fake_http_count(f, "POST /x"), 2);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

static _Atomic unsigned signals_set;

/* Overrides libc's function for libcurl, too. */
int sigaction(int signal, const struct sigaction *new, struct sigaction *old)
{
	int (*real)(int, const struct sigaction *, struct sigaction *);
	*(void **)&real = dlsym(RTLD_NEXT, "sigaction");
	signals_set += new != NULL;
	return real(signal, new, old);
}

/*
 * The kernel walks over all threads each time a signal becomes ignored, and the driver has
 * thousands. libcurl ignores SIGPIPE around most of its calls, unless told not to.
 */
START_TEST(requests_leave_the_signals_alone)
{
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	unsigned before = signals_set;
	/* The symbol that a library loaded later resolves to. */
	ck_assert_ptr_eq(dlsym(RTLD_DEFAULT, "sigaction"), (void *)(uintptr_t)sigaction);
	fake_http_on(f, (struct fake_reply) { .on = "GET /x", .body = "{}" });
	for (int i = 0; i < 10; i++) {
		struct http_request q = request_for("GET", "/x");
		struct http_result r;
		http_do(h, &q, wait_limit(), &r);
		ck_assert_int_eq(r.status, 200);
		free(r.body);
	}
	ck_assert_uint_eq(signals_set, before);
	http_free(h);
	fake_http_stop(f);
}
END_TEST

START_TEST(stopping_ends_what_is_open)
{
	struct http_request q;
	struct fake_http *f = fake_http_start();
	struct http *h = engine_for(fake_http_url(f), NULL);
	struct stream s = stream_new(), hang = stream_new();
	fake_http_on(f, (struct fake_reply) { .on = "GET /w", .stream = true });
	fake_http_on(f, (struct fake_reply) { .on = "GET /hang", .hang = true });
	q = stream_request(&s, "/w");
	(void)http_start(h, &q);
	q = stream_request(&hang, "/hang");
	q.stream = false;
	(void)http_start(h, &q);
	ck_assert(fake_http_wait_streams(f, "GET /w", 1));
	http_free(h);
	ck_assert_int_eq(s.end, HTTP_CANCELLED);
	ck_assert_int_eq(hang.end, HTTP_CANCELLED);
	str_clear(&s.bytes);
	str_clear(&hang.bytes);
	fake_http_stop(f);
}
END_TEST

struct alarm {
	struct http *h;
	struct http_timer a, b, c;
	struct str order;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
};

static void ring_a(void *arg)
{
	struct alarm *x = arg;
	str_add(&x->order, "a");
}

static void ring_b(void *arg)
{
	struct alarm *x = arg;
	str_add(&x->order, "b");
	WITH_LOCK(&x->lock);
	x->done = true;
	pthread_cond_signal(&x->changed);
}

static void set_alarms(void *arg)
{
	struct alarm *x = arg;
	int64_t now = monotonic_ns();
	http_timer_set(x->h, &x->b, now + 60000000);
	http_timer_set(x->h, &x->c, now + 10000000);
	http_timer_set(x->h, &x->a, now + 90000000);
	http_timer_set(x->h, &x->a, now + 30000000);
	http_timer_clear(x->h, &x->c);
}

START_TEST(timers_ring_in_order_and_can_be_taken_back)
{
	struct alarm x = { .h = engine_for("http://127.0.0.1:1", NULL),
		           .order = STR_INIT(10),
		           .lock = PTHREAD_MUTEX_INITIALIZER,
		           .changed = PTHREAD_COND_INITIALIZER };
	x.a = (struct http_timer) { .fn = ring_a, .arg = &x };
	x.b = (struct http_timer) { .fn = ring_b, .arg = &x };
	x.c = (struct http_timer) { .fn = ring_a, .arg = &x };
	http_post(x.h, set_alarms, &x);
	{
		WITH_LOCK(&x.lock);
		while (!x.done)
			pthread_cond_wait(&x.changed, &x.lock);
	}
	http_free(x.h);
	ck_assert_str_eq(x.order.ptr, "ab");
	str_clear(&x.order);
}
END_TEST

SUITE("http", libcurl_is_loaded_with_the_first_engine_only,
      a_missing_libcurl_is_named_with_its_package, a_request_brings_status_body_and_retry_after,
      LOOP(every_request_goes_to_the_endpoints_proxy, ARRAY_LEN(exempting)),
      retry_after_is_a_number_of_seconds_to_come,
      a_server_that_is_away_is_told_from_an_answer_that_was_lost,
      a_change_whose_connection_ends_is_not_sent_again_unnoticed,
      a_request_that_had_to_wait_says_when_it_was_sent, a_deadline_ends_a_request_that_hangs,
      a_cancelled_caller_is_woken_at_once,
      LOOP(a_request_that_was_not_sent_in_time_says_what_it_waited_for, ARRAY_LEN(unsent)),
      a_body_above_the_limit_is_refused, many_parallel_requests_share_few_connections,
      a_stream_brings_bytes_as_they_come_and_says_how_it_ended, a_silent_stream_is_retired,
      a_stream_that_is_not_answered_is_retired_sooner,
      a_new_endpoint_retires_streams_and_lets_requests_finish,
      requests_without_an_answer_for_long_retire_the_epoch,
      a_request_that_was_never_sent_ends_once_when_its_epoch_is_retired,
      a_request_over_a_silent_connection_ends_whatever_other_connections_bring,
      a_patient_request_is_waited_for_longer, hung_requests_hold_up_no_others,
      nothing_of_a_request_is_left_for_the_next_one,
      what_was_sent_with_a_handle_before_is_not_sent_now, requests_leave_the_signals_alone,
      stopping_ends_what_is_open, timers_ring_in_order_and_can_be_taken_back);
