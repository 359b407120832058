/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP engine over libcurl (see http.h for what it promises).
 *
 * Life of a call: http_start() puts it on `incoming`; the thread moves it to `queued` and, when fewer than
 * LIMIT_HTTP_IN_FLIGHT requests are out, hands it to the current generation's multi handle; it ends by
 * an answer, an error, its deadline, a cancellation or a retirement, always in call_end().
 *
 * Threads: everything belongs to the engine's thread but the fields under `lock`, which is
 * never held while libcurl or a callback runs.
 *
 * What libcurl 7.88 does and why the code looks as it does (all measured):
 *  - MAX_HOST_CONNECTIONS of 1 and a GOAWAY while a watch is open: whatever comes is queued for ever.
 *    So 2 + streams over HTTP/2, and 8 + streams when the server speaks HTTP/1.1 only.
 *  - 150 parallel requests without a limit open up to 18 connections: hence our queue, and PIPEWAIT.
 *  - CURLOPT_CAINFO_BLOB leaves CAPATH at /etc/ssl/certs, which is then trusted too: set to NULL.
 *  - A peer that acknowledges bytes and never answers is never given up: hence generations.
 *  - Removing a handle whose name is being resolved waits for the resolver unless QUICK_EXIT is set.
 */
#include "common/http.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define CONNECT_MS 10000
#define SILENCE_MS 10000
#define POLL_MAX_MS 60000
#define DRAIN_POLL_MS 200
#define HTTP1_CONNECTIONS 8
#define HTTP2_CONNECTIONS 2
/* A vanished machine: unacknowledged bytes for so long, or no answer to the kernel's probes. */
#define PEER_LOST_MS 30000
#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_INTERVAL_S 10L

/* -------------------------------------------------------------- libcurl, loaded when first used */

#define CURL_FUNCTIONS(X)       \
	X(global_init);         \
	X(easy_init);           \
	X(easy_cleanup);        \
	X(easy_setopt);         \
	X(easy_getinfo);        \
	X(easy_strerror);       \
	X(multi_init);          \
	X(multi_cleanup);       \
	X(multi_setopt);        \
	X(multi_add_handle);    \
	X(multi_remove_handle); \
	X(multi_perform);       \
	X(multi_poll);          \
	X(multi_timeout);       \
	X(multi_fdset);         \
	X(multi_info_read);     \
	X(slist_append);        \
	X(slist_free_all);

/* typecheck-gcc.h makes macros of some; the table wants the functions' own types. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

static struct {
#define X(name) __typeof__(curl_##name) *name
	CURL_FUNCTIONS(X)
#undef X
} curl;

static char *curl_missing; /* why it could not be loaded, or NULL */

static void *curl_symbol(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	if (!symbol && !curl_missing)
		curl_missing = xasprintf("libcurl.so.4 has no %s", name);
	return symbol;
}

static void curl_load(void)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		curl_missing = xstrdup(why ? why : "libcurl.so.4 cannot be loaded");
		return;
	}
#define X(name) *(void **)&curl.name = curl_symbol(library, "curl_" #name)
	CURL_FUNCTIONS(X)
#undef X
	if (!curl_missing && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		curl_missing = xstrdup("libcurl cannot be initialised");
}

/* -------------------------------------------------------------- types */

/* Everything that shares connections. `endpoint` outlives the handles: they borrow its blobs. */
struct generation {
	struct generation *next;
	CURLM *multi;
	struct http_endpoint *endpoint;
	unsigned requests, streams; /* handed to libcurl */
	bool http1;                 /* the server has answered over HTTP/1.x */
	bool owed;                  /* a request was sent and no byte has come since owed_since */
	int64_t owed_since;
};

struct http_call {
	struct http_call *next;
	struct http_request q;         /* strings owned */
	bool cancelled;                /* under lock */
	struct generation *generation; /* NULL: not handed to libcurl yet */
	CURL *easy;
	struct curl_slist *headers;
	struct curl_slist *connect_to;
	char *url;
	struct str body;
	int64_t last_byte;
	char curl_error[CURL_ERROR_SIZE];
};

struct task {
	struct task *next;
	void (*fn)(void *arg);
	void *arg;
};

struct http {
	pthread_t thread;
	int wake; /* eventfd */
	int connect_ms, silence_ms;

	pthread_mutex_t lock;
	struct http_call *incoming, **incoming_tail; /* under lock, as all of this block */
	struct task *tasks, **tasks_tail;
	struct http_endpoint *new_endpoint;
	bool stopped; /* http_stop() was called */
	bool leave;   /* the thread is to end */
	struct http_stats stats;

