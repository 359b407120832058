/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One watch per collection: the state machine on the HTTP engine's thread. What the lines of a
 * stream say is in kube_watch_events.c, what others see of a watch in kube_watch_state.c.
 *
 * Theory of operation. A list of one object gives a resourceVersion, the resume point; a stream
 * from there brings every change, in order. A stream that ends is opened again behind the last
 * event that came, so nothing is missed. When the server no longer has that resume point, or a line
 * cannot be read, it starts again with a list, and the objects that somebody waits for, no others,
 * are read, a few at a time (kube_watch_read.c).
 *
 * A stream resumes at the resume point without a check only if the server itself has ended the
 * previous stream. After any other end the server's data may have been replaced by older data
 * (kube_resume_point.c): a list of one object is read first, and if its version is lower than the
 * resume point, all objects are listed again.
 *
 *   phase      what happens                                          next phase
 *   IDLE       somebody waits or follows                             LISTING
 *   LISTING    the list came: live from here on                      OPENING
 *              the check of a resume point came, and is not lower           OPENING
 *              the check of a resume point came, lower: no longer live      LISTING
 *              a page came, and there is another (a follower)        LISTING
 *              failure                                               PAUSED, see below
 *   OPENING    the answer begins with 2xx                            STREAMING
 *              410: RESUME_EXPIRED                                    as an expired STREAMING
 *              failure                                               PAUSED, see below
 *   STREAMING  it ends after HEALTHY_MS, or the first time           OPENING, or the check
 *              it ends early again                                   PAUSED, AWAY
 *              RESUME_EXPIRED (410), not relisted: no longer live     LISTING
 *              RESUME_EXPIRED, relisted: no longer live               as an end, but LISTING
 *              RESUME_UNCLEAR (another ERROR, an unusable line)       PAUSED, AWAY; no longer live
 *              RESUME_REVERTED (a bookmark or an answer is lower)     as RESUME_EXPIRED
 *   OPENING or STREAMING, its connection was retired, or no answer   LISTING: the check
 *              began in the time that any request has
 *   PAUSED     the time is over: live                                LISTING: the check
 *              the time is over: not live                            LISTING
 *              the time is over, TOLD, nobody waits                  IDLE
 *              AWAY, and a caller's request was answered             as when the time is over
 *              TOLD, somebody asks, HOPELESS_MS since the last try   LISTING
 *   OPENING    of a full stream: 400 or 422                          LISTING, by pages
 *   OPENING or STREAMING, of a full stream whose time is over        LISTING, by pages
 *   STREAMING  of a full stream: the end of the objects, live        STREAMING
 *   any        LISTING or OPENING, APART_MS not over since the last  PAUSED until then
 *   any        the client stops                                      IDLE
 *
 *   failure of LISTING or OPENING            pause                     trouble
 *   401, the first since a success           none                      as before
 *   401 again, 403, not served: the first    mistake_ms                as before
 *   no answer                                backoff                   AWAY
 *   429, 5xx, what a proxy says, no list     Retry-After and backoff   BUSY
 *   anything else (403, no such API group)   backoff from HOPELESS_MS  TOLD, no longer live
 *
 * With a follower (kube_follow.h) LISTING reads all objects. Where the server serves it that is no
 * list but a full stream, which is OPENING and then STREAMING: it begins with all objects, and is
 * not live until the last of them has come. When it ends before, the next phase is LISTING again;
 * kube_watch_all.c decides between it and pages.
 *
 * After RESUME_TRIES failures and pauses in a row a further failure ends `live`: perhaps the server
 * cannot serve this resume point (it is another server, or restored from a backup).
 *
 * Everything here runs on the engine's thread but watch_for() and kube_watches_stop(); fields
 * marked so in kube_watch.h are under the client's lock.
 */
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"

