/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One open watch: lines of {"type": ..., "object": ...} for as long as the client has requested.
 *
 * Without a resourceVersion (or with "0") it starts with an ADDED for every object, followed, if
 * the client has sent sendInitialEvents, by a bookmark that marks their end; otherwise it starts
 * with the first event after that version, or with one ERROR 410 if the history does not reach back
 * so far. An object that starts or stops to match the selectors is ADDED or DELETED. Bookmarks are
 * sent every --bookmark-ms and at the end. It runs on its connection's thread, which sleeps in
 * poll() until an event arrives, the client leaves or the time is over.
 */
#include "test/sim/api/watch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "test/sim/api/selectors.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/kinds/served.h"
#include "test/sim/store/store.h"

#define LINE_MAX_BYTES (4 * 1024 * 1024)
#define DEFAULT_SECONDS 1800
#define MUTE_LOOK_MS 20 /* interval of checks for the end of a mute fault */

struct watch_stream {
	struct api_call call; /* sim and client_fd only: the request itself has ended */
	const struct api_resource *res;
	char *version; /* of the objects in the stream */
	char *ns;
	struct selectors selectors;
	struct watcher *watcher;
	/* Objects to be sent as ADDED; next_initial is the first one not yet sent. */
	struct store_page initial;
	size_t next_initial;
	struct deadline end, bookmark;
	bool bookmarks, ended, cut;
	bool mark_initial; /* a bookmark has to follow the initial objects */
	uint64_t rv;     /* the newest version that was sent, or that does not concern this watch */
	struct str line; /* read by the client up to offset */
	size_t offset;
};

static void add_line(struct watch_stream *w, const char *type, const char *object, size_t n)
{
	bool stored = str_eq(w->version, w->res->version);
	char *text AUTO(free) =
		stored ? NULL : served_convert(object, w->res, w->res->version, w->version);

	str_addf(&w->line, "{\"type\":\"%s\",\"object\":", type);
	if (stored)
		str_addn(&w->line, object, n);
	else
		str_add(&w->line, text);
	str_add(&w->line, "}\n");
}

static void add_error(struct watch_stream *w, uint64_t from)
{
	char *message AUTO(free) = xasprintf("too old resource version: %" PRIu64 " (%" PRIu64 ")",
	                                     from, store_rv(w->call.sim->store));
	struct json *status AUTO(json_free) = status_failure(410, NULL, message);
	char *text AUTO(free) = json_print(status);

	add_line(w, "ERROR", text, strlen(text));
	w->ended = true;
}

static void add_bookmark(struct watch_stream *w, const char *annotations)
{
	char *api_version AUTO(free) = resource_api_version(w->res);
	char *text AUTO(free) =
		xasprintf("{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{"
	                  "\"resourceVersion\":\"%" PRIu64 "\",\"creationTimestamp\":null%s}}",
	                  w->res->kind, api_version, w->rv, annotations);

	if (w->bookmarks)
		add_line(w, "BOOKMARK", text, strlen(text));
	w->bookmark = deadline_in_ms(w->call.sim->options->bookmark_ms);
}

static bool matches(const struct watch_stream *w, const struct object_version *v)
{
	return v && (!w->ns || str_eq(w->ns, v->ns)) && selectors_match(&w->selectors, v);
}

static void add_plain(struct watch_stream *w, const struct event *e)
{
	bool is = e->type != EVENT_DELETED && matches(w, e->now), was = matches(w, e->before);

	if (is)
		add_line(w, was ? "MODIFIED" : "ADDED", e->now->text, e->now->len);
	else if (was && e->type == EVENT_DELETED)
		add_line(w, "DELETED", e->now->text, e->now->len);
	else if (was) /* it no longer matches: the client gets its last state that did */
		add_line(w, "DELETED", e->before->text, e->before->len);
}

