/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one object: what the watch has learned, handed to those who wait for it. Wakes them;
 * never waits itself, parses nothing and starts no request.
 */
#include "kube/kube_waits.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "common/str.h"

#define BUCKETS_MIN 64

/* FNV-1a. Names that meet by accident, or that somebody has chosen so, cost one comparison more. */
static uint32_t hash_of(struct line_span name)
{
	uint32_t hash = 2166136261;
	for (size_t i = 0; i < name.n; i++)
		hash = (hash ^ (unsigned char)name.at[i]) * 16777619;
	return hash;
}

static uint32_t hash_of_text(const char *name)
{
	return hash_of((struct line_span) { name, strlen(name) });
}

static void add_near(struct kube_waits *all, struct kube_wait *w)
{
	struct kube_wait **first = &all->buckets[w->name_hash & (all->n_buckets - 1)];
	w->next_near = *first;
	w->place_near = first;
	if (*first)
		(*first)->place_near = &w->next_near;
	*first = w;
}

/* It stays as large as the largest burst has made it: 8 bytes for each wait of that. */
static void grow(struct kube_waits *all)
{
	free(all->buckets);
	all->n_buckets = all->n_buckets ? 2 * all->n_buckets : BUCKETS_MIN;
	all->buckets = xcalloc(all->n_buckets, sizeof(struct kube_wait *));
	for (struct kube_wait *i = all->first; i; i = i->next)
		add_near(all, i);
}

void waits_add(struct kube_waits *all, struct kube_wait *w)
{
	assert_locked(all->lock);
	if (all->n++ >= all->n_buckets)
		grow(all);
	w->name_hash = hash_of_text(w->name);
	w->all = all;
	w->next = all->first;
	w->place = &all->first;
	if (w->next)
		w->next->place = &w->next;
	all->first = w;
	add_near(all, w);
}

/* Who is to be read already keeps the turn, however often the place is lost. */
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
	*w->place = w->next;
	if (w->next)
		w->next->place = w->place;
	*w->place_near = w->next_near;
	if (w->next_near)
		w->next_near->place_near = w->place_near;
	need_not_read(w);
	all->n--;
}

void waits_free(struct kube_waits *all)
{
	assert(all->n == 0 && all->n_unread == 0);
	free(TAKE(all->buckets));
}

/* The first of those whose hash begins alike; the others follow by next_near. */
static struct kube_wait *near(const struct kube_waits *all, uint32_t hash)
{
	return all->n_buckets ? all->buckets[hash & (all->n_buckets - 1)] : NULL;
}

void wait_must_read(struct kube_wait *w)
{
	must_read_since(w, monotonic_ns());
}

/* Of one moment: among them the order of the table decides. */
static void all_must_read(struct kube_waits *all)
{
	int64_t now = monotonic_ns();
	for (struct kube_wait *i = all->first; i; i = i->next)
		must_read_since(i, now);
}

/* While the watch does not work its error is kept: after this, nothing will come as an event. */
static void forget_error(const struct kube_waits *all, struct kube_wait *w)
{
	if (all->live)
		w->failed = false;
}

static void tell_gone(const struct kube_waits *all, struct kube_wait *w)
{
	free(TAKE(w->state));
	w->version[0] = 0;
	w->gone = !w->gone_told;
	forget_error(all, w);
	pthread_cond_signal(&w->told);
}

static void tell_deleted(const struct kube_waits *all, struct kube_wait *w,
                         const struct kube_event *e)
{
	if (!w->uid) {
		wait_must_read(w); /* perhaps an earlier object of the name */
	} else if (line_span_eq(e->uid, w->uid)) {
		need_not_read(w);
		tell_gone(all, w);
	}
}

static void tell_state(const struct kube_waits *all, struct kube_wait *w,
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
	pthread_cond_signal(&w->told);
}

bool waits_tell(struct kube_waits *all, const struct kube_event *e)
{
	uint32_t hash = hash_of(e->name);
	bool unread = false;
	assert_locked(all->lock);
	for (struct kube_wait *i = near(all, hash); i; i = i->next_near) {
		if (i->name_hash != hash || !line_span_eq(e->name, i->name))
			continue;
		i->reading = 0;
		if (e->type == EVENT_DELETED)
			tell_deleted(all, i, e);
		else
			tell_state(all, i, e);
		unread |= i->unread_since != 0;
	}
	return unread;
}