	/* The thread's own. */
	struct http_call *queued, **queued_tail;
	struct http_call *active;
	struct generation *current; /* head of the list; behind it those that drain */
	struct http_timer *timers;  /* by time */
	unsigned in_flight;
};

/* -------------------------------------------------------------- generations */

static void generation_limit(struct generation *g)
{
	unsigned base = g->http1 ? HTTP1_CONNECTIONS : HTTP2_CONNECTIONS;
	curl.multi_setopt(g->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)(base + g->streams));
}

static void generation_start(struct http *h, struct http_endpoint *endpoint)
{
	struct generation *g = xcalloc(1, sizeof(*g));
	g->multi = curl.multi_init();
	if (!g->multi)
		abort();
	g->endpoint = endpoint;
	g->http1 = str_has_prefix(endpoint->url, "http:");
	g->next = h->current;
	h->current = g;
	curl.multi_setopt(g->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
	generation_limit(g);
	WITH_LOCK(&h->lock);
	h->stats.generations++;
}

static void generation_free(struct generation *g)
{
	curl.multi_cleanup(g->multi);
	http_endpoint_free(g->endpoint);
	free(g);
}

static void generation_byte(struct generation *g, int64_t now)
{
	g->owed = g->requests > 0;
	g->owed_since = now;
}

static void call_end(struct http *h, struct http_call *c, enum http_end end, const char *why);

/* What is open moves to fresh connections: streams now, requests as they end. */
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
			call_end(h, c, HTTP_RETIRED, why);
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

/* -------------------------------------------------------------- calls */

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

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
	free(c->url);
	str_clear(&c->body);
	free(c);
}

static struct http_call *call_new(const struct http_request *q)
{
	struct http_call *c = xcalloc(1, sizeof(*c));
	c->q = *q;
	c->q.method = xstrdup(q->method);
	c->q.path = xstrdup(q->path);
	c->q.content_type = copy(q->content_type);
	c->q.body = q->body ? xstrndup(q->body, q->body_n) : NULL;
	c->q.accept = copy(q->accept);
	c->q.user_agent = copy(q->user_agent);
	c->q.bearer = copy(q->bearer);
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

/* Takes the call from libcurl and fills what is known of the answer. */
static void call_detach(struct http *h, struct http_call *c, struct http_result *result)
{
	struct generation *g = c->generation;
	long status = 0, version = 0, request_size = 0, connects = 0;
	curl_off_t retry_after = 0;
	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	curl.easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
	curl.easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &request_size);
	curl.easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &connects);
	curl.easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_after);
	result->status = (int)status;
	result->sent = request_size > 0;
	result->http2 = version == CURL_HTTP_VERSION_2_0;
	result->retry_after_s = retry_after > 3600 ? 3600 : (int)retry_after;

	curl.multi_remove_handle(g->multi, c->easy);
	curl.easy_cleanup(c->easy);
	curl.slist_free_all(c->headers);
	curl.slist_free_all(c->connect_to);
	active_remove(h, c);
	if (c->q.stream) {
		g->streams--;
		generation_limit(g);
	} else {
		g->requests--;
		h->in_flight--;
	}
	if (result->end == HTTP_ANSWERED)
		generation_byte(g, monotonic_ns());
	WITH_LOCK(&h->lock);
	h->stats.connections += (unsigned long)connects;
	h->stats.http2 += result->http2;
}

static void call_end(struct http *h, struct http_call *c, enum http_end end, const char *why)
{
	struct http_result result = { .end = end };
	if (c->generation)
		call_detach(h, c, &result);
	{
		WITH_LOCK(&h->lock);
		h->stats.requests++;
	}
	if (why)
		snprintf(result.why, sizeof(result.why), "%s", why);
	if (c->body.len > 0) {
		result.body_n = c->body.len;
		result.body = str_take(&c->body);
	}
	c->q.on_done(c->q.arg, &result);
	free(result.body);
	call_free(c);
}

/* -------------------------------------------------------------- libcurl's callbacks */

static void call_heard(struct http_call *c)
{
	c->last_byte = monotonic_ns();
	generation_byte(c->generation, c->last_byte);
}

