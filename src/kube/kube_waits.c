/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one object: what the watch tells to those who wait. Everything here runs under the
 * client's lock.
 */
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static void tell_gone(struct kube_wait *w)
{
	free(TAKE(w->state));
	w->version[0] = 0;
	w->must_read = false;
	w->gone = !w->gone_told;
	w->failed = w->failed && !w->watch->live;
	pthread_cond_signal(&w->told);
}

static void tell_deleted(struct kube_wait *w, const struct kube_event *e)
{
	if (!w->uid)
		w->must_read = true; /* perhaps an earlier object of the name */
	else if (span_eq(e->uid, w->uid))
		tell_gone(w);
}

static void tell_state(struct kube_wait *w, const struct kube_event *e)
{
	struct span version = e->resource_version;
	if (version.n > 0 && span_eq(version, w->version))
		return;
	snprintf(w->version, sizeof(w->version), "%.*s", (int)version.n,
	         version.n ? version.at : "");
	free(w->state);
	w->state = xcalloc(1, e->object.n + 1);
	w->state_n = e->object.n;
	memcpy(w->state, e->object.at, e->object.n);
	w->gone = false;
	/*
	 * A read that succeeds is no comfort while watching is refused: there will be no next
	 * state.
	 */
	w->failed = w->failed && !w->watch->live;
	pthread_cond_signal(&w->told);
}

bool waits_tell(struct kube_watch *w, const struct kube_event *e)
{
	bool unread = false;
	for (struct kube_wait *i = w->waits; i; i = i->next) {
		if (!span_eq(e->name, i->name))
			continue;
		i->reading = 0;
		if (e->type == EVENT_DELETED)
			tell_deleted(i, e);
		else
			tell_state(i, e);
		unread |= i->must_read;
	}
	return unread;
}

static void tell_error(struct kube_wait *w, const struct err *err)
{
	w->failed = true;
	w->err = *err;
	w->must_read = true;
	pthread_cond_signal(&w->told);
}

char *waits_take_unread(struct kube_watch *w, unsigned long read)
{
	char *name = NULL;
	for (struct kube_wait *i = w->waits; i; i = i->next) {
		if (!i->must_read || !i->asked || (name && !str_eq(i->name, name)))
			continue;
		i->must_read = false;
		i->reading = read;
		if (!name)
			name = xstrdup(i->name);
	}
	return name;
}

/* True once for a wait that the read is for. */
static bool was_read(struct kube_wait *w, unsigned long read)
{
	if (w->reading != read)
		return false;
	w->reading = 0;
	return true;
}

void waits_tell_read(struct kube_watch *w, unsigned long read, const struct kube_event *e)
{
	for (struct kube_wait *i = w->waits; i; i = i->next) {
		if (!was_read(i, read))
			continue;
		if (e)
			tell_state(i, e);
		else
			tell_gone(i);
	}
}

void waits_tell_read_error(struct kube_watch *w, unsigned long read, const struct err *err)
{
	for (struct kube_wait *i = w->waits; i; i = i->next)
		if (was_read(i, read))
			tell_error(i, err);
}

void waits_read_again(struct kube_watch *w, unsigned long read)
{
	for (struct kube_wait *i = w->waits; i; i = i->next)
		if (was_read(i, read))
			i->must_read = true;
}

void waits_tell_error(struct kube_watch *w, const struct err *err)
{
	for (struct kube_wait *i = w->waits; i; i = i->next)
		tell_error(i, err);
}

void waits_forget_error(struct kube_watch *w)
{
	for (struct kube_wait *i = w->waits; i; i = i->next)
		i->failed = false;
}

void waits_must_read(struct kube_watch *w)
{
	for (struct kube_wait *i = w->waits; i; i = i->next)
		i->must_read = true;
}

void kube_waits_stop(struct kube *k)
{
	for (struct kube_watch *w = k->watches; w; w = w->next)
		for (struct kube_wait *i = w->waits; i; i = i->next)
			pthread_cond_signal(&i->told);
}