static void tell_error(struct kube_wait *w, const struct err *err)
{
	w->failed = true;
	if (!w->err)
		w->err = xmalloc(sizeof(*w->err));
	*w->err = *err;
	wait_must_read(w);
	pthread_cond_signal(&w->told);
}

/* An error that is still to be told comes first: its caller says whether the read is wanted. */
static bool may_be_read(const struct kube_wait *w)
{
	return w->unread_since && w->asked && !w->failed;
}

/* Of those of one moment the last in the table, which was opened first. */
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

static bool same_name(const struct kube_wait *a, const struct kube_wait *b)
{
	return a->name_hash == b->name_hash && str_eq(a->name, b->name);
}

char *waits_take_unread(struct kube_waits *all, unsigned long read)
{
	const struct kube_wait *longest;
	assert_locked(all->lock);
	longest = longest_unread(all);
	if (!longest)
		return NULL;
	for (struct kube_wait *i = near(all, longest->name_hash); i; i = i->next_near) {
		if (!same_name(i, longest) || !may_be_read(i))
			continue;
		i->reading = read;
		need_not_read(i);
	}
	return xstrdup(longest->name);
}

/* The wait that is due for longest, so that everybody's turn comes. */
static const struct kube_wait *longest_quiet(struct kube_waits *all, int64_t now, int64_t every_ns)
{
	const struct kube_wait *longest = NULL;
	for (struct kube_wait *i = all->first; i; i = i->next) {
		if (!i->asked || i->reading)
			continue;
		if (i->look_at == 0)
			i->look_at = now + every_ns;
		if (i->look_at <= now && (!longest || i->look_at < longest->look_at))
			longest = i;
	}
	return longest;
}

char *waits_take_quiet(struct kube_waits *all, unsigned long read, int64_t now, int64_t every_ns)
{
	const struct kube_wait *longest;
	assert_locked(all->lock);
	longest = longest_quiet(all, now, every_ns);
	if (!longest)
		return NULL;
	for (struct kube_wait *i = near(all, longest->name_hash); i; i = i->next_near) {
		if (!i->asked || i->reading || !same_name(i, longest))
			continue;
		i->look_at = now + every_ns;
		i->reading = read;
	}
	return xstrdup(longest->name);
}

/* True, once, when the wait asked for this read. */
static bool was_read(struct kube_wait *w, unsigned long read)
{
	if (w->reading != read)
		return false;
	w->reading = 0;
	return true;
}

void waits_tell_read(struct kube_waits *all, const char *name, unsigned long read,
                     const struct kube_event *e)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = near(all, hash_of_text(name)); i; i = i->next_near) {
		if (!was_read(i, read))
			continue;
		if (e)
			tell_state(all, i, e);
		else
			tell_gone(all, i);
	}
}

void waits_tell_read_error(struct kube_waits *all, const char *name, unsigned long read,
                           const struct err *err)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = near(all, hash_of_text(name)); i; i = i->next_near)
		if (was_read(i, read))
			tell_error(i, err);
}

void waits_read_again(struct kube_waits *all, const char *name, unsigned long read)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = near(all, hash_of_text(name)); i; i = i->next_near)
		if (was_read(i, read))
			wait_must_read(i);
}

void waits_read_dropped(struct kube_waits *all, const char *name, unsigned long read)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = near(all, hash_of_text(name)); i; i = i->next_near)
		(void)was_read(i, read);
}

void waits_tell_error(struct kube_waits *all, const struct err *err)
{
	assert_locked(all->lock);
	for (struct kube_wait *i = all->first; i; i = i->next)
		tell_error(i, err);
}

void waits_begin_live(struct kube_waits *all)
{
	assert_locked(all->lock);
	all->live = true;
	/* Also what was read meanwhile is read again: it may be older than the watch's place. */
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
		pthread_cond_signal(&i->told);
}
