/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controllers' thread. A changed object is queued, with the objects that wait for it; queued
 * objects are passed to their reconcile functions; a delay becomes a timer. The thread sleeps in
 * poll() until an object changes, a timer is due or dpf_poke() is called.
 */
#include "test/sim/dpf/dpf.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/dpf_attachment.h"
#include "test/sim/dpf/dpf_cluster.h"
#include "test/sim/dpf/dpf_policy.h"
#include "test/sim/dpf/dpf_volume.h"
#include "test/sim/dpf/placement.h"
#include "test/sim/dpf/queue.h"
#include "test/sim/dpf/references.h"
#include "test/sim/dpf/step.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/kinds/object.h"

static const struct {
	enum resource_id res;
	int64_t (*reconcile)(struct dpf *d, struct object_version *v, struct json *o);
	void (*gone)(struct dpf *d, const char *ns, const char *name);
} controllers[] = {
	{ .res = RES_DPUS, .reconcile = dpf_dpu },
	{ .res = RES_VENDORS, .reconcile = dpf_vendor },
	{ .res = RES_POLICIES, .reconcile = dpf_policy },
	{ .res = RES_VOLUMES, .reconcile = dpf_volume, .gone = dpf_volume_gone },
	{ .res = RES_ATTACHMENTS, .reconcile = dpf_attachment, .gone = dpf_attachment_gone },
};

/*
 * Whether only faults have changed, which DPF does not see, and the object is in the pause after an
 * error.
 */
static bool is_paused(struct dpf *d, const struct object_version *v, bool poked)
{
	return poked && v && step_backs_off(d, v->uid);
}

/* NULL: in every namespace, for every volume, on every node. */
static void enqueue_attachments(struct dpf *d, const char *ns, const char *volume, const char *node,
                                bool poked)
{
	for (const struct reference *r = references_next(d, NULL); r; r = references_next(d, r)) {
		struct object_version *v AUTO(version_unref) = NULL;

		if ((ns && !str_eq(r->ns, ns)) || (volume && !str_eq(r->volume, volume)) ||
		    (node && !str_eq(r->node, node)))
			continue;
		v = store_get(d->sim->store, RES(ATTACHMENTS), r->ns, r->attachment);
		if (!is_paused(d, v, poked))
			queue_add(d, RES(ATTACHMENTS), r->ns, r->attachment);
	}
}

/* ns NULL: of every namespace. */
static void enqueue_all(struct dpf *d, enum resource_id id, const char *ns, bool poked)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = &resources[id], .ns = ns };

	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		if (!is_paused(d, page.v[i], poked))
			queue_add(d, &resources[id], page.v[i]->ns, page.v[i]->name);
}

static bool readiness_changed(const struct event *e)
{
	struct json *now AUTO(json_free) = version_parse(e->now);
	struct json *before AUTO(json_free) = e->before ? version_parse(e->before) : json_object();

	return e->type != EVENT_MODIFIED ||
	       conditions_true(now, "Ready") != conditions_true(before, "Ready");
}

/* Queues the object of an event, and the objects that wait for it. */
static void on_event(struct dpf *d, const struct event *e)
{
	const struct object_version *v = e->now;

	queue_add(d, v->res, v->ns, v->name);
	if (v->res == RES(VENDORS) && readiness_changed(e)) {
		enqueue_all(d, RES_POLICIES, v->ns, false);
	} else if (v->res == RES(POLICIES) && readiness_changed(e)) {
		enqueue_all(d, RES_VOLUMES, v->ns, false);
	} else if (v->res == RES(VOLUMES) && readiness_changed(e)) {
		enqueue_attachments(d, v->ns, v->name, NULL, false);
	} else if (v->res == RES(DPUNODES) && e->type != EVENT_MODIFIED) {
		enqueue_attachments(d, v->ns, NULL, v->name, false);
	} else if (v->res == RES(DPUS)) {
		struct json *o AUTO(json_free) = version_parse(v);

		enqueue_attachments(d, v->ns, NULL, object_text(o, "spec.dpuNodeName"), false);
	} else if (v->res == RES(DPUCLUSTERS)) {
		enqueue_all(d, RES_VOLUMES, NULL, false);
		enqueue_attachments(d, NULL, NULL, NULL, false);
	} else if (v->res == RES(ATTACHMENTS)) {
		references_update(d, v, e->type != EVENT_DELETED);
		if (e->type == EVENT_DELETED) {
			struct json *o AUTO(json_free) = version_parse(v);
			const char *volume = json_str(o, "spec.dpuVolumeName");

			queue_add(d, RES(VOLUMES), v->ns, volume ? volume : "");
		}
	}
	if (e->type == EVENT_DELETED)
		step_forget_delays(d, v->uid);
}

