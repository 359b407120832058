/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the awaited objects of a watch one by one, if events may have been missed or a deletion has
 * to be confirmed. The resync also reads objects without events at intervals, because an open watch
 * may be silent, and a watch that cannot be opened has no events. Runs on the HTTP engine's thread.
 * kube_watch.c decides when to begin; kube_waits.c decides which results are still accepted, and
 * which object is read next.
 */
#include "kube/kube_version.h"
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/log.h"
#include "common/mem.h"

/*
 * Concurrent reads of a collection. A lost resume point affects each of 2,000 waits, and the
 * engine's queue is FIFO, so callers' requests would wait behind all of these reads. This number
 * leaves callers half of the engine (LIMIT_HTTP_IN_FLIGHT) when three collections read at once. If
 * an answer takes 5 ms, all 2,000 objects are read in less than a second.
 */
#define READS_AT_ONCE 16
#define RESYNC_TICK_MS 500
#define RESYNC_PER_TICK 5
#define RESYNC_BACKOFF_MOST_MS 5000

/* One read in progress. */
struct reading {
	struct kube_watch *w;
	/* the waits compare it to decide whether the result is still accepted */
	unsigned long number;
	char *name;
	bool resync; /* no change is known to be missed, so a failure is not reported */
};

static void resync_failed(const struct reading *reading, const struct http_result *r)
{
	struct kube_watch *w = reading->w;
	int ms = kube_backoff_ms(++w->resync_failures, RESYNC_TICK_MS, RESYNC_BACKOFF_MOST_MS);
	http_timer_set(w->k->http, &w->resync,
	               monotonic_ns() + (kube_asked_ms(r) + ms) * NS_PER_MS);
	WITH_LOCK(&w->k->lock);
	w->resyncing = true;
	waits_read_dropped(&w->waits, reading->name, reading->number);
}

/*
 * Returns true for a refusal that may be a mistake. Only a read that began after the first refusal
 * arrived confirms the refusal.
 */
static bool is_doubtful(const struct reading *reading, const struct http_result *r)
{
	struct kube_watch *w = reading->w;
	if (!kube_status_may_be_mistaken(r))
		return false;
	if (w->refused == 0)
		w->refused = w->reads;
	return reading->number <= w->refused;
}

static void watch_read_result(const struct reading *reading, const struct http_result *r)
{
	struct kube_watch *w = reading->w;
	const char *name = reading->name;
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	const struct kube_target t = { .verb = "get", .kind = &w->kind, .ns = w->ns, .name = name };
	bool found = r->end == HTTP_ANSWERED && r->status == 200 && r->body &&
	             json_parse(name, r->body, r->body_n, &object, &err) == 0 &&
	             kube_is_object(&t, name, object);
	const char *version = json_str(object, "metadata.resourceVersion");
	struct kube_event e = { .object = { r->body, r->body_n },
		                .resource_version = { version, version ? strlen(version) : 0 } };
	bool none = kube_status_no_object(&t, r);
	bool later = false, mistaken = false;
	int ms;
	err_clear(&err);
	if (!found && !none && reading->resync) {
		resync_failed(reading, r);
		return;
	}
	if (reading->resync)
		w->resync_failures = 0;
	if (!found && !none) {
		kube_target_failed(w->k, &t, r, &err);
		mistaken = is_doubtful(reading, r);
		later = mistaken || kube_passes_by_itself(&err);
	} else {
		w->refused = 0;
	}
	if (r->status == 401)
		w->reread_credentials = true;
	{
		WITH_LOCK(&w->k->lock);
		if (found)
			waits_notify_read(&w->waits, name, reading->number, &e);
		else if (none)
			waits_notify_read(&w->waits, name, reading->number, NULL);
		else if (later)
			waits_read_again(&w->waits, name, reading->number);
		else
			waits_notify_read_error(&w->waits, name, reading->number, &err);
	}
	if (!later) {
		w->read_failures = 0;
		return;
	}
	log_limited(LOG_WARNING, 30, "%s; retrying", err.msg);
	ms = mistaken ? w->k->tuning.mistake_ms
	              : kube_backoff_ms(++w->read_failures, w->k->tuning.watch_backoff_ms,
	                                w->k->tuning.watch_backoff_most_ms);
	http_timer_set(w->k->http, &w->read_pause,
	               monotonic_ns() + (kube_asked_ms(r) + ms) * NS_PER_MS);
}

static void watch_read_done(void *arg, struct http_result *r)
{
	struct reading *reading = arg;
	struct kube_watch *w = reading->w;
	bool cancelled = r->end == HTTP_CANCELLED;
	assert(w->reads_under_way > 0);
	w->reads_under_way--;
	kube_trim_soon(w->k, r->body_n);
	if (!cancelled)
		watch_read_result(reading, r);
	free(reading->name);
	free(reading);
	if (!cancelled && watch_is_live(w))
		watch_reads_start(w);
}

static void watch_read_start(struct kube_watch *w, char *name, bool resync)
{
	struct reading *reading = xcalloc(1, sizeof(*reading));
	char version[KUBE_VERSION_MAX];
	char *path AUTO(free) =
		kube_path(&w->kind, kube_version(w->k, &w->kind, version), w->ns, name);
	struct http_request q = { .path = path,
		                  .deadline_at = kube_attempt_end(w->k),
		                  .on_done = watch_read_done,
		                  .arg = reading };
	reading->w = w;
	reading->number = ++w->reads;
	reading->name = name;
	reading->resync = resync;
	w->reads_under_way++;
	(void)kube_get_start(w->k, &q, w->reread_credentials);
}

static char *next_unread(struct kube_watch *w)
{
	if (w->reads_under_way >= READS_AT_ONCE)
		return NULL;
	WITH_LOCK(&w->k->lock);
	return waits_next_unread(&w->waits, w->reads + 1);
}

void watch_reads_start(struct kube_watch *w)
{
	char *name;
	if (w->read_pause.set)
		return;
	while ((name = next_unread(w)))
		watch_read_start(w, name, false);
}

/* ---- resync ---- */

static char *next_resync(struct kube_watch *w)
{
	int64_t ms = w->k->tuning.resync_ms;
	int64_t every = ms + arc4random_uniform((uint32_t)(ms / 2 + 1)) - ms / 4;
	if (w->reads_under_way >= READS_AT_ONCE)
		return NULL;
	WITH_LOCK(&w->k->lock);
	return waits_next_resync(&w->waits, w->reads + 1, monotonic_ns(), every * NS_PER_MS);
}

void watch_resync_start(struct kube_watch *w)
{
	{
		WITH_LOCK(&w->k->lock);
		w->resyncing = w->waits.first != NULL && !w->k->stopping;
		if (!w->resyncing)
			return;
	}
	if (!w->resync.set)
		http_timer_set(w->k->http, &w->resync, monotonic_ns() + RESYNC_TICK_MS * NS_PER_MS);
}

static void resync_tick(void *arg)
{
	struct kube_watch *w = arg;
	char *name;
	for (int i = 0; i < RESYNC_PER_TICK && (name = next_resync(w)); i++)
		watch_read_start(w, name, true);
	watch_resync_start(w);
}

static void read_pause_over(void *arg)
{
	struct kube_watch *w = arg;
	if (watch_is_live(w))
		watch_reads_start(w);
}

void watch_reads_init(struct kube_watch *w)
{
	w->read_pause = (struct http_timer) { .fn = read_pause_over, .arg = w };
	w->resync = (struct http_timer) { .fn = resync_tick, .arg = w };
}
