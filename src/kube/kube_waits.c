/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one object: passes states from the watch to the waits. Wakes them; never blocks,
 * parses nothing and starts no request.
 */
#include "kube/kube_waits.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"

_Static_assert(offsetof(struct kube_wait, link) == 0, "waits are cast");

static struct line_span span_of(const char *name)
{
	return (struct line_span) { name, strlen(name) };
}

static uint64_t hash_of(const struct kube_waits *all, struct line_span name)
{
	return keyed_hash(&all->key, name.at, name.n);
}

static struct kube_wait *of_name(struct hash_link *l, struct line_span name)
{
	while (l && !line_span_eq(name, ((struct kube_wait *)l)->name))
		l = hash_table_next(l);
	return (struct kube_wait *)l;
}

/* Returns the first wait for a name, or NULL. The other waits for the name follow it. */
static struct kube_wait *first_of(const struct kube_waits *all, struct line_span name)
{
	if (all->by_name.n == 0)
		return NULL;
	return of_name(hash_table_first(&all->by_name, hash_of(all, name)), name);
}

static struct kube_wait *next_of(const struct kube_wait *w, struct line_span name)
{
	return of_name(hash_table_next(&w->link), name);
}

void waits_add(struct kube_waits *all, struct kube_wait *w)
{
	assert_locked(all->lock);
	w->all = all;
	w->next = all->first;
	w->prev_next = &all->first;
	if (w->next)
		w->next->prev_next = &w->next;
	all->first = w;
	hash_table_add(&all->by_name, &w->link, hash_of(all, span_of(w->name)));
}

/*
 * A wait whose object is already due for a read keeps its turn, even if the resume point is lost
 * again.
 */
static void must_read_since(struct kube_wait *w, int64_t now)
{
	assert_locked(w->all->lock);
	if (w->unread_since)
		return;
	w->unread_since = now;
	w->all->n_unread++;
}

static void need_not_read(struct kube_wait *w)
{
	assert_locked(w->all->lock);
	if (w->unread_since)
		w->all->n_unread--;
	w->unread_since = 0;
}

void waits_remove(struct kube_waits *all, struct kube_wait *w)
{
	assert_locked(all->lock);
	*w->prev_next = w->next;
	if (w->next)
		w->next->prev_next = w->prev_next;
	hash_table_remove(&all->by_name, &w->link);
	need_not_read(w);
}

void waits_free(struct kube_waits *all)
{
	assert(!all->first && all->by_name.n == 0 && all->n_unread == 0);
	hash_table_clear(&all->by_name);
}

void wait_must_read(struct kube_wait *w)
{
	must_read_since(w, monotonic_ns());
}

/* All waits get the same time; the order of the table decides between them. */
static void all_must_read(struct kube_waits *all)
{
	int64_t now = monotonic_ns();
	for (struct kube_wait *i = all->first; i; i = i->next)
		must_read_since(i, now);
}

/*
 * Drops the wait's error. The error is kept while the watch does not work, because no events arrive
 * then.
 */
static void forget_error(const struct kube_waits *all, struct kube_wait *w)
{
	if (all->live)
		w->failed = false;
}

static void notify_gone(const struct kube_waits *all, struct kube_wait *w)
{
	free(TAKE(w->state));
	w->version[0] = 0;
	w->gone = !w->gone_reported;
	forget_error(all, w);
	wait_queue_wake(&w->notified);
}

static void notify_deleted(const struct kube_waits *all, struct kube_wait *w,
                           const struct kube_event *e)
{
	if (!w->uid) {
		wait_must_read(w); /* perhaps an earlier object of the same name */
	} else if (line_span_eq(e->uid, w->uid)) {
		need_not_read(w);
		notify_gone(all, w);
	}
}

static void waits_notify_state(const struct kube_waits *all, struct kube_wait *w,
                               const struct kube_event *e)
{
	struct line_span version = e->resource_version;
	if (version.n > 0 && line_span_eq(version, w->version))
		return;
	snprintf(w->version, sizeof(w->version), "%.*s", (int)version.n,
	         version.n ? version.at : "");
	free(w->state);
	w->state = xcalloc(1, e->object.n + 1);
	w->state_n = e->object.n;
	memcpy(w->state, e->object.at, e->object.n);
	w->gone = false;
	forget_error(all, w);
	wait_queue_wake(&w->notified);
}

bool waits_notify(struct kube_waits *all, const struct kube_event *e)
{
	bool unread = false;
	assert_locked(all->lock);
	for (struct kube_wait *i = first_of(all, e->name); i; i = next_of(i, e->name)) {
		i->reading = 0;
		if (e->type == EVENT_DELETED)
			notify_deleted(all, i, e);
		else
			waits_notify_state(all, i, e);
		unread |= i->unread_since != 0;
	}
	return unread;
}

