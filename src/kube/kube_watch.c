/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One watch per collection: the state machine on the HTTP engine's thread.
 *
 * Theory of operation. A list of one object gives a resourceVersion; a stream from there brings
 * every change, in order. A stream that ends for any reason is opened again behind the last event
 * that came, so nothing is missed. When that place is lost (410, an ERROR event, a line that cannot
 * be read) it starts again with a list, and the objects that somebody waits for, exactly those, are
 * read one by one.
 *
 *   IDLE -> LISTING -> STREAMING -> (end) -> STREAMING, or LISTING when the place is lost
 *              \-> PAUSED <-/   after failures, with backoff; Retry-After is honoured
 *
 * Errors that pass (no connection, 429, 5xx) are waited for. Others (403, no such API group) are
 * told to all who wait, and tried again as long as somebody does. Everything here runs on the
 * engine's thread but watch_for() and watch_kick(); fields marked so in kube_watch.h are under the
 * client's lock.
 */
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "kube/kube_event.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"

#define NS_PER_MS INT64_C(1000000)
#define HEALTHY_MS 1000       /* a stream that lived so long was no failure */
#define HOPELESS_MS 1000      /* the first pause after an error that does not pass */
#define PLACE_TRIES 3         /* failures in a row before the place is given up */
#define LINE_KEEP (64 * 1024) /* memory kept between lines */

static void watch_run(void *arg);
static void list_start(struct kube_watch *w);
static void stream_start(struct kube_watch *w);
static void pause_over(void *arg);

/* ---- life ---- */

static struct kube_watch *watch_new(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	w->k = k;
	w->waits.lock = &k->lock;
	w->kind = (struct kube_kind) { .group = xstrdup(kind->group),
		                       .version = xstrdup(kind->version),
		                       .plural = xstrdup(kind->plural),
		                       .kind = xstrdup(kind->kind) };
	w->ns = xstrdup_or_null(ns);
	str_init(&w->line, LIMIT_HTTP_WATCH_LINE);
	w->pause = (struct http_timer) { .fn = pause_over, .arg = w };
	watch_reads_init(w);
	return w;
}

struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	struct kube_watch *w;
	assert_locked(&k->lock);
	for (w = k->watches; w; w = w->next)
		if (str_eq(w->kind.plural, kind->plural) && str_eq(w->kind.group, kind->group) &&
		    str_eq(w->kind.version, kind->version) && (w->ns == ns || str_eq(w->ns, ns)))
			return w;
	w = watch_new(k, kind, ns);
	w->next = k->watches;
	k->watches = w;
	return w;
}

void kube_watches_stop(struct kube *k)
{
	assert_locked(&k->lock);
	for (struct kube_watch *w = k->watches; w; w = w->next)
		waits_wake(&w->waits);
}

void kube_watches_free(struct kube *k)
{
	while (k->watches) {
		struct kube_watch *w = k->watches;
		k->watches = w->next;
		free((char *)w->kind.group);
		free((char *)w->kind.version);
		free((char *)w->kind.plural);
		free((char *)w->kind.kind);
		free(w->ns);
		str_clear(&w->line);
		free(w);
	}
}

void watch_kick(struct kube_watch *w)
{
	assert_locked(&w->k->lock);
	if (w->kicked)
		return;
	w->kicked = true;
	http_post(w->k->http, watch_run, w);
}

static bool somebody_waits(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	return w->waits.first != NULL;
}

static void set_down(struct kube_watch *w, const char *why)
{
	WITH_LOCK(&w->k->lock);
	snprintf(w->down, sizeof(w->down), "%s", why);
}

/* The pause is for a server that is away, and a caller's request has just been answered. */
static bool server_is_back(const struct kube_watch *w)
{
	return w->phase == WATCH_PAUSED && w->unheard &&
	       atomic_load(&w->k->answered_at) > w->tried_at;
}

/* Somebody opened a wait or asks for its object. */
static void watch_run(void *arg)
{
	struct kube_watch *w = arg;
	{
		WITH_LOCK(&w->k->lock);
		w->kicked = false;
	}
	int64_t since = monotonic_ns() - w->tried_at;
	bool try_again = w->phase == WATCH_PAUSED && w->hopeless && since > HOPELESS_MS * NS_PER_MS;
	if (w->phase == WATCH_IDLE || try_again)
		list_start(w);
	else if (server_is_back(w))
		pause_over(w);
	else if (watch_is_live(w))
		watch_reads_start(w);
}

/* ---- pauses and failures ---- */

