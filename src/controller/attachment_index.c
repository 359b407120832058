/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the events of the watch to entries of the table. An object is scanned without building a
 * JSON tree; it is only parsed if a string has escapes or is longer than a name. Objects without a
 * volume or without a node are ignored.
 *
 * One mutex guards the table and the fields below it. It is held for one object at a time.
 */
#include "controller/attachment_index.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/hash_table.h"
#include "common/json.h"
#include "common/keyed_hash.h"
#include "common/mem.h"
#include "common/str.h"
#include "common/wait_queue.h"
#include "controller/names.h"
#include "dpf/dpu_attachment.h"
#include "kube/kube_event.h"
#include "kube/kube_follow.h"
#include "volume/context_keys.h"

/*
 * A closed stream is reopened at once, so for this time after its end the index is only slightly
 * outdated.
 */
#define CLOSED_MS 5000
/*
 * The list counts as stalled if no object has arrived for this time before all attachments have
 * been read.
 */
#define STALLED_MS 5000
/*
 * While other attachments or answers arrive, a call waits longer for its own attachment, by this
 * factor.
 */
#define LIVELY_FACTOR 2
/* How long to wait for a watch that has been late before. */
#define LATE_MS 200

/*
 * A call that waits until all attachments have been read, or for the event of one attachment. Each
 * has its own queue, because one event concerns one call.
 */
struct index_waiter {
	struct hash_link link; /* by uid, or unique: see waiter_hash() */
	const char *uid;       /* uid of the attachment; NULL: all attachments */
	struct wait_queue woken;
};
_Static_assert(offsetof(struct index_waiter, link) == 0, "waiters are cast");

struct attachment_index {
	char *ns, *driver_name;
	struct kube_follow *follow;
	struct hash_key key; /* of the waiters' hashes */
	pthread_mutex_t lock;
	/* The fields below are guarded by the lock. */
	struct attachment_table *table;
	size_t read;         /* objects since the last KUBE_FOLLOW_BEGIN */
	bool complete;       /* all attachments were listed, so later events are changes */
	bool refused;        /* listing or watching is refused; until it works again */
	int64_t received_at; /* when the last object arrived; monotonic ns */
	/* when a request of this driver that created or returned an attachment was last answered */
	int64_t wrote_at;
	bool late; /* the watch has failed to deliver an existing attachment in time */
	struct hash_table waiters;
};

/* ---- an object ---- */

struct attachment_fact attachment_fact_of(const struct json *object, const char *driver_name)
{
	const struct json *labels = json_at(object, "metadata.labels");
	struct dpu_attachment_key key = dpu_attachment_key(object);

	return (struct attachment_fact) {
		.volume = key.volume,
		.node = key.node,
		.name = key.name,
		.uid = key.uid,
		.ours = str_eq(json_text(json_member(labels, LABEL_MANAGED_BY)), driver_name),
		.labelled = json_member(labels, LABEL_VOLUME) != NULL,
		.attached = key.attached,
	};
}

bool attachment_fact_is_whole(const struct attachment_fact *f)
{
	return *f->volume && *f->node && *f->name;
}

/* The fields of an attachment, cut out of the object's text. */
struct cut_fact {
	struct attachment_fact fact;
	char volume[OBJECT_NAME_MAX + 1], node[OBJECT_NAME_MAX + 1], name[OBJECT_NAME_MAX + 1];
	char uid[OBJECT_NAME_MAX + 1];
	struct json *tree; /* if needed, owns the strings instead; NULL: not needed */
};

/* Returns false if a tree is needed to read the value. An absent value is "". */
static bool cut_name(struct line_span value, char ret[OBJECT_NAME_MAX + 1])
{
	struct line_span text;

	ret[0] = 0;
	if (value.n == 0)
		return true;
	if (!kube_plain_text(value, &text) || text.n > OBJECT_NAME_MAX)
		return false;
	memcpy(ret, text.at, text.n);
	ret[text.n] = 0;
	return true;
}

enum { NAME, UID, LABELS };
enum { NODE, VOLUME };
enum { MANAGED_BY, LABEL };
enum { STATUS = 2 };

