/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects, their versions and their watchers: a small etcd.
 *
 * A state of an object is an object_version: immutable, with a reference count. It holds the JSON
 * text and the fields that selectors use. To change an object, parse the text, change the tree and
 * store it with the version that it was derived from; if another writer was faster, the store
 * refuses it and the caller restarts. Each change has the next resource version (+1, over all
 * kinds) and creates one event, of which the last `history` are kept.
 *
 * Thread-safe. The mutex covers the tables and, because the text contains the version that is
 * assigned under the lock, the printing of the changed object; no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "common/str.h"
#include "test/sim/kinds/resource.h"

struct store;
struct watcher;

struct object_version {
	const struct api_resource *res;
	char *ns, *name, *uid; /* ns is "" for cluster-scoped kinds */
	uint64_t rv;
	struct strs labels; /* "key=value" */
	char *text;
	size_t len;
	_Atomic int refs;
};

struct object_version *version_ref(struct object_version *v);
void version_unref(struct object_version *v); /* NULL is fine */
DEFINE_AUTO(struct object_version *, version_unref);
struct json *version_parse(const struct object_version *v); /* a new root */

enum store_event_type { EVENT_ADDED, EVENT_MODIFIED, EVENT_DELETED };

struct event {
	enum store_event_type type;
	uint64_t rv;
	struct object_version *now;    /* of DELETED: the last state, as the deletion's version */
	struct object_version *before; /* NULL for ADDED */
};

/* history: number of events kept for watchers that return. */
struct store *store_new(size_t history);
struct store *store_free(struct store *s); /* no watcher may be open; returns NULL */
uint64_t store_rv(struct store *s);
/* Whether all events after this version are still kept. */
bool store_keeps(struct store *s, uint64_t rv);

/* The object's newest version, which the caller unreferences; NULL: it does not exist. */
struct object_version *store_get(struct store *s, const struct api_resource *res, const char *ns,
                                 const char *name);

struct store_query {
	const struct api_resource *res;
	const char *ns;    /* NULL: all namespaces */
	const char *after; /* "ns/name": starts behind it; NULL: from the beginning */
	size_t limit;      /* 0: no limit */
	bool (*match)(const void *arg, const struct object_version *v);
	const void *arg;
};
struct store_page {
	struct object_version **v; /* sorted by namespace, name */
	size_t n;
	size_t left; /* matching objects after this page */
	uint64_t rv;
};
void store_list(struct store *s, const struct store_query *q, struct store_page *ret);
void store_page_clear(struct store_page *p);
DEFINE_AUTO_VALUE(struct store_page, store_page_clear);

/* store_put() and store_remove(): another writer was faster. */
enum { STORE_CHANGED = 1 };
/*
 * Stores the tree (and sets its resourceVersion) if the object still is `expect` (NULL: does not
 * exist). 0 and *ret (may be NULL), or STORE_CHANGED.
 */
int store_put(struct store *s, const struct api_resource *res, struct json *object,
              const struct object_version *expect, struct object_version **ret) MUST_CHECK;
/* Removes the object if it still is `expect`. 0, or STORE_CHANGED. */
int store_remove(struct store *s, const struct object_version *expect) MUST_CHECK;

/* store_watch(): events after `from` are no longer kept. */
enum { STORE_EXPIRED = 1 };
/* Events of one kind (NULL: all) after version `from`. 0 and *ret, or STORE_EXPIRED. */
int store_watch(struct store *s, const struct api_resource *res, uint64_t from,
                struct watcher **ret) MUST_CHECK;
void watcher_close(struct watcher *w);
DEFINE_AUTO(struct watcher *, watcher_close);
/* Readable when watcher_next() may have events; watcher_next() empties it. */
int watcher_fd(const struct watcher *w);
enum watcher_news {
	NEWS_EVENT, /* *ret is the next event; free it with event_clear() */
	NEWS_NONE,  /* nothing now */
	NEWS_LOST,  /* the next event is no longer kept: too slow, or the history was dropped */
};
enum watcher_news watcher_next(struct watcher *w, struct event *ret) MUST_CHECK;
void event_clear(struct event *e);
/* The version up to which the watcher has seen everything of its kind. */
uint64_t watcher_rv(struct watcher *w);
/* Wakes every watcher without an event: faults have changed. */
void store_wake(struct store *s);
/* Drops the history: watches from an older version get 410. */
void store_expire(struct store *s);