#define HEALTHY_MS 1000  /* a stream that lived so long was no failure */
#define APART_MS 200     /* between two lists, or two streams, whatever the server says */
#define HOPELESS_MS 1000 /* the first pause after an error that does not pass */
#define RESUME_TRIES 3   /* failures in a row before the resume point is given up */

static void watch_run(void *arg);
static void list_start(struct kube_watch *w);
static void list_ask(struct kube_watch *w);
static void check_start(struct kube_watch *w);
static void stream_start(struct kube_watch *w);
static void full_stream_ask(struct kube_watch *w);
static void pause_over(void *arg);

/* ---- life ---- */

static struct kube_watch *watch_new(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	w->k = k;
	w->waits.lock = &k->lock;
	w->waits.key = hash_key_random();
	w->kind = (struct kube_kind) { .group = xstrdup(kind->group),
		                       .version = xstrdup(kind->version),
		                       .plural = xstrdup(kind->plural),
		                       .kind = xstrdup(kind->kind) };
	w->ns = xstrdup_or_null(ns);
	str_init(&w->line, LIMIT_HTTP_WATCH_LINE);
	w->pause = (struct http_timer) { .fn = pause_over, .arg = w };
	w->run = watch_run;
	w->closed_at = monotonic_ns();
	watch_reads_init(w);
	return w;
}

struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	struct kube_watch *w;
	assert_locked(&k->lock);
	w = watch_find(k, kind, ns);
	if (w)
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
		waits_free(&w->waits);
		if (w->follow)
			free(w->follow->token);
		free(w->follow);
		free(w);
	}
}

static bool somebody_waits(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	return w->waits.first != NULL || w->follow;
}

/* The pause is for a server that is away, and a caller's request has just been answered. */
static bool server_is_back(const struct kube_watch *w)
{
	return w->phase == WATCH_PAUSED && w->trouble == TROUBLE_UNREACHABLE &&
	       atomic_load(&w->k->answered_at) > w->tried_at;
}

/* The pause is for an error that was told, and somebody asks: perhaps it has been put right. */
static bool may_be_repaired(const struct kube_watch *w)
{
	return w->phase == WATCH_PAUSED && w->trouble == TROUBLE_PERMANENT &&
	       monotonic_ns() - w->tried_at > HOPELESS_MS * NS_PER_MS;
}

/*
 * An answer has refuted the resume point. A pause or a check ends by itself, a stream is cancelled;
 * a list follows.
 */
static void revert(struct kube_watch *w)
{
	watch_end_live(w);
	if (w->phase != WATCH_OPENING && w->phase != WATCH_STREAMING)
		return;
	w->resume = RESUME_REVERTED;
	http_cancel(w->k->http, w->stream);
}