/* The API server's rules for watches that begin with all objects, and its texts. */
static const char *initial_refused(const struct api_call *call)
{
	bool wanted = call_query(call, "sendInitialEvents") != NULL;
	const char *match = call_query(call, "resourceVersionMatch");

	if (wanted && !str_eq(match, "NotOlderThan"))
		return "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
		       "resourceVersionMatch to NotOlderThan";
	if (wanted && call->sim->options->no_watch_list)
		return "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch "
		       "unless the WatchList feature gate is enabled";
	if (!wanted && !str_empty(match))
		return "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for "
		       "watch unless sendInitialEvents is provided";
	return NULL;
}

/* The life of an earlier object of that name: it exists, then it is deleted. */
static void add_foreign(struct watch_stream *w, const struct object_version *v)
{
	struct json *object AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;
	char *text AUTO(free) = NULL;

	if (json_parse("object", v->text, v->len, &object, &ignored))
		return;
	json_set_str(json_sub(object, "metadata"), "uid", "00000000-0000-4000-8000-00000000dead");
	text = json_print(object);
	add_line(w, "MODIFIED", text, strlen(text));
	add_line(w, "DELETED", text, strlen(text));
}

/* True: the fault has handled the event. */
static bool add_faulty(struct watch_stream *w, const struct event *e)
{
	unsigned ms = 0;

	switch (faults_event(w->call.sim->faults, w->res->plural, e->now->name, &ms)) {
	case EVENT_DROPPED:
		return true;
	case EVENT_LATE:
		if (call_wait(&w->call, -1, (int)ms) == WAIT_GONE)
			w->ended = true;
		return w->ended;
	case EVENT_TWICE:
		add_plain(w, e);
		return false;
	case EVENT_BACKWARDS:
		add_plain(w, e);
		if (e->before)
			add_line(w, "MODIFIED", e->before->text, e->before->len);
		return true;
	case EVENT_FOREIGN:
		add_foreign(w, e->now);
		return false;
	case EVENT_REPLACED_BY_ERROR:
		str_add(&w->line,
		        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n");
		return true;
	case EVENT_REPLACED_BY_GARBAGE:
		str_add(&w->line, "<html>\n");
		return true;
	case EVENT_AS_IT_IS:
	case EVENT_FAULTS:
		break;
	}
	return false;
}

static void add_event(struct watch_stream *w, const struct event *e)
{
	w->rv = e->rv;
	if (!add_faulty(w, e))
		add_plain(w, e);
}

/* 0 and *ret (untouched if the parameter is absent), or -1 and the reply. */
static int number(const struct api_call *call, const char *key, uint64_t *ret, struct reply *reply)
{
	const char *text = call_query(call, key);
	struct err err = ERR_INIT;

	if (str_empty(text))
		return 0;
	if (parse_u64(key, text, ret, &err) == 0)
		return 0;
	reply_failure(reply, 400, NULL, "%s", err.msg);
	return -1;
}

static void start(struct watch_stream *w, uint64_t from)
{
	struct store *store = w->call.sim->store;
	if (!from) {
		struct store_query query = {
			.res = w->res, .ns = w->ns, .match = selectors_match, .arg = &w->selectors
		};

		store_list(store, &query, &w->initial);
		from = w->initial.rv;
	}
	w->rv = from;
	if (store_watch(store, w->res, from, &w->watcher) == STORE_EXPIRED)
		add_error(w, from);
}

void api_watch(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct selectors selectors = { 0 };
	struct err err = ERR_INIT;
	uint64_t from = 0, seconds = DEFAULT_SECONDS;
	const char *refused = initial_refused(call);
	struct watch_stream *w;

	if (refused) {
		reply_failure(ret, 422, NULL, "ListOptions.meta.k8s.io \"\" is invalid: %s",
		              refused);
		return;
	}
	if (number(call, "resourceVersion", &from, ret) ||
	    number(call, "timeoutSeconds", &seconds, ret))
		return;
	if (selectors_parse(t->res, call_query(call, "labelSelector"),
	                    call_query(call, "fieldSelector"), &selectors, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->call = (struct api_call) { .sim = call->sim, .client_fd = call->client_fd };
	w->res = t->res;
	w->version = xstrdup(t->version);
	w->ns = xstrdup_or_null(t->ns);
	w->selectors = selectors;
	str_init(&w->line, LINE_MAX_BYTES);
	w->end = deadline_in_ms((int64_t)(seconds ? seconds : DEFAULT_SECONDS) * 1000);
	w->bookmarks = call_flag(call, "allowWatchBookmarks");
	w->bookmark = deadline_in_ms(call->sim->options->bookmark_ms);
	w->mark_initial = w->bookmarks && call_flag(call, "sendInitialEvents");
	start(w, from);
	ret->code = 200;
	ret->type = "application/json";
	ret->stream = w;
}

void watch_free(struct watch_stream *w)
{
	if (!w)
		return;
	if (w->watcher)
		watcher_close(w->watcher);
	store_page_clear(&w->initial);
	selectors_clear(&w->selectors);
	str_clear(&w->line);
	free(w->ns);
	free(w->version);
	free(w);
}

static bool next_initial(struct watch_stream *w)
{
	const struct object_version *v;

	if (w->next_initial == w->initial.n && w->mark_initial) {
		w->mark_initial = false;
		add_bookmark(w, ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}");
		return true;
	}
	if (w->next_initial == w->initial.n)
		return false;
	v = w->initial.v[w->next_initial++];
	add_line(w, "ADDED", v->text, v->len);
	return true;
}

/* Takes events until one makes a line. False: no event is pending. */
static bool next_event(struct watch_stream *w)
{
	struct event e = { 0 };

	while (!w->line.len) {
		enum watcher_news news = watcher_next(w->watcher, &e);

		if (news == NEWS_NONE) {
			w->rv = watcher_rv(w->watcher);
			return false;
		}
		if (news == NEWS_LOST) {
			add_error(w, w->rv);
			return true;
		}
		add_event(w, &e);
		event_clear(&e);
	}
	return true;
}

/* True: a fault ends this stream, or keeps it silent. */
static bool faulted(struct watch_stream *w)
{
	switch (faults_stream(w->call.sim->faults, w->res->plural)) {
	case STREAM_MUTE:
		/* Pending events cannot be awaited: the wait would end at once. */
		if (call_wait(&w->call, -1, MUTE_LOOK_MS) == WAIT_GONE || deadline_passed(w->end))
			w->ended = true;
		return true;
	case STREAM_DROPPED:
		w->ended = w->cut = true;
		return true;
	case STREAM_EXPIRED:
		add_error(w, w->rv);
		return true;
	case STREAM_GOES_ON:
		break;
	}
	return false;
}

static void wait_for_news(struct watch_stream *w)
{
	int left = deadline_left_ms(w->end), until_bookmark = deadline_left_ms(w->bookmark);
	int ms = left < until_bookmark ? left : until_bookmark;

	if (call_wait(&w->call, watcher_fd(w->watcher), ms) == WAIT_GONE)
		w->ended = true;
}

/* Produces the next line, or sets ended; blocks. */
static void produce(struct watch_stream *w)
{
	while (!w->line.len && !w->ended) {
		if (!served_has(w->res, w->version))
			w->ended = w->cut = true; /* as when a CRD changes */
		else if (faulted(w) || next_initial(w) || next_event(w))
			continue;
		if (deadline_passed(w->end)) {
			add_bookmark(w, "");
			w->ended = true;
		} else if (deadline_passed(w->bookmark)) {
			add_bookmark(w, "");
		} else {
			wait_for_news(w);
		}
	}
}

ssize_t watch_read(struct watch_stream *w, char *buf, size_t n)
{
	size_t left;

	if (w->offset == w->line.len) {
		str_reset(&w->line);
		w->offset = 0;
		produce(w);
	}
	assert(w->offset <= w->line.len);
	left = w->line.len - w->offset;
	if (!left)
		return w->cut ? -1 : 0;
	if (n > left)
		n = left;
	memcpy(buf, w->line.ptr + w->offset, n);
	w->offset += n;
	return (ssize_t)n;
}
