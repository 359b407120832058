/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One watch per collection, on the HTTP engine's thread. This file determines which event of the
 * state machine has happened, and executes the actions from its table (kube_watch_table.c).
 * docs/reference/watch.md describes the theory of operation. kube_watch_events.c reads the lines of
 * a stream; kube_watch_state.c has the state of a watch that other threads see.
 *
 * Everything here runs on the engine's thread except watch_for() and kube_watches_stop(); the
 * client's lock guards the fields that kube_watch.h marks.
 */
#include "kube/kube_version.h"
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"

#define HEALTHY_MS 1000 /* a stream that was open for this time does not count as a failure */
#define APART_MS 200    /* between two lists, or two streams, even if the server requests less */
#define LONG_MS 1000    /* the first pause after a permanent error */
#define RESUME_TRIES 3  /* consecutive failures before the resume point is abandoned */

static void watch_run(void *arg);
static void watch_pause_end(void *arg);
static void watch_filled(struct kube_watch *w);

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
		                       .kind = xstrdup(kind->kind),
		                       .serves = kind->serves };
	w->ns = xstrdup_or_null(ns);
	str_init(&w->line, LIMIT_HTTP_WATCH_LINE);
	w->pause = (struct http_timer) { .fn = watch_pause_end, .arg = w };
	w->run = watch_run;
	w->on_filled = watch_filled;
	w->state = WATCH_IDLE;
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

/* ---- requests ---- */

struct watch_failure {
	struct err err;
	int asked_ms; /* Retry-After */
};
static void watch_handle(struct kube_watch *w, enum watch_event event,
                         const struct watch_failure *f);
static void watch_list_done(void *arg, struct http_result *r);
static bool stream_bytes(void *arg, const char *bytes, size_t n);
static void watch_stream_done(void *arg, struct http_result *r);

static void pause_for(struct kube_watch *w, int ms)
{
	w->state = WATCH_PAUSED;
	http_timer_set(w->k->http, &w->pause, monotonic_ns() + ms * NS_PER_MS);
}

/*
 * Pauses until the request is allowed if a list or stream would follow the last one of its kind too
 * soon.
 */
static bool is_too_soon(struct kube_watch *w, int64_t last)
{
	int64_t ms = (monotonic_ns() - last) / NS_PER_MS;
	if (last == 0 || ms >= APART_MS)
		return false;
	pause_for(w, APART_MS - (int)ms);
	return true;
}

static void list_send(struct kube_watch *w, enum watch_state state, const char *query)
{
	char version[KUBE_VERSION_MAX];
	char *collection AUTO(free) =
		kube_path(&w->kind, kube_version(w->k, &w->kind, version), w->ns, NULL);
	char *path AUTO(free) = xasprintf("%s%s", collection, query);
	struct http_request q = { .path = path,
		                  .deadline_at = kube_attempt_end(w->k),
		                  .on_done = watch_list_done,
		                  .arg = w };
	http_timer_clear(w->k->http, &w->pause);
	w->state = state;
	w->tried_at = w->listed_at = monotonic_ns();
	(void)kube_get_start(w->k, &q, w->reread_credentials);
}

static void list_request(struct kube_watch *w)
{
	char *query AUTO(free) = w->follow ? watch_all_page_query(w) : xstrdup("?limit=1");
	list_send(w, WATCH_LISTING, query);
}

/* `from` is the part of the query that sets the start of the stream. */
static void watch_stream_request(struct kube_watch *w, const char *from)
{
	struct kube *k = w->k;
	unsigned base = (unsigned)k->tuning.watch_timeout_s;
	char version[KUBE_VERSION_MAX];
	char *collection AUTO(free) =
		kube_path(&w->kind, kube_version(w->k, &w->kind, version), w->ns, NULL);
	char *path AUTO(free) =
		xasprintf("%s?watch=1&allowWatchBookmarks=true&%s&timeoutSeconds=%u", collection,
	                  from, base + arc4random_uniform(base / 4 + 1));
	struct http_request q = { .path = path,
		                  .stream = true,
		                  .silence_ms = k->tuning.watch_silence_ms,
		                  .open_ms = k->tuning.attempt_ms,
		                  .on_bytes = stream_bytes,
		                  .on_done = watch_stream_done,
		                  .arg = w };
	http_timer_clear(k->http, &w->pause);
	w->state = WATCH_OPENING;
	w->tried_at = w->streamed_at = monotonic_ns();
	w->resume = RESUME_KNOWN;
	str_reset(&w->line);
	w->stream = kube_get_start(w->k, &q, w->reread_credentials);
}