static bool is_streaming(struct http_call *c)
{
	long status = 0;
	if (!c->q.stream)
		return false;
	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	return status >= 200 && status < 300;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	struct generation *g = c->generation;
	size_t length = size * n;
	call_heard(c);
	if (!g->http1 && length >= 7 && memcmp(bytes, "HTTP/1.", 7) == 0) {
		g->http1 = true;
		generation_limit(g);
	}
	bool last = length <= 2;
	return !last || !is_streaming(c) || c->q.on_bytes(c->q.arg, "", 0) ? length : length + 1;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_call *c = arg;
	size_t length = size * n;
	call_heard(c);
	bool wanted = is_streaming(c) ? c->q.on_bytes(c->q.arg, bytes, length)
	                              : str_addn(&c->body, bytes, length);
	return wanted ? length : length + 1; /* any other number breaks off */
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg;
	(void)purpose;
	unsigned ms = PEER_LOST_MS;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	return CURL_SOCKOPT_OK;
}

/* -------------------------------------------------------------- starting */

static struct curl_slist *list_add(struct curl_slist *list, const char *line)
{
	struct curl_slist *more = curl.slist_append(list, line);
	if (!more)
		abort();
	return more;
}

static void header_add(struct http_call *c, const char *name, const char *value)
{
	if (!value)
		return;
	AUTO(free) char *line = xasprintf("%s: %s", name, value);
	c->headers = list_add(c->headers, line);
	explicit_bzero(line, strlen(line));
}

static void setup_headers(struct http_call *c)
{
	header_add(c, "Accept", c->q.accept);
	header_add(c, "Content-Type", c->q.content_type);
	if (c->q.bearer) {
		AUTO(free) char *value = xasprintf("Bearer %s", c->q.bearer);
		header_add(c, "Authorization", value);
		explicit_bzero(value, strlen(value));
	}
	c->headers = list_add(c->headers, "Expect:");
	curl.easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
	curl.easy_setopt(c->easy, CURLOPT_USERAGENT, c->q.user_agent);
}

static void blob_set(CURL *easy, CURLoption option, const char *pem)
{
	if (!pem)
		return;
	struct curl_blob blob = { .data = (void *)pem,
		                  .len = strlen(pem),
		                  .flags = CURL_BLOB_NOCOPY };
	curl.easy_setopt(easy, option, &blob);
}

static void setup_trust(CURL *easy, const struct http_endpoint *e)
{
	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, e->insecure ? 0L : 1L);
	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, e->insecure ? 0L : 2L);
	if (e->ca) {
		curl.easy_setopt(easy, CURLOPT_CAINFO, NULL);
		curl.easy_setopt(easy, CURLOPT_CAPATH, NULL);
		curl.easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
		blob_set(easy, CURLOPT_CAINFO_BLOB, e->ca);
	}
	blob_set(easy, CURLOPT_SSLCERT_BLOB, e->cert);
	blob_set(easy, CURLOPT_SSLKEY_BLOB, e->key);
	curl.easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
	curl.easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
}

/* A certificate for another name than the one we connect to: the URL carries the name, and
   CONNECT_TO the address; the Host header stays the server's own. */
static void setup_url(struct http_call *c, const struct http_endpoint *e)
{
	if (!e->tls_name) {
		c->url = xasprintf("%s%s", e->url, c->q.path);
		curl.easy_setopt(c->easy, CURLOPT_URL, c->url);
		return;
	}
	size_t n;
	const char *authority = http_url_authority(e->url, &n);
	AUTO(free) char *address = xstrndup(authority, n);
	const char *bracket = strrchr(address, ']');
	bool has_port = strrchr(bracket ? bracket : address, ':') != NULL;
	AUTO(free) char *target = xasprintf("::%s%s", address, has_port ? "" : ":443");
	c->url = xasprintf("%.*s%s%s%s", (int)(authority - e->url), e->url, e->tls_name,
	                   authority + n, c->q.path);
	c->connect_to = list_add(NULL, target);
	header_add(c, "Host", address);
	curl.easy_setopt(c->easy, CURLOPT_CONNECT_TO, c->connect_to);
	curl.easy_setopt(c->easy, CURLOPT_URL, c->url);
}

static void setup_method(struct http_call *c)
{
	curl.easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->q.method);
	if (!c->q.body)
		return;
	curl.easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->q.body_n);
	curl.easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->q.body);
}