static void pause_for(struct kube_watch *w, int ms)
{
	w->phase = WATCH_PAUSED;
	http_timer_set(w->k->http, &w->pause, monotonic_ns() + ms * NS_PER_MS);
}

static void pause_over(void *arg)
{
	struct kube_watch *w = arg;
	if (w->hopeless && !somebody_waits(w)) {
		w->phase = WATCH_IDLE;
		return;
	}
	if (watch_is_live(w))
		stream_start(w);
	else
		list_start(w);
}

static void backoff(struct kube_watch *w, int first_ms, int asked_ms)
{
	int ms = kube_backoff_ms(++w->failures, first_ms, w->k->tuning.watch_backoff_most_ms);
	pause_for(w, asked_ms + ms);
}

/* Events may have been missed from here on. */
static void lose_place(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	waits_end_live(&w->waits);
}

/*
 * A server that starts refuses what it has not read the roles of yet: that is asked a second time
 * before it is told.
 */
static bool is_doubtful(const struct kube_watch *w, const struct http_result *r)
{
	return r->status == 403 && w->failures > 0 && !w->hopeless && !w->doubted;
}

/* A list or a stream that did not come about. */
static void watch_failed(struct kube_watch *w, const char *verb, const struct http_result *r)
{
	if (r->end == HTTP_ANSWERED && r->status == 401 && !w->refused) {
		w->refused = true;
		pause_for(w, 0);
		return;
	}
	const struct kube_target t = { .verb = verb, .kind = &w->kind, .ns = w->ns };
	struct err err = ERR_INIT;
	kube_target_failed(w->k, &t, r, &err);
	set_down(w, err.msg);
	log_limited(LOG_WARNING, 30, "%s; trying again", err.msg);
	if (is_doubtful(w, r)) {
		w->doubted = true;
		pause_for(w, HOPELESS_MS);
		return;
	}
	w->hopeless = !kube_passes_by_itself(r);
	w->unheard = r->end != HTTP_ANSWERED;
	if (!w->hopeless) {
		/*
		 * Perhaps it is the place that the server cannot serve (another server, a restored
		 * backup).
		 */
		if (w->failures >= PLACE_TRIES)
			lose_place(w);
		backoff(w, w->k->tuning.watch_backoff_ms, r->retry_after_s * 1000);
		return;
	}
	lose_place(w);
	{
		WITH_LOCK(&w->k->lock);
		waits_tell_error(&w->waits, &err);
	}
	backoff(w, HOPELESS_MS, 0);
}

/* ---- list ---- */

static bool take_version(struct kube_watch *w, const struct http_result *r)
{
	struct json *list AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	if (!r->body || json_parse("list", r->body, r->body_n, &list, &ignored))
		return false;
	const char *version = json_str(list, "metadata.resourceVersion");
	if (str_empty(version) || strlen(version) >= sizeof(w->version))
		return false;
	snprintf(w->version, sizeof(w->version), "%s", version);
	return true;
}

static void list_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	if (r->end == HTTP_CANCELLED) {
		w->phase = WATCH_IDLE;
		return;
	}
	if (r->end != HTTP_ANSWERED || r->status != 200 || !take_version(w, r)) {
		watch_failed(w, "list", r);
		return;
	}
	w->refused = false;
	w->hopeless = false;
	w->doubted = false;
	{
		WITH_LOCK(&w->k->lock);
		waits_begin_live(&w->waits);
	}
	stream_start(w);
	watch_reads_start(w);
}

static void list_start(struct kube_watch *w)
{
	char *collection AUTO(free) = kube_path(&w->kind, w->ns, NULL);
	char *path AUTO(free) = xasprintf("%s?limit=1", collection);
	struct http_request q = {
		.path = path, .deadline_at = kube_attempt_end(w->k), .on_done = list_done, .arg = w
	};
	http_timer_clear(w->k->http, &w->pause);
	w->phase = WATCH_LISTING;
	w->tried_at = monotonic_ns();
	kube_get_start(w->k, &q, w->refused);
}

/* ---- events ---- */

static void lose(struct kube_watch *w, bool badly, const char *why)
{
	w->lost = true;
	w->lost_badly = badly;
	if (badly)
		set_down(w, why);
}

/* The server ends a watch with a Status: 410 when it no longer has the place. */
static void error_event(struct kube_watch *w, const struct kube_event *e)
{
	struct json *status AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	int64_t code = 0;
	if (json_parse("watch", e->object.at, e->object.n, &status, &err) ||
	    json_get_i64(status, "code", &code, &err) < 0)
		err_clear(&err);
	if (code == 410) {
		lose(w, false, "");
		return;
	}
	const struct kube_target t = { .verb = "watch", .kind = &w->kind, .ns = w->ns };
	kube_status_error_of(&t, (int)code, status, &err);
	lose(w, true, err.msg);
}

