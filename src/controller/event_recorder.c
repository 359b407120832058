/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of Events, the table of recent ones, and the thread that writes them. The name of an
 * Event is a hash of the object, the reason and the number of the period of EVENT_AGAIN_MS. So the
 * API server itself refuses a repetition, whichever process sends it, and no permission to patch
 * Events is needed.
 */
#include "controller/event_recorder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/keyed_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/str.h"
#include "common/thread.h"
#include "common/wait_queue.h"
#include "controller/names.h"
#include "dpf/core_event.h"
#include "dpf/core_volume.h"
#include "dpf/dpu_node.h"

#define RECENT 256
#define MESSAGE_MAX 1000
#define REQUEST_MS 30000

struct pending_event {
	const struct kube_kind *kind;
	char *name, *message;
	const char *reason;
};

/* Permissions that the account may lack. An Event about a Node does not need to read a volume. */
enum event_right { RIGHT_CREATE_EVENTS, RIGHT_GET_VOLUMES, EVENT_RIGHTS };

struct event_recorder {
	struct event_recorder_options o;
	struct cancel cancel;
	pthread_mutex_t lock;
	struct wait_queue changed;
	/* The fields below are guarded by the lock. */
	bool stopping, runs; /* `runs`: the thread is running */
	struct pending_event queue[EVENT_QUEUE];
	size_t n;
	struct {
		uint64_t key;
		int64_t at; /* monotonic ns; 0: the slot is free */
	} recent[RECENT];
	size_t next_recent; /* index of the oldest one */
	/* no request before this time, because the API server has refused one; monotonic ns */
	int64_t rest_until[EVENT_RIGHTS];
};

/* ---- the queue ---- */

/*
 * Returns the hash of an Event, the same in all processes. `period` is 0 for the table of recent
 * Events.
 */
static uint64_t event_key(const struct kube_kind *kind, const char *name, const char *reason,
                          int64_t period)
{
	char *text AUTO(free) =
		xasprintf("%s/%s/%s/%lld", kind->kind, name, reason, (long long)period);
	const struct hash_key key = { 0, 0 };

	return keyed_hash(&key, text, strlen(text));
}

static bool is_recent_locked(struct event_recorder *r, uint64_t key, int64_t now)
{
	assert_locked(&r->lock);
	for (size_t i = 0; i < RECENT; i++)
		if (r->recent[i].at && r->recent[i].key == key &&
		    now - r->recent[i].at < EVENT_AGAIN_MS * NS_PER_MS)
			return true;
	return false;
}

static bool is_resting_locked(struct event_recorder *r, const struct kube_kind *kind, int64_t now)
{
	assert_locked(&r->lock);
	return now < r->rest_until[RIGHT_CREATE_EVENTS] ||
	       (kind != &core_node_kind && now < r->rest_until[RIGHT_GET_VOLUMES]);
}

static void pending_event_clear(struct pending_event *e)
{
	free(TAKE(e->name));
	free(TAKE(e->message));
}

/* Returns the length to which the message is cut, without cutting a UTF-8 character. */
static size_t cut_length(const char *message)
{
	size_t n = strnlen(message, MESSAGE_MAX);

	while (n && (message[n] & 0xc0) == 0x80)
		n--;
	return n;
}

void event_warn(struct event_recorder *r, const struct kube_kind *kind, const char *name,
                const char *reason, const char *message)
{
	int64_t now = monotonic_ns();
	uint64_t key;

	if (!r || !dns1123_subdomain(name))
		return;
	key = event_key(kind, name, reason, 0);
	WITH_LOCK(&r->lock);
	if (r->n == EVENT_QUEUE || is_resting_locked(r, kind, now) || is_recent_locked(r, key, now))
		return;
	r->recent[r->next_recent].key = key;
	r->recent[r->next_recent].at = now;
	r->next_recent = (r->next_recent + 1) % RECENT;
	r->queue[r->n++] = (struct pending_event) {
		.kind = kind,
		.name = xstrdup(name),
		.reason = reason,
		.message = xstrndup(message, cut_length(message)),
	};
	wait_queue_wake(&r->changed);
}

/*
 * Waits for an Event and for the time at which it may be sent. Returns false if the recorder is
 * stopping. The caller owns *ret.
 */
static bool await_pending(struct event_recorder *r, int64_t not_before, struct pending_event *ret)
{
	WITH_LOCK(&r->lock);
	while (!r->stopping) {
		int64_t now = monotonic_ns();

		if (r->n && now >= not_before) {
			*ret = r->queue[0];
			r->n--;
			memmove(&r->queue[0], &r->queue[1], r->n * sizeof(r->queue[0]));
			return true;
		}
		IGNORE_RESULT(wait_queue_wait(
			&r->changed, &r->lock,
			(struct deadline) { r->n ? not_before : DEADLINE_NEVER, NULL }));
	}
	return false;
}

/* ---- the thread ---- */

/*
 * Returns the uid by which kubectl finds an Event of the object. For a Node the uid is the Node's
 * name, as in kubelet's own Events. Returns 0 with *ret, malloc'ed; KUBE_ABSENT if this driver has
 * no such volume; or -1.
 */