static void setup_connection(struct http *h, struct http_call *c, const struct http_endpoint *e)
{
	CURL *easy = c->easy;
	curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(easy, CURLOPT_HTTP_VERSION,
	                 str_has_prefix(e->url, "http:") ? CURL_HTTP_VERSION_1_1
	                                                 : CURL_HTTP_VERSION_2TLS);
	curl.easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl.easy_setopt(easy, CURLOPT_PROXY, e->proxy ? e->proxy : "");
	curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)h->connect_ms);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	curl.easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	curl.easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl.easy_setopt(easy, CURLOPT_HEADERDATA, c);
	curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl.easy_setopt(easy, CURLOPT_WRITEDATA, c);
	curl.easy_setopt(easy, CURLOPT_PRIVATE, c);
	curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, c->curl_error);
}

static void call_activate(struct http *h, struct http_call *c)
{
	struct generation *g = h->current;
	c->easy = curl.easy_init();
	if (!c->easy)
		abort();
	c->generation = g;
	c->last_byte = monotonic_ns();
	setup_connection(h, c, g->endpoint);
	setup_trust(c->easy, g->endpoint);
	setup_url(c, g->endpoint);
	setup_headers(c);
	setup_method(c);
	c->next = h->active;
	h->active = c;
	if (c->q.stream) {
		g->streams++;
		generation_limit(g);
	} else {
		g->requests++;
		h->in_flight++;
		if (!g->owed)
			generation_byte(g, c->last_byte);
	}
	if (curl.multi_add_handle(g->multi, c->easy) != CURLM_OK)
		abort();
}

/* -------------------------------------------------------------- ending */

/* libcurl's text says which address; the system's says why. */
static void failure_text(struct http_call *c, CURLcode code, char *buf, size_t n)
{
	long os_errno = 0;
	char reason[64] = "";
	curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_errno);
	const char *text = c->curl_error[0] ? c->curl_error : curl.easy_strerror(code);
	if (code == CURLE_COULDNT_CONNECT && os_errno)
		snprintf(reason, sizeof(reason), ": %s", strerrordesc_np((int)os_errno));
	snprintf(buf, n, "%s%s", text, reason);
}

static enum http_end end_of_code(struct http_call *c, CURLcode code)
{
	long request_size = 0;
	if (code == CURLE_OK)
		return HTTP_ANSWERED;
	if (c->body.cut)
		return HTTP_TOO_LARGE;
	curl.easy_getinfo(c->easy, CURLINFO_REQUEST_SIZE, &request_size);
	return request_size > 0 ? HTTP_CUT : HTTP_NOT_SENT;
}

static void messages(struct http *h, struct generation *g)
{
	CURLMsg *message;
	int left;
	while ((message = curl.multi_info_read(g->multi, &left))) {
		struct http_call *c = NULL;
		char text[CURL_ERROR_SIZE + 64];
		CURLcode code = message->data.result;
		if (message->msg != CURLMSG_DONE)
			continue;
		curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		failure_text(c, code, text, sizeof(text));
		enum http_end end = end_of_code(c, code);
		if (end == HTTP_TOO_LARGE)
			snprintf(text, sizeof(text), "the answer is larger than %zu bytes",
			         c->q.max_body);
		call_end(h, c, end, end == HTTP_ANSWERED ? NULL : text);
	}
}

/* A request ended without an answer: is the whole generation dumb? */
static void judge_silence(struct http *h, const struct generation *g, int64_t now)
{
	if (g == h->current && g->owed && now - g->owed_since >= h->silence_ms * INT64_C(1000000))
		generation_retire(h, "requests get no answer", NULL);
}

static void call_give_up(struct http *h, struct http_call *c, enum http_end end, const char *why)
{
	if (c->generation && !c->q.stream)
		judge_silence(h, c->generation, monotonic_ns());
	call_end(h, c, end, why);
}

/* -------------------------------------------------------------- the thread */

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

/* True when the call was ended (and the list it was on has changed). */
static bool expire_one(struct http *h, struct http_call *c, int64_t now)
{
	if (is_cancelled(h, c))
		call_give_up(h, c, HTTP_CANCELLED, "cancelled");
	else if (now >= c->q.deadline_at)
		call_give_up(h, c, HTTP_DEADLINE, "no answer in time");
	else if (is_silent(c, now) && c->generation == h->current)
		generation_retire(h, "a watch has gone silent", NULL);
	else if (is_silent(c, now))
		call_end(h, c, HTTP_RETIRED, "silent");
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
		call_end(h, h->active, HTTP_CANCELLED, "the client is being stopped");
	while (h->queued) {
		struct http_call *c = h->queued;
		h->queued = c->next;
		call_end(h, c, HTTP_CANCELLED, "the client is being stopped");
	}
	h->queued_tail = &h->queued;
}