/* A wait was opened, a caller asks for its object, or an answer has refuted the resume point. */
static void watch_run(void *arg)
{
	struct kube_watch *w = arg;
	{
		WITH_LOCK(&w->k->lock);
		w->run_posted = false;
	}
	watch_resync_start(w);
	if (watch_consume_refuted(w))
		revert(w);
	if (w->phase == WATCH_IDLE || may_be_repaired(w))
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

static void go_on(struct kube_watch *w)
{
	if (!watch_is_live(w))
		list_start(w);
	else if (w->unverified)
		check_start(w);
	else
		stream_start(w);
}

static void pause_over(void *arg)
{
	struct kube_watch *w = arg;
	assert(w->phase == WATCH_PAUSED);
	if (w->trouble == TROUBLE_PERMANENT && !somebody_waits(w))
		w->phase = WATCH_IDLE;
	else
		go_on(w);
}

/* Another list or stream so soon behind the last of its kind: pauses until it may be. */
static bool is_too_soon(struct kube_watch *w, int64_t last)
{
	int64_t ms = (monotonic_ns() - last) / NS_PER_MS;
	if (last == 0 || ms >= APART_MS)
		return false;
	pause_for(w, APART_MS - (int)ms);
	return true;
}

static void backoff(struct kube_watch *w, int first_ms, int asked_ms)
{
	int ms = kube_backoff_ms(++w->failures, first_ms, w->k->tuning.watch_backoff_most_ms);
	pause_for(w, asked_ms + ms);
}

/* What may be a mistake of the server is asked for a second time before it is told. */
static bool is_doubtful(const struct kube_watch *w, const struct http_result *r)
{
	return kube_status_may_be_mistaken(r) && w->trouble != TROUBLE_PERMANENT && !w->asked_again;
}

static enum watch_trouble trouble_of(const struct http_result *r, const struct err *err)
{
	if (r->end != HTTP_ANSWERED)
		return TROUBLE_UNREACHABLE;
	return kube_passes_by_itself(err) ? TROUBLE_BUSY : TROUBLE_PERMANENT;
}

static void watch_report_error(struct kube_watch *w, const struct err *err)
{
	watch_all_refused(w, err->msg);
	WITH_LOCK(&w->k->lock);
	waits_end_live(&w->waits);
	waits_notify_error(&w->waits, err);
}

/* A list or a stream that did not come about. */
static void watch_failed(struct kube_watch *w, const char *verb, const struct http_result *r)
{
	const struct kube_target t = { .verb = verb, .kind = &w->kind, .ns = w->ns };
	struct err err = ERR_INIT;
	if (r->end == HTTP_ANSWERED && r->status == 401 && !w->reread_credentials) {
		w->reread_credentials = true;
		pause_for(w, 0);
		return;
	}
	kube_target_failed(w->k, &t, r, &err);
	watch_set_down(w, err.msg);
	log_limited(LOG_WARNING, 30, "%s; trying again", err.msg);
	if (is_doubtful(w, r)) {
		w->asked_again = true;
		pause_for(w, w->k->tuning.mistake_ms);
		return;
	}
	w->trouble = trouble_of(r, &err);
	if (w->trouble == TROUBLE_PERMANENT) {
		watch_report_error(w, &err);
		backoff(w, HOPELESS_MS, 0);
		return;
	}
	if (w->failures >= RESUME_TRIES) {
		watch_end_live(w);
		watch_all_restart(w);
	}
	backoff(w, w->k->tuning.watch_backoff_ms, kube_asked_ms(r));
}

/* ---- list ---- */

/* Takes the server's version from the answer to a list; *ret is malloc'ed. False: not a list. */
static bool watch_parse_version(const struct kube_watch *w, const struct http_result *r, char **ret)
{
	struct json *metadata AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	struct kube_page page;
	const char *version;
	if (!r->body || !kube_page_scan(r->body, r->body_n, w->kind.kind, &page) ||
	    page.metadata.n == 0 ||
	    json_parse("list", page.metadata.at, page.metadata.n, &metadata, &ignored))
		return false;
	version = json_str(metadata, "resourceVersion");
	if (str_empty(version) || strlen(version) >= sizeof(w->version))
		return false;
	*ret = xstrdup(version);
	return true;
}

/* True: there is nobody to tell all objects to, or this was the last page of them. */
static bool watch_consume_page(struct kube_watch *w, const struct http_result *r)
{
	enum watch_page page = w->follow ? watch_all_page(w, r) : PAGE_LAST;
	if (page == PAGE_NOT_THE_LAST)
		list_ask(w);
	else if (page == PAGE_UNUSABLE)
		watch_failed(w, "list", r);
	return page == PAGE_LAST;
}

/* Resumes at the resume point, or lists all objects if the server is at an earlier version. */
static void resume_point_checked(struct kube_watch *w, struct line_span version)
{
	w->unverified = false;
	if (watch_is_reverted(w, version)) {
		metric_add(METRIC_WATCH_RESTARTS, 1, LABELS(w->kind.plural, "reverted"));
		watch_end_live(w);
	}
	go_on(w);
}

static void list_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	char *version AUTO(free) = NULL;
	assert(w->phase == WATCH_LISTING);
	kube_count("list", &w->kind, w->listed_at, r);
	if (r->end == HTTP_CANCELLED) {
		w->phase = WATCH_IDLE;
		return;
	}
	if (r->end != HTTP_ANSWERED || r->status != 200 || !watch_parse_version(w, r, &version)) {
		if (!w->verifying && watch_all_page_failed(w, r))
			list_ask(w);
		else
			watch_failed(w, "list", r);
		return;
	}
	if (w->verifying) {
		resume_point_checked(w, (struct line_span) { version, strlen(version) });
		return;
	}
	watch_set_version(w, (struct line_span) { version, strlen(version) });
	if (watch_consume_page(w, r)) {
		watch_begin_live(w);
		stream_start(w);
		watch_reads_start(w);
	}
}

