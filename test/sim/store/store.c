/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array per kind, sorted by namespace and name; a ring of events; a list of watchers. One mutex
 * (store->lock) covers all of it; reference counts are atomic. The store does not interpret
 * objects: api_write.c does.
 */
#include "test/sim/store/store.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/sim/kinds/object.h"

struct table {
	struct object_version **v;
	size_t n, cap;
};

struct watcher {
	struct store *store;
	const struct api_resource *res;
	uint64_t next; /* under lock: version of the next event to be read */
	int fd;
	struct watcher *link;
};

struct store {
	pthread_mutex_t lock;
	struct table tables[RES_COUNT]; /* under lock; so is everything below */
	struct event *ring;             /* event of version rv at ring[rv % history] */
	size_t history;
	uint64_t rv;    /* of the last event */
	uint64_t first; /* of the oldest event kept; rv + 1 if no event is kept */
	struct watcher *watchers;
};

struct object_version *version_ref(struct object_version *v)
{
	atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

void version_unref(struct object_version *v)
{
	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) > 1)
		return;
	free(v->ns);
	free(v->name);
	free(v->uid);
	strs_clear(&v->labels);
	free(v->text);
	free(v);
}

struct json *version_parse(const struct object_version *v)
{
	struct err err = ERR_INIT;
	struct json *tree = NULL;

	if (json_parse(v->name, v->text, v->len, &tree, &err))
		abort(); /* the store printed it */
	return tree;
}

static struct object_version *version_new(const struct api_resource *res, struct json *object,
                                          uint64_t rv)
{
	struct object_version *v = xcalloc(1, sizeof(*v));
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, rv);
	json_set_str(json_sub(object, "metadata"), "resourceVersion", text);
	v->res = res;
	v->ns = xstrdup(res->namespaced ? object_namespace(object) : "");
	v->name = xstrdup(object_name(object));
	v->uid = xstrdup(object_uid(object));
	v->rv = rv;
	json_foreach (label, json_at(object, "metadata.labels"))
		strs_addf(&v->labels, "%s=%s", json_name(label),
		          json_text(label) ? json_text(label) : "");
	v->text = json_print(object);
	v->len = strlen(v->text);
	v->refs = 1;
	return v;
}

struct store *store_new(size_t history)
{
	struct store *s = xcalloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	s->history = history ? history : 1;
	s->ring = xcalloc(s->history, sizeof(*s->ring));
	s->rv = 1;
	s->first = 2;
	return s;
}

void event_clear(struct event *e)
{
	version_unref(e->now);
	version_unref(e->before);
	*e = (struct event) { 0 };
}