static void reconcile(struct dpf *d, const struct dpf_work *w)
{
	struct object_version *v AUTO(version_unref) =
		store_get(d->sim->store, w->res, w->ns, w->name);
	struct json *o AUTO(json_free) = v ? version_parse(v) : NULL;

	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		int64_t again = RECONCILE_IDLE;

		if (&resources[controllers[i].res] != w->res)
			continue;
		if (o)
			again = controllers[i].reconcile(d, v, o);
		else if (controllers[i].gone)
			controllers[i].gone(d, w->ns, w->name);
		if (o && again == RECONCILE_ERROR)
			again = step_back_off(d, v->uid);
		else if (o)
			step_succeeded(d, v->uid);
		if (again >= 0)
			queue_set_timer(d, w, again);
	}
}

/* Queues the changed objects. False: events were lost, and every object must be checked. */
static bool take_events(struct dpf *d)
{
	struct event e = { 0 };
	enum watcher_news news;

	while ((news = watcher_next(d->watcher, &e)) == NEWS_EVENT) {
		on_event(d, &e);
		event_clear(&e);
	}
	return news == NEWS_NONE;
}

/*
 * Restarts: watches from the current version, and queues every object. The deletion of some
 * attachments may have been among the lost events: they are queued as well, so that their functions
 * are released. `poked`: faults have changed, which DPF does not see.
 */
static void look_at_everything(struct dpf *d, bool poked)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = RES(ATTACHMENTS) };

	if (d->watcher)
		watcher_close(d->watcher);
	d->watcher = NULL;
	while (store_watch(d->sim->store, NULL, store_rv(d->sim->store), &d->watcher) ==
	       STORE_EXPIRED)
		;
	enqueue_attachments(d, NULL, NULL, NULL, poked);
	references_clear(d);
	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		references_update(d, page.v[i], true);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
		enqueue_all(d, controllers[i].res, NULL, poked);
}

static void run_ready(struct dpf *d)
{
	struct dpf_work *w;

	while ((w = queue_take(d))) {
		reconcile(d, w);
		work_free(w);
		if (!take_events(d))
			look_at_everything(d, false);
	}
}

static void *run(void *arg)
{
	struct dpf *d = arg;
	struct pollfd fds[3] = { { .fd = d->sim->stop_fd, .events = POLLIN },
		                 { .fd = d->poke_fd, .events = POLLIN },
		                 { .events = POLLIN } };
	eventfd_t ignored;

	look_at_everything(d, false);
	for (;;) {
		run_ready(d);
		fds[2].fd = watcher_fd(d->watcher);
		if (poll(fds, ARRAY_LEN(fds), queue_ms_to_next_timer(d)) < 0 && errno != EINTR)
			abort();
		if (fds[0].revents)
			return NULL;
		queue_take_timers(d);
		if (fds[1].revents)
			IGNORE_RESULT(eventfd_read(d->poke_fd, &ignored));
		if (fds[1].revents || !take_events(d))
			look_at_everything(d, fds[1].revents);
	}
}

struct dpf *dpf_new(struct sim *sim)
{
	struct dpf *d = xcalloc(1, sizeof(*d));

	d->sim = sim;
	d->options = sim->options;
	queue_init(d);
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
	references_clear(d);
	step_forget_delays(d, NULL);
	queue_clear(d);
	close(d->poke_fd);
	pthread_mutex_destroy(&d->lock);
	free(d);
	return NULL;
}

int dpf_resize(struct dpf *d, const char *volume, uint64_t bytes, struct err *err)
{
	if (backing_resize(d, volume, bytes, err))
		return -1;
	dpf_poke(d);
	return 0;
}

struct json *dpf_state(struct dpf *d)
{
	return placement_json(d);
}