/* Takes over what other threads have left. Returns false when the thread is to end. */
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

static int64_t next_alarm(const struct http *h)
{
	int64_t at = h->timers ? h->timers->at : DEADLINE_NEVER;
	for (const struct http_call *c = h->queued; c; c = c->next)
		at = earliest(at, c->q.deadline_at);
	for (const struct http_call *c = h->active; c; c = c->next) {
		at = earliest(at, c->q.deadline_at);
		if (c->q.stream && c->q.silence_ms > 0)
			at = earliest(at, c->last_byte + c->q.silence_ms * INT64_C(1000000));
	}
	return at;
}

static int timeout_ms(const struct http *h)
{
	int64_t at = next_alarm(h);
	int ms = POLL_MAX_MS;
	if (at != DEADLINE_NEVER) {
		int left = deadline_left_ms((struct deadline) { .at = at });
		ms = left < ms ? left : ms;
	}
	if (h->current->next && ms > DRAIN_POLL_MS)
		ms = DRAIN_POLL_MS;
	for (const struct generation *g = h->current->next; g; g = g->next) {
		long wants = -1;
		curl.multi_timeout(g->multi, &wants);
		if (wants >= 0 && wants < ms)
			ms = (int)wants;
	}
	return ms;
}

/* The sockets of the generations that drain: libcurl waits for one multi handle at a time. Descriptors
   that an fd_set cannot hold are looked after every DRAIN_POLL_MS. */
static unsigned drain_sockets(const struct http *h, struct curl_waitfd *fds, unsigned max)
{
	unsigned n = 0;
	for (const struct generation *g = h->current->next; g; g = g->next) {
		fd_set in, out, bad;
		int last = -1;
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_ZERO(&bad);
		curl.multi_fdset(g->multi, &in, &out, &bad, &last);
		for (int fd = 0; fd <= last && n < max; fd++) {
			short events = (short)((FD_ISSET(fd, &in) ? CURL_WAIT_POLLIN : 0) |
			                       (FD_ISSET(fd, &out) ? CURL_WAIT_POLLOUT : 0));
			if (events)
				fds[n++] = (struct curl_waitfd) { .fd = fd, .events = events };
		}
	}
	return n;
}

static void wait_for_something(struct http *h)
{
	struct curl_waitfd fds[64];
	uint64_t count;
	fds[0] = (struct curl_waitfd) { .fd = h->wake, .events = CURL_WAIT_POLLIN };
	unsigned n = 1 + drain_sockets(h, fds + 1, ARRAY_LEN(fds) - 1);
	curl.multi_poll(h->current->multi, fds, n, timeout_ms(h), NULL);
	if (read(h->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
}

static void perform(struct http *h)
{
	int running;
	for (struct generation *g = h->current; g; g = g->next) {
		curl.multi_perform(g->multi, &running);
		messages(h, g);
	}
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

/* A callback may start something while the calls are being ended. */
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

/* -------------------------------------------------------------- the outside */

static void wake(struct http *h)
{
	uint64_t one = 1;
	if (write(h->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

/* No signal is ever taken by this thread: main waits for them, and a broken connection is an
   error code here. */
static int start_thread(struct http *h, struct err *err)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&h->thread, NULL, engine, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_sys(err, rc, "start the HTTP thread");
	pthread_setname_np(h->thread, "http");
	return 0;
}

int http_new(const struct http_endpoint *endpoint, const struct http_tuning *tuning,
             struct http **ret, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, curl_load);
	if (curl_missing)
		return err_set(
			err, ERR_UNAVAILABLE,
			"libcurl is needed to talk to Kubernetes (Debian package libcurl4): %s",
			curl_missing);

	struct http *h = xcalloc(1, sizeof(*h));
	h->connect_ms = tuning && tuning->connect_ms ? tuning->connect_ms : CONNECT_MS;
	h->silence_ms = tuning && tuning->silence_ms ? tuning->silence_ms : SILENCE_MS;
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
	struct http_call *c = call_new(request);
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
	http_timer_clear(h, t);
	t->at = at;
	t->set = true;
	struct http_timer **place = &h->timers;
	while (*place && (*place)->at <= at)
		place = &(*place)->next;
	t->next = *place;
	*place = t;
}

void http_timer_clear(struct http *h, struct http_timer *t)
{
	if (!t->set)
		return;
	struct http_timer **place = &h->timers;
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