static void list_send(struct kube_watch *w, const char *query)
{
	char *collection AUTO(free) = kube_path(&w->kind, w->ns, NULL);
	char *path AUTO(free) = xasprintf("%s%s", collection, query);
	struct http_request q = {
		.path = path, .deadline_at = kube_attempt_end(w->k), .on_done = list_done, .arg = w
	};
	http_timer_clear(w->k->http, &w->pause);
	w->phase = WATCH_LISTING;
	w->tried_at = w->listed_at = monotonic_ns();
	(void)kube_get_start(w->k, &q, w->reread_credentials);
}

static void list_ask(struct kube_watch *w)
{
	char *query AUTO(free) = w->follow ? watch_all_page_query(w) : xstrdup("?limit=1");
	w->verifying = false;
	list_send(w, query);
}

/*
 * A list of one object, for its resourceVersion: while no stream was open, the server's data may
 * have been replaced by older data.
 */
static void check_start(struct kube_watch *w)
{
	if (is_too_soon(w, w->listed_at))
		return;
	w->verifying = true;
	list_send(w, "?limit=1");
}

static void list_start(struct kube_watch *w)
{
	if (is_too_soon(w, w->listed_at))
		return;
	if (watch_all_by_stream(w))
		full_stream_ask(w);
	else
		list_ask(w);
}

/* ---- stream ---- */

static void stream_opened(struct kube_watch *w)
{
	w->phase = WATCH_STREAMING;
	w->opened_at = monotonic_ns();
	w->reread_credentials = false;
	w->asked_again = false;
	watch_set_open(w);
}

static bool stream_bytes(void *arg, const char *bytes, size_t n)
{
	struct kube_watch *w = arg;
	assert(w->phase == WATCH_OPENING || w->phase == WATCH_STREAMING);
	if (n == 0)
		stream_opened(w);
	return watch_receive_bytes(w, bytes, n);
}

static bool was_healthy(const struct kube_watch *w)
{
	return w->phase == WATCH_STREAMING &&
	       monotonic_ns() - w->opened_at >= HEALTHY_MS * NS_PER_MS;
}

static void stream_pause(struct kube_watch *w, const char *why)
{
	if (w->resume != RESUME_UNCLEAR) /* else `down` says more already */
		watch_set_down(w, why);
	log_limited(LOG_WARNING, 30, "watch %s: %s; trying again", w->kind.plural, why);
	backoff(w, w->k->tuning.watch_backoff_ms, 0);
}

/* The end of a stream that had begun, or whose resume point has expired. */
static void stream_ended(struct kube_watch *w, const char *why)
{
	if (was_healthy(w))
		w->failures = 0;
	if (w->resume != RESUME_KNOWN)
		watch_end_live(w);
	/* A server that says 410 works again, whatever it did before: no pause, but only once. */
	if ((w->resume == RESUME_EXPIRED || w->resume == RESUME_REVERTED) && !w->relisted) {
		w->relisted = true;
		list_start(w);
		return;
	}
	w->trouble = TROUBLE_UNREACHABLE;
	if (w->resume == RESUME_UNCLEAR || w->failures > 0) {
		stream_pause(w, why);
		return;
	}
	w->failures++; /* until a stream has lived for a while */
	go_on(w);
}