struct store *store_free(struct store *s)
{
	if (!s)
		return NULL;
	assert(!s->watchers);
	for (size_t i = 0; i < s->history; i++)
		event_clear(&s->ring[i]);
	free(s->ring);
	for (size_t i = 0; i < RES_COUNT; i++) {
		for (size_t k = 0; k < s->tables[i].n; k++)
			version_unref(s->tables[i].v[k]);
		free(s->tables[i].v);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

uint64_t store_rv(struct store *s)
{
	WITH_LOCK(&s->lock);
	return s->rv;
}

bool store_keeps(struct store *s, uint64_t rv)
{
	WITH_LOCK(&s->lock);
	return rv + 1 >= s->first;
}

static struct table *table_of(struct store *s, const struct api_resource *res)
{
	return &s->tables[res - resources];
}

static int key_compare(const struct object_version *v, const char *ns, const char *name)
{
	int by_namespace = strcmp(v->ns, ns);

	return by_namespace ? by_namespace : strcmp(v->name, name);
}

/* The index of the key or, if it is absent, its insertion point. */
static size_t table_seek(const struct table *t, const char *ns, const char *name, bool *found)
{
	size_t low = 0, high = t->n;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = key_compare(t->v[middle], ns, name);

		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct object_version *store_get(struct store *s, const struct api_resource *res, const char *ns,
                                 const char *name)
{
	WITH_LOCK(&s->lock);
	struct table *t = table_of(s, res);
	bool found;
	size_t at = table_seek(t, res->namespaced ? ns : "", name, &found);

	return found ? version_ref(t->v[at]) : NULL;
}

/* The index at which a list starts: after q->after, or at the beginning of the namespace. */
static size_t first_of(const struct table *t, const struct store_query *q)
{
	const char *slash = q->after ? strchr(q->after, '/') : NULL;
	bool found;
	size_t at;
	char *ns AUTO(free) = NULL;

	if (!slash)
		return q->ns ? table_seek(t, q->ns, "", &found) : 0;
	ns = xstrndup(q->after, (size_t)(slash - q->after));
	at = table_seek(t, ns, slash + 1, &found);
	return found ? at + 1 : at;
}

void store_list(struct store *s, const struct store_query *q, struct store_page *ret)
{
	WITH_LOCK(&s->lock);
	struct table *t = table_of(s, q->res);
	size_t cap = 0;

	*ret = (struct store_page) { .rv = s->rv };
	for (size_t i = first_of(t, q); i < t->n; i++) {
		struct object_version *v = t->v[i];

		if (q->ns && !str_eq(q->ns, v->ns))
			break;
		if (q->match && !q->match(q->arg, v))
			continue;
		if (q->limit && ret->n == q->limit) {
			ret->left++;
			continue;
		}
		if (ret->n == cap) {
			cap = cap ? 2 * cap : 16;
			ret->v = xrealloc(ret->v, cap * sizeof(struct object_version *));
		}
		ret->v[ret->n++] = version_ref(v);
	}
}

void store_page_clear(struct store_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		version_unref(p->v[i]);
	free(p->v);
	*p = (struct store_page) { 0 };
}

static void wake(const struct watcher *w)
{
	IGNORE_RESULT(eventfd_write(w->fd, 1));
}

/* Appends an event; takes over the references of `now` and `before`. */
static void publish_locked(struct store *s, enum store_event_type type, struct object_version *now,
                           struct object_version *before)
{
	struct event *slot = &s->ring[now->rv % s->history];

	assert_locked(&s->lock);
	assert(now->rv == s->rv + 1);
	event_clear(slot);
	*slot = (struct event) { .type = type, .rv = now->rv, .now = now, .before = before };
	s->rv = now->rv;
	if (s->rv - s->first >= s->history)
		s->first = s->rv - s->history + 1;
	for (struct watcher *w = s->watchers; w; w = w->link)
		if (!w->res || w->res == now->res)
			wake(w);
}

static void table_insert(struct table *t, size_t at, struct object_version *v)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 16;
		t->v = xrealloc(t->v, t->cap * sizeof(struct object_version *));
	}
	memmove(&t->v[at + 1], &t->v[at], (t->n - at) * sizeof(struct object_version *));
	t->v[at] = v;
	t->n++;
}

int store_put(struct store *s, const struct api_resource *res, struct json *object,
              const struct object_version *expect, struct object_version **ret)
{
	WITH_LOCK(&s->lock);
	struct table *t = table_of(s, res);
	bool found;
	size_t at = table_seek(t, res->namespaced ? object_namespace(object) : "",
	                       object_name(object), &found);
	struct object_version *v;

	if (found != !!expect || (found && t->v[at]->rv != expect->rv))
		return STORE_CHANGED;
	v = version_new(res, object, s->rv + 1);
	if (found) {
		/* The table's reference of the old version becomes the event's. */
		publish_locked(s, EVENT_MODIFIED, version_ref(v), t->v[at]);
		t->v[at] = v;
	} else {
		table_insert(t, at, v);
		publish_locked(s, EVENT_ADDED, version_ref(v), NULL);
	}
	if (ret)
		*ret = version_ref(v);
	return 0;
}

int store_remove(struct store *s, const struct object_version *expect)
{
	struct json *last AUTO(json_free) = version_parse(expect);

	WITH_LOCK(&s->lock);
	struct table *t = table_of(s, expect->res);
	bool found;
	size_t at = table_seek(t, expect->ns, expect->name, &found);
	struct object_version *old;

	if (!found || t->v[at]->rv != expect->rv)
		return STORE_CHANGED;
	old = t->v[at];
	t->n--;
	memmove(&t->v[at], &t->v[at + 1], (t->n - at) * sizeof(struct object_version *));
	publish_locked(s, EVENT_DELETED, version_new(expect->res, last, s->rv + 1), old);
	return 0;
}

int store_watch(struct store *s, const struct api_resource *res, uint64_t from,
                struct watcher **ret)
{
	struct watcher *w;

	WITH_LOCK(&s->lock);
	if (from + 1 < s->first)
		return STORE_EXPIRED;
	w = xcalloc(1, sizeof(*w));
	w->store = s;
	w->res = res;
	w->next = from + 1;
	w->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* 1: there may already be events */
	if (w->fd < 0)
		abort();
	w->link = s->watchers;
	s->watchers = w;
	*ret = w;
	return 0;
}

void watcher_close(struct watcher *w)
{
	{
		WITH_LOCK(&w->store->lock);
		for (struct watcher **at = &w->store->watchers; *at; at = &(*at)->link) {
			if (*at == w) {
				*at = w->link;
				break;
			}
		}
	}
	close(w->fd);
	free(w);
}

int watcher_fd(const struct watcher *w)
{
	return w->fd;
}

enum watcher_news watcher_next(struct watcher *w, struct event *ret)
{
	struct store *s = w->store;
	eventfd_t ignored;

	/* Emptied first: a later event makes it readable again. */
	IGNORE_RESULT(eventfd_read(w->fd, &ignored));
	WITH_LOCK(&s->lock);
	if (w->next < s->first)
		return NEWS_LOST;
	while (w->next <= s->rv) {
		const struct event *e = &s->ring[w->next++ % s->history];

		if (w->res && e->now->res != w->res)
			continue;
		*ret = *e;
		version_ref(ret->now);
		if (ret->before)
			version_ref(ret->before);
		return NEWS_EVENT;
	}
	return NEWS_NONE;
}

uint64_t watcher_rv(struct watcher *w)
{
	WITH_LOCK(&w->store->lock);
	return w->next - 1;
}

void store_wake(struct store *s)
{
	WITH_LOCK(&s->lock);
	for (struct watcher *w = s->watchers; w; w = w->link)
		wake(w);
}

void store_expire(struct store *s)
{
	WITH_LOCK(&s->lock);
	s->first = s->rv + 1;
	for (struct watcher *w = s->watchers; w; w = w->link)
		wake(w);
}
