/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the bytes of a stream into lines and events, notifies waits and followers, and advances
 * the resume point. A reason to end the stream (410, an unreadable line) is only recorded here, in
 * w->resume; kube_watch.c acts on it. Runs on the engine's thread.
 */
#include "kube/kube_watch.h"

#include <string.h>

#include "common/metric.h"

#define LINE_KEEP (64 * 1024) /* memory kept between lines */

static void watch_set_unclear(struct kube_watch *w, const char *why)
{
	w->resume = RESUME_UNCLEAR;
	watch_set_down(w, why);
}

/* The server ends a watch with a Status: 410 if it has discarded the resume point. */
static void watch_error_event(struct kube_watch *w, const struct kube_event *e)
{
	struct json *status AUTO(json_free) = NULL;
	const struct kube_target t = { .verb = "watch", .kind = &w->kind, .ns = w->ns };
	struct err err = ERR_INIT;
	int64_t code = 0;
	if (json_parse("watch", e->object.at, e->object.n, &status, &err) ||
	    json_get_i64(status, "code", &code, &err) < 0)
		err_clear(&err);
	if (code == 410) {
		w->resume = RESUME_EXPIRED;
		return;
	}
	kube_status_error_of(&t, (int)code, status, &err);
	watch_set_unclear(w, err.msg);
}

static void object_event(struct kube_watch *w, const struct kube_event *e)
{
	watch_all_changed(w, e);
	WITH_LOCK(&w->k->lock);
	if (waits_notify(&w->waits, e))
		watch_kick(w);
}

static void advance(struct kube_watch *w, struct line_span version)
{
	if (version.n > 0)
		watch_set_version(w, version);
}

/* Existing objects arrive in any order, so the resume point is known only after the last one. */
static void watch_filling_event(struct kube_watch *w, const struct kube_event *e)
{
	switch (watch_all_filled(w, e)) {
	case FILL_NOT_SERVED:
		watch_set_unclear(w, "the server does not send all objects in a stream");
		break;
	case FILL_COMPLETE:
		advance(w, e->resource_version);
		w->on_filled(w);
		break;
	case FILL_GOES_ON:
		break;
	}
}

static void watch_line_event(struct kube_watch *w)
{
	struct kube_event e;
	metric_add(METRIC_WATCH_EVENTS, 1, LABELS(w->kind.plural));
	kube_count_response();
	if (!kube_event_scan(w->line.ptr, w->line.len, &e) ||
	    e.resource_version.n >= sizeof(w->version)) {
		watch_set_unclear(w, "the watch sent a line that is not an event");
		return;
	}
	if (e.type == EVENT_ERROR) {
		watch_error_event(w, &e);
		return;
	}
	if (w->follow && w->follow->filling) {
		watch_filling_event(w, &e);
		return;
	}
	if (e.type == EVENT_BOOKMARK && watch_is_refuted(w, e.resource_version)) {
		w->resume = RESUME_REVERTED;
		return;
	}
	w->relisted = false;
	if (e.type != EVENT_BOOKMARK)
		object_event(w, &e);
	advance(w, e.resource_version);
}

static void line_end(struct kube_watch *w)
{
	if (w->line.len > 0)
		watch_line_event(w);
	if (w->line.cap > LINE_KEEP)
		str_clear(&w->line);
	else
		str_reset(&w->line);
}

bool watch_receive_bytes(struct kube_watch *w, const char *bytes, size_t n)
{
	while (n > 0 && w->resume == RESUME_KNOWN) {
		const char *newline = memchr(bytes, '\n', n);
		size_t piece = newline ? (size_t)(newline - bytes) : n;
		if (!str_addn(&w->line, bytes, piece))
			watch_set_unclear(w, "the watch sent a line above the limit");
		else if (newline)
			line_end(w);
		piece += newline ? 1 : 0;
		bytes += piece;
		n -= piece;
	}
	return w->resume == RESUME_KNOWN;
}