static void object_event(struct kube_watch *w, const struct kube_event *e)
{
	WITH_LOCK(&w->k->lock);
	if (waits_tell(&w->waits, e))
		watch_kick(w);
}

static void line_event(struct kube_watch *w)
{
	struct kube_event e;
	if (!kube_event_scan(w->line.ptr, w->line.len, &e) ||
	    e.resource_version.n >= sizeof(w->version)) {
		lose(w, true, "the watch brought a line that is no event");
		return;
	}
	if (e.type == EVENT_ERROR) {
		error_event(w, &e);
		return;
	}
	w->relisted = false;
	if (e.type != EVENT_BOOKMARK)
		object_event(w, &e);
	if (e.resource_version.n > 0)
		snprintf(w->version, sizeof(w->version), "%.*s", (int)e.resource_version.n,
		         e.resource_version.at);
}

static void line_end(struct kube_watch *w)
{
	if (w->line.len > 0)
		line_event(w);
	if (w->line.cap > LINE_KEEP)
		str_clear(&w->line);
	else
		str_reset(&w->line);
}

static void stream_opened(struct kube_watch *w)
{
	w->opened_at = monotonic_ns();
	w->refused = false;
	w->doubted = false;
	set_down(w, "");
}

static bool stream_bytes(void *arg, const char *bytes, size_t n)
{
	struct kube_watch *w = arg;
	if (n == 0)
		stream_opened(w);
	while (n > 0 && !w->lost) {
		const char *newline = memchr(bytes, '\n', n);
		size_t piece = newline ? (size_t)(newline - bytes) : n;
		if (!str_addn(&w->line, bytes, piece))
			lose(w, true, "the watch brought a line above the limit");
		else if (newline)
			line_end(w);
		piece += newline ? 1 : 0;
		bytes += piece;
		n -= piece;
	}
	return !w->lost;
}

/* ---- stream ---- */

static bool was_healthy(const struct kube_watch *w)
{
	return w->opened_at && monotonic_ns() - w->opened_at >= HEALTHY_MS * NS_PER_MS;
}

/* The stream had begun, and ended. */
static void stream_resume(struct kube_watch *w, const char *why)
{
	if (was_healthy(w))
		w->failures = 0;
	if (w->lost)
		lose_place(w);
	/* A server that says 410 is there again, whatever it was before. */
	if (w->lost && !w->lost_badly && !w->relisted) {
		w->relisted = true;
		list_start(w);
		return;
	}
	w->unheard = true;
	if (w->lost_badly || w->failures > 0) {
		if (!w->lost_badly)
			set_down(w, why);
		log_limited(LOG_WARNING, 30, "watch %s: %s; trying again", w->kind.plural, why);
		backoff(w, w->k->tuning.watch_backoff_ms, 0);
		return;
	}
	w->failures++; /* until the next one has lived for a while */
	if (w->lost)
		list_start(w);
	else
		stream_start(w);
}

static void stream_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	bool opened = w->opened_at != 0;
	if (r->end == HTTP_CANCELLED) {
		w->phase = WATCH_IDLE;
		return;
	}
	if (r->end == HTTP_ANSWERED && r->status == 410)
		w->lost = true;
	if (r->end == HTTP_RETIRED)
		stream_start(w);
	else if (opened || w->lost)
		stream_resume(w, w->lost     ? "lost its place"
		                 : r->why[0] ? r->why
		                             : "the server ended it at once");
	else
		watch_failed(w, "watch", r);
}

static void stream_start(struct kube_watch *w)
{
	struct kube *k = w->k;
	unsigned base = (unsigned)k->tuning.watch_timeout_s;
	char *collection AUTO(free) = kube_path(&w->kind, w->ns, NULL);
	char *path AUTO(free) = xasprintf(
		"%s?watch=1&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u",
		collection, w->version, base + arc4random_uniform(base / 4 + 1));
	struct http_request q = { .path = path,
		                  .stream = true,
		                  .silence_ms = k->tuning.watch_silence_ms,
		                  .on_bytes = stream_bytes,
		                  .on_done = stream_done,
		                  .arg = w };
	http_timer_clear(k->http, &w->pause);
	w->phase = WATCH_STREAMING;
	w->tried_at = monotonic_ns();
	w->opened_at = 0;
	w->lost = false;
	w->lost_badly = false;
	str_reset(&w->line);
	kube_get_start(w->k, &q, w->refused);
}
