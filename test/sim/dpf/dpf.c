/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controllers' thread: changes of objects become work, work becomes calls of the
 * reconcile functions, delays become timers. It sleeps in poll() until an object changes, a
 * timer is due or somebody pokes.
 */
#include "test/sim/dpf/dpf_priv.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/store/mirror.h"
#include "test/sim/kinds/object.h"

struct work {
	const struct resource *res;
	char *ns, *name;
	int64_t due;
	struct work *next;
};

static const struct {
	enum resource_id res;
	int64_t (*reconcile)(struct dpf *d, struct version *v, struct json *o);
	void (*gone)(struct dpf *d, const char *ns, const char *name);
} controllers[] = {
	{ RES_VENDORS, dpf_vendor, NULL },
	{ RES_POLICIES, dpf_policy, NULL },
	{ RES_VOLUMES, dpf_volume, dpf_volume_gone },
	{ RES_ATTACHMENTS, dpf_attachment, dpf_attachment_gone },
};

static struct work *work_new(const struct resource *res, const char *ns, const char *name)
{
	struct work *w = xcalloc(1, sizeof(*w));

	w->res = res;
	w->ns = xstrdup(ns);
	w->name = xstrdup(name);
	return w;
}

static void work_free(struct work *w)
{
	free(w->ns);
	free(w->name);
	free(w);
}

void dpf_enqueue(struct dpf *d, const struct resource *res, const char *ns, const char *name)
{
	struct work *w = work_new(res, ns, name);

	*d->ready_end = w;
	d->ready_end = &w->next;
}

void dpf_put(struct dpf *d, struct version *v, struct json *o)
{
	struct json *old AUTO(json_free) = version_parse(v);

	if (json_equal(o, old))
		return;
	if (d->sim->mirror && mirror_has(v->res))
		mirror_write(d->sim->mirror, v, o);
	else if (object_is_deleting(o) && !object_has_finalizers(o))
		IGNORE_RESULT(store_remove(d->sim->store, v));
	else
		IGNORE_RESULT(store_put(d->sim->store, v->res, o, v, NULL));
}

bool dpf_claim(struct dpf *d, struct version *v, struct json *o, const char *finalizer)
{
	if (object_has_finalizer(o, finalizer))
		return false;
	object_add_finalizer(o, finalizer);
	dpf_put(d, v, o);
	return true;
}

int64_t dpf_delay(struct dpf *d, const char *uid, const char *stage, unsigned ms)
{
	int64_t now = monotonic_ns();
	struct mark *m = d->marks;

	if (!ms)
		return 0;
	while (m && !(str_eq(m->uid, uid) && str_eq(m->stage, stage)))
		m = m->next;
	if (m)
		return m->due > now ? (m->due - now) / 1000000 + 1 : 0;
	m = xcalloc(1, sizeof(*m));
	m->uid = xstrdup(uid);
	m->stage = xstrdup(stage);
	m->due = now + (int64_t)ms * 1000000;
	m->next = d->marks;
	d->marks = m;
	return ms;
}

static void forget_marks(struct dpf *d, const char *uid)
{
	for (struct mark **at = &d->marks; *at;) {
		struct mark *m = *at;

		if (uid && !str_eq(m->uid, uid)) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		free(m->uid);
		free(m->stage);
		free(m);
	}
}

static void reference_free(struct reference *r)
{
	free(r->ns);
	free(r->attachment);
	free(r->volume);
	free(r->node);
	free(r);
}

static struct reference **bucket_of(struct dpf *d, const char *attachment)
{
	unsigned hash = 5381;

	for (const char *s = attachment; *s; s++)
		hash = hash * 33 + (unsigned char)*s;
	return &d->references[hash % REFERENCE_BUCKETS];
}

/* Keeps `references` what the attachments say. */
static void index_attachment(struct dpf *d, const struct version *v, bool exists)
{
	struct reference **at = bucket_of(d, v->name), *r;
	struct json *o AUTO(json_free) = NULL;
	const char *volume, *node;

	while (*at && !(str_eq((*at)->ns, v->ns) && str_eq((*at)->attachment, v->name)))
		at = &(*at)->next;
	if (*at && !exists) {
		r = *at;
		*at = r->next;
		reference_free(r);
		return;
	}
	if (*at || !exists)
		return; /* its references are immutable */
	o = version_parse(v);
	volume = json_str(o, "spec.dpuVolumeName");
	node = json_str(o, "spec.dpuNodeName");
	r = xcalloc(1, sizeof(*r));
	r->ns = xstrdup(v->ns);
	r->attachment = xstrdup(v->name);
	r->volume = xstrdup(volume ? volume : "");
	r->node = xstrdup(node ? node : "");
	r->next = *at; /* the end of the bucket */
	*at = r;
}

