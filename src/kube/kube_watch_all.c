/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivers events to a watch's follower (kube_follow.h): first all objects, then their changes.
 *
 * If the server supports WatchList, all objects arrive in the watch's own stream, as ADDED events,
 * which a bookmark with an annotation ends. Otherwise they are listed page by page. A server
 * without WatchList answers 400 or 422, or sends a bookmark without the annotation. After
 * FULL_TRIES streams that ended too early, pages are tried, because they continue where they were
 * cut off. A server that ignores the option may answer with a plain watch, which delivers later
 * changes and no end mark, so a stream has a time limit of fill_ms plus NS_EACH per object. After a
 * slower stream, pages are requested; after FULL_TRIES consecutive slow streams, no full stream is
 * requested any more. A server whose cache lags behind its store sends an ERROR event ("Too large
 * resource version"). Because a list would cost the server more, the stream is requested
 * FULL_ERRORS times.
 *
 * No object is parsed or kept here. kube_watch.c decides when to begin. Runs on the engine's
 * thread.
 */
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"

#define FULL_TRIES 2
#define FULL_ERRORS 8
/* time per object: a full stream is faster than 500 objects a second, changes are slower */
#define NS_EACH INT64_C(2000000)
/* after a page that was too large, the limit is divided by this number */
#define SMALLER 4

static void follow_notify(struct kube_watch *w, enum kube_follow_event event, struct line_span text)
{
	w->follow->fn(w->follow->arg, event, text.at, text.n);
}

static void follow_begin(struct kube_watch *w)
{
	follow_notify(w, KUBE_FOLLOW_BEGIN, (struct line_span) { "", 0 });
}

void watch_all_refused(struct kube_watch *w, const char *why)
{
	if (w->follow)
		follow_notify(w, KUBE_FOLLOW_REFUSED, (struct line_span) { why, strlen(why) });
}

/* ---- all objects in a stream ---- */

bool watch_all_by_stream(const struct kube_watch *w)
{
	return w->follow && !w->follow->by_pages;
}

static void use_pages(struct kube_watch *w)
{
	log_msg(LOG_INFO,
	        "watch %s: the API server does not send all objects in a stream; they "
	        "are listed page by page",
	        w->kind.plural);
	w->follow->by_pages = true;
}

static void end_filling(struct kube_watch *w)
{
	w->follow->filling = false;
	http_timer_clear(w->k->http, &w->follow->patience);
}

/* A stream that was not answered yet has the timeout of any request. */
static int64_t patience_end(const struct kube_watch *w)
{
	int64_t from = w->state == WATCH_STREAMING ? w->opened_at : monotonic_ns();
	return from + w->k->tuning.fill_ms * NS_PER_MS + w->follow->listed * NS_EACH;
}

static void patience_over(void *arg)
{
	struct kube_watch *w = arg;
	struct kube_follow *f = w->follow;
	int64_t end = patience_end(w);
	if (monotonic_ns() < end) {
		http_timer_set(w->k->http, &f->patience, end);
		return;
	}
	f->too_slow++;
	use_pages(w);
	http_cancel(w->k->http, w->stream);
}

void watch_all_fill(struct kube_watch *w)
{
	struct kube_follow *f = w->follow;
	f->filling = true;
	f->listed = 0;
	f->patience = (struct http_timer) { .fn = patience_over, .arg = w };
	http_timer_set(w->k->http, &f->patience, patience_end(w));
	follow_begin(w);
}

bool watch_all_gave_up(const struct kube_watch *w)
{
	return w->follow && w->follow->filling && w->follow->by_pages;
}

bool watch_all_fill_ended(struct kube_watch *w, const struct http_result *r)
{
	struct kube_follow *f = w->follow;
	unsigned most = w->resume == RESUME_KNOWN ? FULL_TRIES : FULL_ERRORS;
	if (!f || !f->filling)
		return false;
	end_filling(w);
	if (r->end == HTTP_ANSWERED && (r->status == 400 || r->status == 422))
		use_pages(w);
	else if (w->state == WATCH_STREAMING && ++f->cut_short >= most)
		use_pages(w);
	return f->by_pages;
}

static bool ends_the_objects(const struct kube_event *e)
{
	struct kube_member metadata = { .name = "metadata" },
			   annotations = { .name = "annotations" };
	struct kube_member end = { .name = "k8s.io/initial-events-end" };
	return kube_members(e->object, &metadata, 1) &&
	       kube_members(metadata.value, &annotations, 1) &&
	       kube_members(annotations.value, &end, 1) && line_span_eq(end.value, "\"true\"");
}

enum watch_fill watch_all_filled(struct kube_watch *w, const struct kube_event *e)
{
	if (e->type == EVENT_ADDED || e->type == EVENT_MODIFIED) {
		w->follow->listed += e->type == EVENT_ADDED;
		follow_notify(w, KUBE_FOLLOW_LISTED, e->object);
		return FILL_GOES_ON;
	}
	/* Current changes may arrive among the objects, before the end mark. */
	if (e->type == EVENT_DELETED) {
		follow_notify(w, KUBE_FOLLOW_DELETED, e->object);
		return FILL_GOES_ON;
	}
	if (e->type != EVENT_BOOKMARK || !ends_the_objects(e) || e->resource_version.n == 0) {
		use_pages(w);
		return FILL_NOT_SERVED;
	}
	end_filling(w);
	w->follow->cut_short = w->follow->too_slow = 0;
	follow_notify(w, KUBE_FOLLOW_COMPLETE, (struct line_span) { "", 0 });
	return FILL_COMPLETE;
}

void watch_all_changed(struct kube_watch *w, const struct kube_event *e)
{
	if (w->follow)
		follow_notify(w,
		              e->type == EVENT_DELETED ? KUBE_FOLLOW_DELETED : KUBE_FOLLOW_CHANGED,
		              e->object);
}

/* ---- all objects in pages ---- */

char *watch_all_page_query(struct kube_watch *w)
{
	struct kube_follow *f = w->follow;
	struct str query AUTO(str_clear) = STR_INIT(64 * 1024);
	if (!f->limit)
		f->limit = w->k->tuning.page;
	if (!f->token)
		follow_begin(w);
	str_addf(&query, "?limit=%d", f->limit);
	if (f->token) {
		str_add(&query, "&continue=");
		kube_path_encode(&query, f->token);
	}
	return str_take(&query);
}

/* Returns false if the body is not a page. */
static bool follow_notify_items(struct kube_watch *w, struct kube_page *page)
{
	struct line_span item;
	int rc;
	while ((rc = kube_page_next(page, &item)) == 0)
		follow_notify(w, KUBE_FOLLOW_LISTED, item);
	return rc == KUBE_PAGE_END;
}

enum watch_page watch_all_page(struct kube_watch *w, const struct http_result *r)
{
	struct kube_follow *f = w->follow;
	struct json *metadata AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	struct kube_page page;
	const char *token;
	if (!kube_page_scan(r->body, r->body_n, w->kind.kind, &page) ||
	    json_parse("list", page.metadata.at, page.metadata.n, &metadata, &ignored) ||
	    !follow_notify_items(w, &page))
		return PAGE_UNUSABLE;
	kube_trim_soon(w->k, r->body_n);
	token = json_str(metadata, "continue");
	free(f->token);
	f->token = str_empty(token) ? NULL : xstrdup(token);
	if (f->token)
		return PAGE_NOT_THE_LAST;
	/* A single slow stream may be an exception. */
	if (f->too_slow > 0 && f->too_slow < FULL_TRIES)
		f->by_pages = false;
	follow_notify(w, KUBE_FOLLOW_COMPLETE, (struct line_span) { "", 0 });
	return PAGE_LAST;
}

void watch_all_restart(struct kube_watch *w)
{
	if (w->follow)
		free(TAKE(w->follow->token));
}

bool watch_all_page_failed(struct kube_watch *w, const struct http_result *r)
{
	struct kube_follow *f = w->follow;
	bool refused =
		r->end == HTTP_ANSWERED && r->status >= 400 && r->status < 500 && r->status != 429;
	if (!f)
		return false;
	if (r->end == HTTP_TOO_LARGE && f->limit > 1) {
		f->limit = f->limit > SMALLER ? f->limit / SMALLER : 1;
		return true;
	}
	/* the token has expired (410), or is not accepted: restart from the beginning */
	if (refused)
		watch_all_restart(w);
	return false;
}