/*
 * Requests a stream that delivers all objects, in place of a list, because there is no resume
 * point.
 */
static void full_stream_request(struct kube_watch *w)
{
	w->listed_at = monotonic_ns();
	watch_all_fill(w);
	watch_stream_request(w, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
}

/* Executes the next state WATCH_START. */
static void watch_start(struct kube_watch *w)
{
	bool live = watch_is_live(w), stream = live && !w->unverified;
	char *from AUTO(free) = xasprintf("resourceVersion=%s", w->version);
	assert(!stream || (w->version[0] && w->trouble != TROUBLE_PERMANENT));
	if (is_too_soon(w, stream ? w->streamed_at : w->listed_at))
		return;
	if (stream)
		watch_stream_request(w, from);
	else if (live)
		list_send(w, WATCH_VERIFYING, "?limit=1");
	else if (watch_all_by_stream(w))
		full_stream_request(w);
	else
		list_request(w);
}

/* ---- the state machine ---- */

static void watch_report(struct kube_watch *w, const struct err *err)
{
	watch_all_refused(w, err->msg);
	WITH_LOCK(&w->k->lock);
	waits_notify_error(&w->waits, err);
}

static void give_up(struct kube_watch *w)
{
	if (w->failures < RESUME_TRIES)
		return;
	watch_end_live(w);
	watch_all_restart(w);
}

static void watch_act(struct kube_watch *w, unsigned actions, const struct watch_failure *f)
{
	if (actions & WATCH_END_LIVE)
		watch_end_live(w);
	if (actions & WATCH_GIVE_UP)
		give_up(w);
	if (actions & WATCH_REPORT)
		watch_report(w, &f->err);
	if (actions & WATCH_CANCEL) {
		w->resume = RESUME_REVERTED;
		http_cancel(w->k->http, w->stream);
	}
	if (actions & WATCH_SET_OPEN) {
		w->opened_at = monotonic_ns();
		w->reread_credentials = w->asked_again = false;
		watch_set_open(w);
	}
	if (actions & (WATCH_COUNT | WATCH_BACKOFF | WATCH_BACKOFF_LONG))
		w->failures++;
	w->relisted |= (actions & WATCH_RELIST) != 0;
	w->reread_credentials |= (actions & WATCH_REREAD) != 0;
	w->asked_again |= (actions & WATCH_REPEAT) != 0;
	if (actions & WATCH_BEGIN_LIVE)
		watch_begin_live(w);
}

static int pause_ms(const struct kube_watch *w, unsigned actions, const struct watch_failure *f)
{
	const struct kube_tuning *t = &w->k->tuning;
	if (actions & WATCH_REPEAT)
		return t->mistake_ms;
	if (actions & WATCH_BACKOFF_LONG)
		return kube_backoff_ms(w->failures, LONG_MS, t->watch_backoff_most_ms);
	if (actions & WATCH_BACKOFF)
		return (f ? f->asked_ms : 0) +
		       kube_backoff_ms(w->failures, t->watch_backoff_ms, t->watch_backoff_most_ms);
	return 0;
}

/* `f` may be NULL if the event is not a failure of a list or stream. */
static void watch_handle(struct kube_watch *w, enum watch_event event,
                         const struct watch_failure *f)
{
	const struct watch_step *s = watch_step_of(w->state, event);
	assert(s->next != WATCH_NONE);
	if (s->trouble != TROUBLE_NONE)
		w->trouble = s->trouble;
	watch_act(w, s->actions, f);
	if (s->next == WATCH_START)
		watch_start(w);
	else if (s->next == WATCH_LISTING)
		list_request(w);
	else if (s->next == WATCH_PAUSED)
		pause_for(w, pause_ms(w, s->actions, f));
	else if (s->next != WATCH_STAY)
		w->state = s->next;
	if ((s->actions & WATCH_READ) && watch_is_live(w))
		watch_reads_start(w);
}

/* ---- events: callers, pauses, failures ---- */

/*
 * Returns true if the server was unreachable and a caller's request has just been answered, or if
 * an error was reported and its cause may no longer exist.
 */
static bool may_retry(const struct kube_watch *w)
{
	if (w->trouble == TROUBLE_UNREACHABLE)
		return atomic_load(&w->k->answered_at) > w->tried_at;
	return w->trouble == TROUBLE_PERMANENT &&
	       monotonic_ns() - w->tried_at > LONG_MS * NS_PER_MS;
}

/*
 * Runs after a wait was opened, a caller has begun to wait for its object, or an answer has
 * contradicted the resume point.
 */
static void watch_run(void *arg)
{
	struct kube_watch *w = arg;
	{
		WITH_LOCK(&w->k->lock);
		w->run_posted = false;
	}
	watch_resync_start(w);
	if (watch_consume_refuted(w))
		watch_handle(w, WATCH_ON_REFUTED, NULL);
	watch_handle(w, w->state == WATCH_PAUSED && may_retry(w) ? WATCH_ON_RETRY : WATCH_ON_DEMAND,
	             NULL);
}

static void watch_filled(struct kube_watch *w)
{
	watch_handle(w, WATCH_ON_FILLED, NULL);
}

static bool is_used(struct kube_watch *w)
{
	WITH_LOCK(&w->k->lock);
	return w->waits.first != NULL || w->follow;
}

static void watch_pause_end(void *arg)
{
	struct kube_watch *w = arg;
	bool unused = w->trouble == TROUBLE_PERMANENT && !is_used(w);
	watch_handle(w, unused ? WATCH_ON_UNUSED : WATCH_ON_PAUSE_END, NULL);
}

static enum watch_event failure_event(const struct kube_watch *w, const struct http_result *r,
                                      const struct err *err)
{
	bool answered = r->end == HTTP_ANSWERED;
	if (answered && r->status == 401 && !w->reread_credentials)
		return WATCH_ON_UNAUTHORIZED;
	if (kube_status_may_be_mistaken(r) && w->trouble != TROUBLE_PERMANENT && !w->asked_again)
		return WATCH_ON_MISTAKE;
	if (!answered)
		return WATCH_ON_UNREACHABLE;
	return kube_passes_by_itself(err) ? WATCH_ON_BUSY : WATCH_ON_PERMANENT;
}

/* Handles a list or a stream that could not be opened. */
static void watch_failed(struct kube_watch *w, const char *verb, const struct http_result *r)
{
	const struct kube_target t = { .verb = verb, .kind = &w->kind, .ns = w->ns };
	struct watch_failure f = { .err = ERR_INIT, .asked_ms = kube_asked_ms(r) };
	enum watch_event event;
	kube_target_failed(w->k, &t, r, &f.err);
	kube_version_read(w->k, &w->kind, r);
	event = failure_event(w, r, &f.err);
	if (event != WATCH_ON_UNAUTHORIZED) {
		watch_set_down(w, f.err.msg);
		log_limited(LOG_WARNING, 30, "%s; retrying", f.err.msg);
	}
	watch_handle(w, event, &f);
}

/* ---- events: lists ---- */

/*
 * Sets *ret to the server's version from the answer to a list, malloc'ed. Returns false if it is
 * not a list.
 */
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

static void list_verified(struct kube_watch *w, struct line_span version)
{
	bool reverted = watch_is_reverted(w, version);
	w->unverified = false;
	if (reverted)
		metric_add(METRIC_WATCH_RESTARTS, 1, LABELS(w->kind.plural, "reverted"));
	watch_handle(w, reverted ? WATCH_ON_REVERTED : WATCH_ON_VERIFIED, NULL);
}

static void list_received(struct kube_watch *w, const struct http_result *r,
                          struct line_span version)
{
	enum watch_page page;
	watch_set_version(w, version);
	page = w->follow ? watch_all_page(w, r) : PAGE_LAST;
	if (page == PAGE_UNUSABLE)
		watch_failed(w, "list", r);
	else
		watch_handle(w, page == PAGE_LAST ? WATCH_ON_LISTED : WATCH_ON_PAGE, NULL);
}

static void watch_list_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	char *version AUTO(free) = NULL;
	kube_count("list", &w->kind, w->listed_at, r);
	if (r->end == HTTP_CANCELLED) {
		watch_handle(w, WATCH_ON_CANCELLED, NULL);
	} else if (r->end == HTTP_ANSWERED && r->status == 200 &&
	           watch_parse_version(w, r, &version)) {
		struct line_span span = { version, strlen(version) };
		if (w->state == WATCH_VERIFYING)
			list_verified(w, span);
		else
			list_received(w, r, span);
	} else if (w->state == WATCH_LISTING && watch_all_page_failed(w, r)) {
		watch_handle(w, WATCH_ON_PAGE, NULL);
	} else {
		watch_failed(w, "list", r);
	}
}