static int subject_uid(struct event_recorder *r, const struct pending_event *e, struct deadline d,
                       char **ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct persistent_volume v;
	int rc;

	if (e->kind == &core_node_kind) {
		*ret = xstrdup(e->name);
		return 0;
	}
	rc = kube_get(r->o.kube, e->kind, NULL, e->name, d, &object, err);
	if (rc)
		return rc;
	v = persistent_volume_decode(object);
	if (!str_eq(v.driver, r->o.driver) || !str_eq(v.handle, e->name))
		return KUBE_ABSENT;
	*ret = xstrdup_or_null(json_str(object, "metadata.uid"));
	return 0;
}

/*
 * Returns 0; KUBE_ABSENT if the object does not exist; KUBE_EXISTS if the Event was already
 * written; or -1, with the permission that the failed request needs in *ret_right.
 */
static int write_event(struct event_recorder *r, const struct pending_event *e,
                       enum event_right *ret_right, struct err *err)
{
	struct deadline d = { .at = deadline_in_ms(REQUEST_MS).at, .cancel = &r->cancel };
	struct json *event AUTO(json_free) = NULL, *stored AUTO(json_free) = NULL;
	char *uid AUTO(free) = NULL, *name AUTO(free) = NULL;
	int64_t now = time(NULL), period = now / (EVENT_AGAIN_MS / 1000);
	int rc;

	*ret_right = RIGHT_GET_VOLUMES;
	rc = subject_uid(r, e, d, &uid, err);
	if (rc)
		return rc;
	*ret_right = RIGHT_CREATE_EVENTS;
	name = xasprintf("snap-csi-%016llx",
	                 (unsigned long long)event_key(e->kind, e->name, e->reason, period + 1));
	event = core_event_encode(&(const struct core_event_draft) {
		.name = name,
		.about = e->kind,
		.about_name = e->name,
		.about_uid = uid,
		.reason = e->reason,
		.message = e->message,
		.source = r->o.driver,
		.at = now,
	});
	return kube_create(r->o.kube, &core_event_kind, CORE_EVENT_NAMESPACE, event, d, &stored,
	                   err);
}

/* Suspends further requests for some time, because they are pointless without the permission. */
static void event_refused(struct event_recorder *r, const struct pending_event *e,
                          enum event_right right, const struct err *err)
{
	if (err->code == ERR_CANCELLED)
		return;
	if (err->code == ERR_PERMISSION || err->code == ERR_PRECONDITION) {
		WITH_LOCK(&r->lock);
		r->rest_until[right] = monotonic_ns() + EVENT_AGAIN_MS * NS_PER_MS;
	}
	metric_add(METRIC_EVENTS, 1, LABELS("failed"));
	log_limited(LOG_WARNING, 600,
	            "Event %s about %s %s is dropped: %s; the account needs get of "
	            "persistentvolumes and create of events (manifests/base/rbac.yaml)",
	            e->reason, e->kind->kind, e->name, err->msg);
}

static void *run_event_recorder(void *arg)
{
	struct event_recorder *r = arg;
	struct pending_event e;
	enum event_right right;
	int64_t not_before = 0;

	pthread_setname_np(pthread_self(), "events");
	while (await_pending(r, not_before, &e)) {
		struct err err = ERR_INIT;
		int rc = write_event(r, &e, &right, &err);

		if (rc < 0)
			event_refused(r, &e, right, &err);
		else if (rc == 0)
			metric_add(METRIC_EVENTS, 1, LABELS("ok"));
		pending_event_clear(&e);
		not_before = monotonic_ns() +
		             (r->o.every_ms ? r->o.every_ms : EVENT_EVERY_MS) * NS_PER_MS;
	}
	WITH_LOCK(&r->lock);
	r->runs = false;
	wait_queue_wake(&r->changed);
	return NULL;
}

/* ---- life ---- */

int event_recorder_start(const struct event_recorder_options *o, struct event_recorder **ret,
                         struct err *err)
{
	struct event_recorder *r = xcalloc(1, sizeof(*r));
	int rc;

	r->o = *o;
	cancel_init(&r->cancel);
	pthread_mutex_init(&r->lock, NULL);
	r->runs = true;
	rc = thread_start(run_event_recorder, r);
	if (rc) {
		event_recorder_free(r);
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that writes Events");
	}
	*ret = r;
	return 0;
}

void event_recorder_stop(struct event_recorder *r)
{
	if (!r)
		return;
	{
		WITH_LOCK(&r->lock);
		r->stopping = true;
		wait_queue_wake(&r->changed);
	}
	cancel_set(&r->cancel);
	WITH_LOCK(&r->lock);
	while (r->runs)
		IGNORE_RESULT(wait_queue_wait(&r->changed, &r->lock, deadline_never()));
}

struct event_recorder *event_recorder_free(struct event_recorder *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n; i++)
		pending_event_clear(&r->queue[i]);
	pthread_mutex_destroy(&r->lock);
	cancel_destroy(&r->cancel);
	free(r);
	return NULL;
}