/* Returns false if a tree is needed. */
static bool cut_object(const char *driver_name, struct line_span object, struct cut_fact *ret)
{
	struct kube_member top[] = {
		{ .name = "metadata" }, { .name = "spec" }, [STATUS] = { .name = "status" }
	};
	struct kube_member meta[] = { [NAME] = { .name = "name" },
		                      [UID] = { .name = "uid" },
		                      [LABELS] = { .name = "labels" } };
	struct kube_member spec[] = {
		[NODE] = { .name = "dpuNodeName" }, [VOLUME] = { .name = "dpuVolumeName" }
	};
	struct kube_member labels[] = {
		[MANAGED_BY] = { .name = LABEL_MANAGED_BY }, [LABEL] = { .name = LABEL_VOLUME }
	};
	struct kube_member status[] = { { .name = "dpuAttached" } };
	char manager[OBJECT_NAME_MAX + 1];

	if (!kube_members(object, top, ARRAY_LEN(top)) ||
	    !kube_members(top[0].value, meta, ARRAY_LEN(meta)) ||
	    !kube_members(top[1].value, spec, ARRAY_LEN(spec)) ||
	    (meta[LABELS].value.n &&
	     !kube_members(meta[LABELS].value, labels, ARRAY_LEN(labels))) ||
	    (top[STATUS].value.n && !kube_members(top[STATUS].value, status, ARRAY_LEN(status))))
		return false;
	if (!cut_name(meta[NAME].value, ret->name) || !cut_name(meta[UID].value, ret->uid) ||
	    !cut_name(spec[NODE].value, ret->node) || !cut_name(spec[VOLUME].value, ret->volume) ||
	    !cut_name(labels[MANAGED_BY].value, manager))
		return false;
	ret->fact = (struct attachment_fact) { .volume = ret->volume,
		                               .node = ret->node,
		                               .name = ret->name,
		                               .uid = ret->uid,
		                               .ours = str_eq(manager, driver_name),
		                               .labelled = labels[LABEL].value.n > 0,
		                               .attached = line_span_eq(status[0].value, "true") };
	return true;
}

static bool parse_object(const char *driver_name, struct line_span object, struct cut_fact *ret)
{
	struct err ignored = ERR_INIT;

	if (json_parse("an attachment", object.at, object.n, &ret->tree, &ignored))
		return false;
	ret->fact = attachment_fact_of(ret->tree, driver_name);
	return true;
}

/* ---- events ---- */

static uint64_t hash_of(const struct attachment_index *x, const char *uid)
{
	return keyed_hash(&x->key, uid, strlen(uid));
}

static void wake_for(struct attachment_index *x, const char *uid)
{
	assert_locked(&x->lock);
	if (!uid)
		return;
	for (struct hash_link *l = hash_table_first(&x->waiters, hash_of(x, uid)); l;
	     l = hash_table_next(l)) {
		struct index_waiter *w = (struct index_waiter *)l;

		if (str_eq(w->uid, uid))
			wait_queue_wake(&w->woken);
	}
}

static void wake_one(struct hash_link *l)
{
	wait_queue_wake(&((struct index_waiter *)l)->woken);
}

static void apply_event(struct attachment_index *x, enum kube_follow_event event,
                        const struct attachment_fact *f)
{
	enum attachment_source source =
		event == KUBE_FOLLOW_LISTED ? ATTACHMENT_LISTED : ATTACHMENT_CHANGED;

	if (event == KUBE_FOLLOW_DELETED) {
		attachment_table_remove(x->table, f->volume, f->node, f->uid);
	} else if (attachment_table_put(x->table, f, source)) {
		/*
		 * An attachment of this driver, even a late one: all older events have arrived
		 * before it.
		 */
		x->late = false;
		wake_for(x, f->uid);
	}
}

static void on_object(struct attachment_index *x, enum kube_follow_event event,
                      struct line_span object)
{
	struct cut_fact f = { .tree = NULL };
	bool readable =
		cut_object(x->driver_name, object, &f) || parse_object(x->driver_name, object, &f);

	{
		WITH_LOCK(&x->lock);
		x->read++;
		x->received_at = monotonic_ns();
		if (readable && attachment_fact_is_whole(&f.fact))
			apply_event(x, event, &f.fact);
	}
	json_free(f.tree);
}

static void on_begin(struct attachment_index *x)
{
	WITH_LOCK(&x->lock);
	attachment_table_clear(x->table);
	x->read = 0;
	/* The stall begins here, because a list that fails and restarts makes no progress. */
	if (x->complete)
		x->received_at = monotonic_ns();
	x->complete = x->late = false;
}

static void on_end(struct attachment_index *x, bool complete)
{
	WITH_LOCK(&x->lock);
	x->complete = complete;
	x->refused = !complete;
	hash_table_each(&x->waiters, wake_one);
}