static void notify_error(struct kube_wait *w, const struct err *err)
{
	w->failed = true;
	if (!w->err)
		w->err = xmalloc(sizeof(*w->err));
	*w->err = *err;
	wait_must_read(w);
	wait_queue_wake(&w->notified);
}

/*
 * Returns true if the wait's object may be read. It may not while an error is unreported, because
 * the caller of the wait decides after the error whether the read is needed.
 */
static bool may_be_read(const struct kube_wait *w)
{
	return w->unread_since && w->asked && !w->failed;
}

/* Among waits with equal times, returns the last in the table, which was opened first. */
static const struct kube_wait *longest_unread(const struct kube_waits *all)
{
	const struct kube_wait *longest = NULL;
	if (all->n_unread == 0)
		return NULL;
	for (const struct kube_wait *i = all->first; i; i = i->next)
		if (may_be_read(i) && (!longest || i->unread_since <= longest->unread_since))
			longest = i;
	return longest;
}

char *waits_next_unread(struct kube_waits *all, unsigned long read)
{
	const struct kube_wait *longest;
	struct line_span name;
	assert_locked(all->lock);
	longest = longest_unread(all);
	if (!longest)
		return NULL;
	name = span_of(longest->name);
	for (struct kube_wait *i = first_of(all, name); i; i = next_of(i, name)) {
		if (!may_be_read(i))
			continue;
		i->reading = read;
		need_not_read(i);
	}
	return xstrdup(longest->name);
}

/* Returns the wait that has been due for the longest time, so that every wait gets its turn. */
static const struct kube_wait *next_resync_locked(struct kube_waits *all, int64_t now,
                                                  int64_t every_ns)
{
	const struct kube_wait *longest = NULL;
	for (struct kube_wait *i = all->first; i; i = i->next) {
		if (!i->asked || i->reading)
			continue;
		if (i->resync_at == 0)
			i->resync_at = now + every_ns;
		if (i->resync_at <= now && (!longest || i->resync_at < longest->resync_at))
			longest = i;
	}
	return longest;
}

char *waits_next_resync(struct kube_waits *all, unsigned long read, int64_t now, int64_t every_ns)
{
	const struct kube_wait *longest;
	struct line_span name;
	assert_locked(all->lock);
	longest = next_resync_locked(all, now, every_ns);
	if (!longest)
		return NULL;
	name = span_of(longest->name);
	for (struct kube_wait *i = first_of(all, name); i; i = next_of(i, name)) {
		if (!i->asked || i->reading)
			continue;
		i->resync_at = now + every_ns;
		i->reading = read;
	}
	return xstrdup(longest->name);
}

/* Returns true if the wait requested this read, and clears the request. */
static bool was_read(struct kube_wait *w, unsigned long read)
{
	if (w->reading != read)
		return false;
	w->reading = 0;
	return true;
}

void waits_notify_read(struct kube_waits *all, const char *name, unsigned long read,
                       const struct kube_event *e)
{
	struct line_span of = span_of(name);
	assert_locked(all->lock);
	for (struct kube_wait *i = first_of(all, of); i; i = next_of(i, of)) {
		if (!was_read(i, read))
			continue;
		if (e)
			waits_notify_state(all, i, e);
		else
			notify_gone(all, i);
	}
}

void waits_notify_read_error(struct kube_waits *all, const char *name, unsigned long read,
                             const struct err *err)
{
	struct line_span of = span_of(name);
	assert_locked(all->lock);
	for (struct kube_wait *i = first_of(all, of); i; i = next_of(i, of))
		if (was_read(i, read))
			notify_error(i, err);
}

void waits_read_again(struct kube_waits *all, const char *name, unsigned long read)
{
	struct line_span of = span_of(name);
	assert_locked(all->lock);
	for (struct kube_wait *i = first_of(all, of); i; i = next_of(i, of))
		if (was_read(i, read))
			wait_must_read(i);
}

void waits_read_dropped(struct kube_waits *all, const char *name, unsigned long read)
{
	struct line_span of = span_of(name);
	assert_locked(all->lock);
	for (struct kube_wait *i = first_of(all, of); i; i = next_of(i, of))
		(void)was_read(i, read);
}

void waits_notify_error(struct kube_waits *all, const struct err *err)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = all->first; i; i = i->next)
		notify_error(i, err);
}

void waits_begin_live(struct kube_waits *all)
{
	assert_locked(all->lock);
	all->live = true;
	/*
	 * Objects that were just read are read again, because they may be older than the resume
	 * point.
	 */
	for (struct kube_wait *i = all->first; i; i = i->next)
		i->failed = false;
	all_must_read(all);
}

void waits_end_live(struct kube_waits *all)
{
	assert_locked(all->lock);
	all->live = false;
	all_must_read(all);
}

void waits_wake(struct kube_waits *all)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = all->first; i; i = i->next)
		wait_queue_wake(&i->notified);
}