static const char *why_ended(const struct kube_watch *w, const struct http_result *r)
{
	if (w->resume != RESUME_KNOWN)
		return "lost its resume point";
	return r->why[0] ? r->why : "the server ended it at once";
}

/* For /metrics: why a stream has ended, or was none. */
static const char *restart_word(const struct kube_watch *w, const struct http_result *r)
{
	if (r->end == HTTP_RETIRED)
		return "retired";
	if (w->resume == RESUME_EXPIRED || (r->end == HTTP_ANSWERED && r->status == 410))
		return "expired";
	if (w->resume == RESUME_REVERTED)
		return "reverted";
	if (w->resume == RESUME_UNCLEAR)
		return "unclear";
	if (r->end == HTTP_ANSWERED)
		return w->phase == WATCH_STREAMING ? "ended" : "refused";
	return "unreachable";
}

static void stream_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	bool gave_up = watch_all_gave_up(w);
	assert(w->phase == WATCH_OPENING || w->phase == WATCH_STREAMING);
	w->stream = NULL;
	if (r->end == HTTP_CANCELLED && !gave_up && w->resume == RESUME_KNOWN) {
		w->phase = WATCH_IDLE;
		return;
	}
	watch_set_closed(w);
	metric_add(METRIC_WATCH_RESTARTS, 1, LABELS(w->kind.plural, restart_word(w, r)));
	w->unverified = w->phase == WATCH_OPENING || r->end != HTTP_ANSWERED;
	if (watch_all_fill_ended(w, r) && (w->phase == WATCH_OPENING || gave_up)) {
		list_ask(w);
		return;
	}
	if (r->end == HTTP_ANSWERED && r->status == 410)
		w->resume = RESUME_EXPIRED;
	if (r->end == HTTP_RETIRED)
		go_on(w);
	else if (w->phase == WATCH_STREAMING || w->resume != RESUME_KNOWN)
		stream_ended(w, why_ended(w, r));
	else
		watch_failed(w, "watch", r);
}

/* `from` is the part of the query that says where the stream begins. */
static void stream_ask(struct kube_watch *w, const char *from)
{
	struct kube *k = w->k;
	unsigned base = (unsigned)k->tuning.watch_timeout_s;
	char *collection AUTO(free) = kube_path(&w->kind, w->ns, NULL);
	char *path AUTO(free) =
		xasprintf("%s?watch=1&allowWatchBookmarks=true&%s&timeoutSeconds=%u", collection,
	                  from, base + arc4random_uniform(base / 4 + 1));
	struct http_request q = { .path = path,
		                  .stream = true,
		                  .silence_ms = k->tuning.watch_silence_ms,
		                  .open_ms = k->tuning.attempt_ms,
		                  .on_bytes = stream_bytes,
		                  .on_done = stream_done,
		                  .arg = w };
	http_timer_clear(k->http, &w->pause);
	w->phase = WATCH_OPENING;
	w->tried_at = w->streamed_at = monotonic_ns();
	w->resume = RESUME_KNOWN;
	str_reset(&w->line);
	w->stream = kube_get_start(w->k, &q, w->reread_credentials);
}

/* Takes the part of a list: there is no resume point to begin from, the stream brings all objects.
 */
static void full_stream_ask(struct kube_watch *w)
{
	w->listed_at = monotonic_ns();
	watch_all_fill(w);
	stream_ask(w, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
}

static void stream_start(struct kube_watch *w)
{
	char *from AUTO(free) = xasprintf("resourceVersion=%s", w->version);
	assert(w->trouble != TROUBLE_PERMANENT); /* a list has ended it */
	assert(w->version[0]);
	if (!is_too_soon(w, w->streamed_at))
		stream_ask(w, from);
}