/* ---- events: streams ---- */

static bool stream_bytes(void *arg, const char *bytes, size_t n)
{
	struct kube_watch *w = arg;
	assert(w->state == WATCH_OPENING || w->state == WATCH_STREAMING);
	if (n == 0)
		watch_handle(w, WATCH_ON_OPENED, NULL);
	return watch_receive_bytes(w, bytes, n);
}

static enum watch_event end_event(const struct kube_watch *w)
{
	bool early = w->failures > 0;
	if (w->resume == RESUME_KNOWN)
		return early ? WATCH_ON_ENDED_EARLY : WATCH_ON_ENDED;
	if (w->resume == RESUME_UNCLEAR)
		return WATCH_ON_UNUSABLE;
	/* A server that answers 410 is working again: no pause, once. */
	if (!w->relisted)
		return WATCH_ON_LOST;
	return early ? WATCH_ON_LOST_EARLY : WATCH_ON_LOST_AGAIN;
}

static const char *why_ended(const struct kube_watch *w, const struct http_result *r)
{
	if (w->resume != RESUME_KNOWN)
		return "lost its resume point";
	return r->why[0] ? r->why : "the server ended it at once";
}

/* Handles the end of a stream that had begun, or whose resume point has expired. */
static void stream_ended(struct kube_watch *w, const char *why)
{
	enum watch_event event;
	bool paused;
	if (w->state == WATCH_STREAMING && monotonic_ns() - w->opened_at >= HEALTHY_MS * NS_PER_MS)
		w->failures = 0;
	event = end_event(w);
	paused = watch_step_of(w->state, event)->next == WATCH_PAUSED;
	if (paused && event != WATCH_ON_UNUSABLE) /* else `down` is already more specific */
		watch_set_down(w, why);
	if (paused || w->unverified)
		log_limited(LOG_WARNING, 30, "watch %s: %s; retrying", w->kind.plural, why);
	watch_handle(w, event, NULL);
}