const struct reference *dpf_attached(const struct dpf *d, const char *ns, const char *volume)
{
	for (size_t i = 0; i < REFERENCE_BUCKETS; i++)
		for (const struct reference *r = d->references[i]; r; r = r->next)
			if (str_eq(r->ns, ns) && str_eq(r->volume, volume))
				return r;
	return NULL;
}

/* volume or node NULL: any. */
static void enqueue_attachments(struct dpf *d, const char *ns, const char *volume, const char *node)
{
	for (size_t i = 0; i < REFERENCE_BUCKETS; i++)
		for (const struct reference *r = d->references[i]; r; r = r->next)
			if (str_eq(r->ns, ns) && (!volume || str_eq(r->volume, volume)) &&
			    (!node || str_eq(r->node, node)))
				dpf_enqueue(d, RES(ATTACHMENTS), r->ns, r->attachment);
}

void dpf_enqueue_waiting(struct dpf *d, const char *node)
{
	for (size_t i = 0; i < REFERENCE_BUCKETS; i++)
		for (const struct reference *r = d->references[i]; r; r = r->next)
			if (str_eq(r->node, node) && !placement_find(d, r->ns, r->attachment))
				dpf_enqueue(d, RES(ATTACHMENTS), r->ns, r->attachment);
}

/* ns NULL: all. */
static void enqueue_all(struct dpf *d, enum resource_id id, const char *ns)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = &resources[id], .ns = ns };

	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		dpf_enqueue(d, &resources[id], page.v[i]->ns, page.v[i]->name);
}

static bool readiness_changed(const struct event *e)
{
	struct json *now AUTO(json_free) = version_parse(e->now);
	struct json *before AUTO(json_free) = e->before ? version_parse(e->before) : json_object();

	return e->type != EVENT_MODIFIED ||
	       conditions_true(now, "Ready") != conditions_true(before, "Ready");
}

/* An object has changed: itself, and what waits for it. */
static void on_event(struct dpf *d, const struct event *e)
{
	const struct version *v = e->now;

	dpf_enqueue(d, v->res, v->ns, v->name);
	if (v->res == RES(VENDORS) && readiness_changed(e)) {
		enqueue_all(d, RES_POLICIES, v->ns);
	} else if (v->res == RES(POLICIES) && readiness_changed(e)) {
		enqueue_all(d, RES_VOLUMES, v->ns);
	} else if (v->res == RES(VOLUMES) && readiness_changed(e)) {
		enqueue_attachments(d, v->ns, v->name, NULL);
	} else if (v->res == RES(DPUNODES) || v->res == RES(DPUS)) {
		enqueue_attachments(d, v->ns, NULL, NULL);
	} else if (v->res == RES(ATTACHMENTS)) {
		index_attachment(d, v, e->type != EVENT_DELETED);
		if (e->type == EVENT_DELETED) {
			struct json *o AUTO(json_free) = version_parse(v);
			const char *volume = json_str(o, "spec.dpuVolumeName");

			dpf_enqueue(d, RES(VOLUMES), v->ns, volume ? volume : "");
		}
	}
	if (e->type == EVENT_DELETED)
		forget_marks(d, v->uid);
}

static void set_timer(struct dpf *d, const struct work *w, int64_t ms)
{
	int64_t due = monotonic_ns() + ms * 1000000;
	struct work *t;

	for (t = d->timers; t; t = t->next) {
		if (t->res == w->res && str_eq(t->ns, w->ns) && str_eq(t->name, w->name)) {
			t->due = due < t->due ? due : t->due;
			return;
		}
	}
	t = work_new(w->res, w->ns, w->name);
	t->due = due;
	t->next = d->timers;
	d->timers = t;
}

static void reconcile(struct dpf *d, const struct work *w)
{
	struct version *v AUTO(version_unref) = store_get(d->sim->store, w->res, w->ns, w->name);
	struct json *o AUTO(json_free) = v ? version_parse(v) : NULL;

	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		int64_t again = RECONCILE_IDLE;

		if (&resources[controllers[i].res] != w->res)
			continue;
		if (o)
			again = controllers[i].reconcile(d, v, o);
		else if (controllers[i].gone)
			controllers[i].gone(d, w->ns, w->name);
		if (again >= 0)
			set_timer(d, w, again);
	}
}

