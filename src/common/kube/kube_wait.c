/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one object: the callers' side.
 *
 * A wait holds at most one state, the newest not yet given out. Nothing else of the cluster is kept.
 * Everything is under the client's lock; conditions are per wait, so that an event wakes whom it concerns.
 *
 * Why a wait reads its object only after kube_wait_next() was called for the first time: a caller opens the wait
 * first and then creates the object; "does not exist", read between the two, would be stale.
 */
#include "common/kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static struct kube_watch *watch_for(struct kube *k, const struct kube_kind *kind, const char *ns)
{
	for (struct kube_watch *w = k->watches; w; w = w->next)
		if (str_eq(w->kind.plural, kind->plural) && str_eq(w->kind.group, kind->group) &&
		    str_eq(w->kind.version, kind->version) && (w->ns == ns || str_eq(w->ns, ns)))
			return w;
	struct kube_watch *w = watch_new(k, kind, ns);
	w->next = k->watches;
	k->watches = w;
	return w;
}

int kube_wait_open(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                   struct kube_wait **ret, struct err *err)
{
	struct kube_wait *w = xcalloc(1, sizeof(*w));
	pthread_cond_init(&w->told, NULL);
	w->name = xstrdup(name);
	WITH_LOCK(&k->lock);
	if (k->stopping) {
		free(w->name);
		free(w);
		return err_set(err, ERR_CANCELLED, "watch %s: the client is being stopped", name);
	}
	k->users++;
	w->watch = watch_for(k, kind, ns);
	w->next = w->watch->waits;
	w->watch->waits = w;
	if (!w->watch->live) {
		w->must_read = true;
		watch_kick(w->watch);
	}
	*ret = w;
	return 0;
}

void kube_wait_expect(struct kube_wait *w, const char *uid)
{
	WITH_LOCK(&w->watch->k->lock);
	free(w->uid);
	w->uid = uid ? xstrdup(uid) : NULL;
}

void kube_wait_close(struct kube_wait *w)
{
	if (!w)
		return;
	struct kube *k = w->watch->k;
	{
		WITH_LOCK(&k->lock);
		struct kube_wait **at = &w->watch->waits;
		while (*at != w)
			at = &(*at)->next;
		*at = w->next;
	}
	pthread_cond_destroy(&w->told);
	json_free(w->state);
	free(w->name);
	free(w->uid);
	free(w);
	kube_leave(k);
}

/* -------------------------------------------------------------- kube_wait_next */

static int out_of_time(const struct kube_wait *w, struct err *err)
{
	const struct kube_watch *watch = w->watch;
	const struct kube_target t = { .kind = &watch->kind, .ns = watch->ns, .name = w->name };
	char text[512];
	kube_target_text(&t, text);
	if (watch->down[0])
		return err_set(err, ERR_DEADLINE, "watch %s: no change seen in time; %s", text,
		               watch->down);
	return err_set(err, ERR_DEADLINE, "watch %s: no change in time", text);
}

/* Is there something to tell? 0, 1 or -1 as kube_wait_next(), 2: nothing yet. */
static int tell(struct kube_wait *w, struct json **ret, struct err *err)
{
	if (w->watch->k->stopping)
		return err_set(err, ERR_CANCELLED, "watch %s: the client is being stopped",
		               w->name);
	if (w->state) {
		*ret = TAKE(w->state);
		w->gone_told = false;
		return 0;
	}
	if (w->gone) {
		w->gone = false;
		w->gone_told = true;
		return 1;
	}
	if (w->failed) {
		w->failed = false;
		*err = w->err;
		return -1;
	}
	return 2;
}

static int next_locked(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
{
	struct kube *k = w->watch->k;
	struct deadline until = { .at = d.at };
	struct timespec ts = deadline_timespec(until);
	WITH_LOCK(&k->lock);
	w->asked = true;
	if (w->must_read || !w->watch->live || *w->watch->down)
		watch_kick(w->watch);
	for (;;) {
		int rc = tell(w, ret, err);
		if (rc != 2)
			return rc;
		if (w->cancelled)
			return err_set(err, ERR_CANCELLED, "watch %s: cancelled", w->name);
		if (deadline_passed(until))
			return out_of_time(w, err);
		pthread_cond_clockwait(&w->told, &k->lock, CLOCK_MONOTONIC, &ts);
	}
}

/* Runs under the lock of the caller's cancellation, which is therefore never asked for under ours. */
static void wake(void *arg)
{
	struct kube_wait *w = arg;
	WITH_LOCK(&w->watch->k->lock);
	w->cancelled = true;
	pthread_cond_signal(&w->told);
}

int kube_wait_next(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
{
	w->cancelled = false;
	if (cancel_on_set(d.cancel, wake, w))
		wake(w);
	int rc = next_locked(w, d, ret, err);
	(void)cancel_on_set(d.cancel, NULL, NULL);
	return rc;
}

/* -------------------------------------------------------------- what the watch tells */

bool waits_any(const struct kube_watch *w, const char *name, size_t n)
{
	for (const struct kube_wait *i = w->waits; i; i = i->next)
		if (strlen(i->name) == n && memcmp(i->name, name, n) == 0)
			return true;
	return false;
}

static void tell_gone(struct kube_wait *w)
{
	json_free(TAKE(w->state));
	w->version[0] = 0;
	w->must_read = false;
	w->gone = !w->gone_told;
	w->failed = w->failed && !w->watch->live;
	pthread_cond_signal(&w->told);
}

static void tell_deleted(struct kube_wait *w, const struct json *object)
{
	if (!w->uid)
		w->must_read = true; /* perhaps an earlier object of the name */
	else if (str_eq(json_str(object, "metadata.uid"), w->uid))
		tell_gone(w);
}

static void tell_state(struct kube_wait *w, const struct json *object)
{
	const char *version = json_str(object, "metadata.resourceVersion");
	if (version && str_eq(version, w->version))
		return;
	snprintf(w->version, sizeof(w->version), "%s", version ? version : "");
	json_free(w->state);
	w->state = json_copy(object);
	w->gone = false;
	/* A read that succeeds is no comfort while watching is refused: there will be no next state. */
	w->failed = w->failed && !w->watch->live;
	pthread_cond_signal(&w->told);
}

void waits_tell(struct kube_watch *w, const char *name, const struct json *object, bool deleted)
{
	for (struct kube_wait *i = w->waits; i; i = i->next) {
		if (!str_eq(i->name, name))
			continue;
		i->reading = 0;
		if (deleted)
			tell_deleted(i, object);
		else
			tell_state(i, object);
	}
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

void waits_tell_read(struct kube_watch *w, unsigned long read, const struct json *object)
{
	for (struct kube_wait *i = w->waits; i; i = i->next) {
		if (!was_read(i, read))
			continue;
		if (object)
			tell_state(i, object);
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