/* Returns the label for /metrics: why a stream has ended, or was not opened. */
static const char *watch_restart_label(const struct kube_watch *w, const struct http_result *r)
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
		return w->state == WATCH_STREAMING ? "ended" : "refused";
	return "unreachable";
}

static void watch_stream_done(void *arg, struct http_result *r)
{
	struct kube_watch *w = arg;
	bool gave_up = watch_all_gave_up(w), not_filled;
	assert(w->state == WATCH_OPENING || w->state == WATCH_STREAMING);
	w->stream = NULL;
	if (r->end == HTTP_CANCELLED && !gave_up && w->resume == RESUME_KNOWN) {
		watch_handle(w, WATCH_ON_CANCELLED, NULL);
		return;
	}
	watch_set_closed(w);
	metric_add(METRIC_WATCH_RESTARTS, 1, LABELS(w->kind.plural, watch_restart_label(w, r)));
	w->unverified = w->state == WATCH_OPENING || r->end != HTTP_ANSWERED;
	not_filled = watch_all_fill_ended(w, r) && (w->state == WATCH_OPENING || gave_up);
	if (r->end == HTTP_ANSWERED && r->status == 410)
		w->resume = RESUME_EXPIRED;
	if (not_filled)
		watch_handle(w, WATCH_ON_NOT_FILLED, NULL);
	else if (r->end == HTTP_RETIRED)
		watch_handle(w, WATCH_ON_RETIRED, NULL);
	else if (w->state == WATCH_STREAMING || w->resume != RESUME_KNOWN)
		stream_ended(w, why_ended(w, r));
	else
		watch_failed(w, "watch", r);
}