/* False: the watcher was too slow for the history; everything must be looked at. */
static bool take_events(struct dpf *d)
{
	struct event e = { 0 };
	int rc;

	while ((rc = watcher_next(d->watcher, &e)) == 0) {
		on_event(d, &e);
		event_clear(&e);
	}
	return rc > 0;
}

static void take_timers(struct dpf *d)
{
	int64_t now = monotonic_ns();

	for (struct work **at = &d->timers; *at;) {
		struct work *w = *at;

		if (w->due > now) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = NULL;
		*d->ready_end = w;
		d->ready_end = &w->next;
	}
}

static int ms_to_next_timer(const struct dpf *d)
{
	int64_t now = monotonic_ns(), first = INT64_MAX;

	for (const struct work *w = d->timers; w; w = w->next)
		first = w->due < first ? w->due : first;
	if (first == INT64_MAX)
		return -1;
	if (first <= now)
		return 0;
	return (first - now) / 1000000 > INT_MAX / 2 ? INT_MAX / 2
	                                             : (int)((first - now) / 1000000) + 1;
}

/* Starts from what is there. */
static void look_at_everything(struct dpf *d)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = RES(ATTACHMENTS) };

	if (d->watcher)
		watcher_close(d->watcher);
	d->watcher = NULL;
	while (store_watch(d->sim->store, NULL, store_rv(d->sim->store), &d->watcher))
		;
	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		index_attachment(d, page.v[i], true);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
		enqueue_all(d, controllers[i].res, NULL);
}

static void run_ready(struct dpf *d)
{
	while (d->ready) {
		struct work *w = d->ready;

		d->ready = w->next;
		if (!d->ready)
			d->ready_end = &d->ready;
		reconcile(d, w);
		work_free(w);
		if (!take_events(d))
			look_at_everything(d);
	}
}

static void *run(void *arg)
{
	struct dpf *d = arg;
	struct pollfd fds[3] = { { .fd = d->sim->stop_fd, .events = POLLIN },
		                 { .fd = d->poke_fd, .events = POLLIN },
		                 { .events = POLLIN } };
	eventfd_t ignored;

	look_at_everything(d);
	for (;;) {
		run_ready(d);
		fds[2].fd = watcher_fd(d->watcher);
		if (poll(fds, ARRAY_LEN(fds), ms_to_next_timer(d)) < 0 && errno != EINTR)
			abort();
		if (fds[0].revents)
			return NULL;
		take_timers(d);
		if (fds[1].revents)
			IGNORE_RESULT(eventfd_read(d->poke_fd, &ignored));
		if (fds[1].revents || !take_events(d))
			look_at_everything(d);
	}
}

struct dpf *dpf_new(struct sim *sim)
{
	struct dpf *d = xcalloc(1, sizeof(*d));

	d->sim = sim;
	d->options = sim->options;
	d->ready_end = &d->ready;
	pthread_mutex_init(&d->lock, NULL);
	d->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->poke_fd < 0 || pthread_create(&d->thread, NULL, run, d))
		abort();
	return d;
}

void dpf_poke(struct dpf *d)
{
	IGNORE_RESULT(eventfd_write(d->poke_fd, 1));
}

static void free_work(struct work *list)
{
	while (list) {
		struct work *next = list->next;

		work_free(list);
		list = next;
	}
}

struct dpf *dpf_free(struct dpf *d)
{
	if (!d)
		return NULL;
	pthread_join(d->thread, NULL);
	if (d->watcher)
		watcher_close(d->watcher);
	while (d->placements) {
		struct err err = ERR_INIT;

		IGNORE_RESULT(placement_hide(d, d->placements, &err));
		placement_release(d, d->placements);
	}
	while (d->backings) {
		struct err err = ERR_INIT;

		IGNORE_RESULT(backing_remove(d, d->backings, &err));
	}
	for (size_t i = 0; i < REFERENCE_BUCKETS; i++) {
		while (d->references[i]) {
			struct reference *r = d->references[i];

			d->references[i] = r->next;
			reference_free(r);
		}
	}
	forget_marks(d, NULL);
	free_work(d->ready);
	free_work(d->timers);
	close(d->poke_fd);
	pthread_mutex_destroy(&d->lock);
	free(d);
	return NULL;
}