static void on_attachment_event(void *arg, enum kube_follow_event event, const char *text, size_t n)
{
	struct attachment_index *x = arg;

	switch (event) {
	case KUBE_FOLLOW_BEGIN:
		on_begin(x);
		break;
	case KUBE_FOLLOW_LISTED:
	case KUBE_FOLLOW_CHANGED:
	case KUBE_FOLLOW_DELETED:
		on_object(x, event, (struct line_span) { text, n });
		break;
	case KUBE_FOLLOW_COMPLETE:
	case KUBE_FOLLOW_REFUSED:
		on_end(x, event == KUBE_FOLLOW_COMPLETE);
		break;
	}
}

/* ---- life ---- */

struct attachment_index *attachment_index_new(struct kube *k, const char *ns,
                                              const char *driver_name)
{
	struct attachment_index *x = xcalloc(1, sizeof(*x));

	pthread_mutex_init(&x->lock, NULL);
	x->key = hash_key_random();
	x->ns = xstrdup(ns);
	x->driver_name = xstrdup(driver_name);
	x->table = attachment_table_new();
	x->received_at = monotonic_ns();
	x->follow = kube_follow(k, &dpu_attachment_kind, ns, on_attachment_event, x);
	return x;
}

struct attachment_index *attachment_index_free(struct attachment_index *x)
{
	if (!x)
		return NULL;
	attachment_table_free(x->table);
	hash_table_clear(&x->waiters);
	pthread_mutex_destroy(&x->lock);
	free(x->ns);
	free(x->driver_name);
	free(x);
	return NULL;
}

/* ---- waiting ---- */

/*
 * Returns the hash of a waiter. A waiter for all attachments is never looked up by hash. There may
 * be thousands of them; if all had the same hash, the removal of each would have to search through
 * the others.
 */
static uint64_t waiter_hash(const struct attachment_index *x, const struct index_waiter *w)
{
	return w->uid ? hash_of(x, w->uid) : keyed_hash(&x->key, &w, sizeof(w));
}

static void waiter_enter_locked(struct attachment_index *x, struct index_waiter *w)
{
	assert_locked(&x->lock);
	hash_table_add(&x->waiters, &w->link, waiter_hash(x, w));
}

/* Waits until `until` or d, whichever comes first. */
static void waiter_wait_locked(struct attachment_index *x, struct index_waiter *w, int64_t until,
                               struct deadline d)
{
	assert_locked(&x->lock);
	if (until < d.at)
		d.at = until;
	IGNORE_RESULT(wait_queue_wait(&w->woken, &x->lock, d));
}

/* The number of attachments read, and whether all have been read. */
struct progress {
	bool complete, unusable;
	size_t read;
	/* when the list will count as stalled; monotonic ns */
	int64_t stalled_at;
};

static struct progress progress_locked(struct attachment_index *x)
{
	struct progress p;

	assert_locked(&x->lock);
	p.complete = x->complete;
	p.read = x->read;
	p.stalled_at = x->received_at + STALLED_MS * NS_PER_MS;
	p.unusable = x->refused || x->late || (!p.complete && monotonic_ns() >= p.stalled_at);
	return p;
}

static bool is_settled(const struct progress *p)
{
	return p->complete || p->unusable;
}

static struct progress await_complete(struct attachment_index *x, struct deadline d)
{
	struct index_waiter w = { .uid = NULL };
	struct progress p;

	WITH_LOCK(&x->lock);
	p = progress_locked(x);
	if (is_settled(&p))
		return p;
	waiter_enter_locked(x, &w);
	for (; !is_settled(&p) && !deadline_given_up(d); p = progress_locked(x))
		waiter_wait_locked(x, &w, p.stalled_at, d);
	hash_table_remove(&x->waiters, &w.link);
	return p;
}

int attachment_index_ready(struct attachment_index *x, struct deadline d, struct err *err)
{
	struct progress p = await_complete(x, d);
	char why[KUBE_WATCH_ERROR_MAX];

	if (p.unusable || (p.complete && kube_follow_closed_ms(x->follow, why) > CLOSED_MS))
		return INDEX_UNUSABLE;
	if (p.complete)
		return 0;
	kube_follow_closed_ms(x->follow, why);
	return err_set(err, cancel_is_set(d.cancel) ? ERR_CANCELLED : ERR_DEADLINE,
	               "the attachments of namespace %s are still being read: %zu so far%s%s; "
	               "retry",
	               x->ns, p.read, *why ? "; " : "", why);
}

/*
 * Returns the time at which the wait for the watch is abandoned. Events keep their order, so while
 * events of other attachments arrive, the awaited one is still on its way. While the API server
 * still answers other writes of this driver, it is only overloaded, and the wait continues: during
 * 1,000 concurrent attaches it may send no event and no answer for 2 s or longer, and lists would
 * add more load than the wait. After one late event, and while the watch is refused, the wait is
 * LATE_MS.
 */
static int64_t patient_until(const struct attachment_index *x, int64_t asked_at)
{
	const int64_t patience = INDEX_PATIENCE_MS * NS_PER_MS;
	int64_t most = asked_at + patience * LIVELY_FACTOR, last = asked_at;

	if (x->late || x->refused)
		return asked_at + LATE_MS * NS_PER_MS;
	if (x->received_at > last)
		last = x->received_at;
	if (x->wrote_at > last)
		last = x->wrote_at;
	return last + patience < most ? last + patience : most;
}

/*
 * The attachment's sequence number, or ATTACHMENT_UNSEEN, and when to stop waiting for the watch.
 */
struct probe {
	uint32_t seq;
	int64_t until; /* monotonic ns; 0: stop waiting now */
};

/* A caller that stops earlier proves nothing about the watch, which is then not marked late. */
static struct probe probe_attachment_locked(struct attachment_index *x,
                                            const struct attachment_fact *f, int64_t asked_at,
                                            bool given_up)
{
	struct probe p;

	assert_locked(&x->lock);
	p.seq = attachment_table_seq(x->table, f->volume, f->node, f->uid);
	p.until = patient_until(x, asked_at);
	if (p.seq != ATTACHMENT_UNSEEN) {
		x->late = false;
	} else if (!given_up && monotonic_ns() >= p.until) {
		x->late = x->late || x->complete;
		p.until = 0;
	}
	return p;
}

uint32_t attachment_index_await(struct attachment_index *x, const char *volume, const char *node,
                                const char *uid, struct deadline d)
{
	const struct attachment_fact f = { .volume = volume, .node = node, .uid = uid };
	int64_t asked_at = monotonic_ns();
	struct index_waiter w = { .uid = uid };
	struct probe p;

	WITH_LOCK(&x->lock);
	waiter_enter_locked(x, &w);
	for (;;) {
		bool given_up = deadline_given_up(d);

		p = probe_attachment_locked(x, &f, asked_at, given_up);
		if (p.seq != ATTACHMENT_UNSEEN || given_up || !p.until)
			break;
		waiter_wait_locked(x, &w, p.until, d);
	}
	hash_table_remove(&x->waiters, &w.link);
	return p.seq;
}

/* ---- questions and corrections ---- */

bool attachment_index_find(struct attachment_index *x, const char *volume, const char *except,
                           uint32_t than, size_t most, struct attachment_refs *ret)
{
	WITH_LOCK(&x->lock);
	attachment_table_find(x->table, volume, except, than, most, ret);
	return x->complete;
}

bool attachment_index_is_on(struct attachment_index *x, const char *volume, const char *node,
                            bool *ret)
{
	WITH_LOCK(&x->lock);
	*ret = attachment_table_is_on(x->table, volume, node);
	return x->complete;
}

struct attachment_count attachment_index_count(struct attachment_index *x, const char *node)
{
	WITH_LOCK(&x->lock);
	return attachment_table_count(x->table, node);
}

bool attachment_index_uid(struct attachment_index *x, const char *volume, const char *node,
                          char ret[ATTACHMENT_UID_MAX + 1])
{
	WITH_LOCK(&x->lock);
	return attachment_table_uid(x->table, volume, node, ret);
}

void attachment_index_drop(struct attachment_index *x, const char *volume,
                           const struct attachment_ref *p)
{
	WITH_LOCK(&x->lock);
	attachment_table_drop(x->table, volume, p);
}

void attachment_index_made(struct attachment_index *x, const struct attachment_fact *f)
{
	WITH_LOCK(&x->lock);
	x->wrote_at = monotonic_ns();
	attachment_table_put(x->table, f, ATTACHMENT_WRITTEN);
}

void attachment_index_gone(struct attachment_index *x, const char *volume, const char *node,
                           const char *uid)
{
	WITH_LOCK(&x->lock);
	attachment_table_remove(x->table, volume, node, uid);
}
