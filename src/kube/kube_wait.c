/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one object: the callers' side.
 *
 * A wait holds at most one state as text, the newest state that was not returned. The caller's
 * thread parses it, so a state that is replaced by a newer one is never parsed. No other object of
 * the cluster is kept. The client's lock guards all of it. Each wait has its own queue, so an event
 * wakes only the threads that wait for the event's object.
 *
 * A wait reads its object only after the first call of kube_wait_next(), because a caller opens the
 * wait first and then creates the object; a result "does not exist" that was read between these
 * steps would be stale. After an error, the wait reads the object only when kube_wait_next() is
 * called again; otherwise refused reads would follow each other without a pause.
 */
#include "kube/kube_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"

#define REST_AFTER_NS (THREAD_REST_AFTER_MS * INT64_C(1000000))

int kube_wait_open(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                   struct kube_wait **ret, struct err *err)
{
	struct kube_wait *w = xcalloc(1, sizeof(*w));
	w->name = xstrdup(name);
	WITH_LOCK(&k->lock);
	if (k->stopping) {
		free(w->name);
		free(w);
		return err_set(err, ERR_CANCELLED, "watch %s: the client is being stopped", name);
	}
	k->users++;
	w->watch = watch_for(k, kind, ns);
	waits_add(&w->watch->waits, w);
	if (!w->watch->waits.live) {
		wait_must_read(w);
		watch_kick(w->watch);
	}
	*ret = w;
	return 0;
}

void kube_wait_expect(struct kube_wait *w, const char *uid)
{
	WITH_LOCK(&w->watch->k->lock);
	if (str_eq(w->uid, uid))
		return;
	free(w->uid);
	w->uid = xstrdup_or_null(uid);
	/* The result of a read that began earlier may be older than this object. */
	if (w->reading || w->gone)
		wait_must_read(w);
	w->reading = 0;
	w->gone = w->gone_reported = false;
}

void kube_wait_seen(struct kube_wait *w, const char *version)
{
	WITH_LOCK(&w->watch->k->lock);
	if (str_empty(version) || strlen(version) >= sizeof(w->version))
		return;
	if (w->state && str_eq(w->version, version))
		free(TAKE(w->state));
	else if (!w->state && !w->gone)
		snprintf(w->version, sizeof(w->version), "%s", version);
}

void kube_wait_on_rest(struct kube_wait *w, void (*fn)(void *arg), void *arg)
{
	w->on_rest = fn;
	w->on_rest_arg = arg;
}

const char *kube_wait_watch_error(struct kube_wait *w, char ret[KUBE_WATCH_ERROR_MAX])
{
	WITH_LOCK(&w->watch->k->lock);
	snprintf(ret, KUBE_WATCH_ERROR_MAX, "%s", w->watch->down);
	return ret;
}

void kube_wait_close(struct kube_wait *w)
{
	struct kube *k;
	if (!w)
		return;
	k = w->watch->k;
	{
		WITH_LOCK(&k->lock);
		waits_remove(&w->watch->waits, w);
	}
	free(w->state);
	free(w->err);
	free(w->name);
	free(w->uid);
	free(w);
	kube_leave(k);
}

/* ---- kube_wait_next ---- */

FRAME_OF_ITS_OWN static int out_of_time(const struct kube_wait *w, struct err *err)
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

/* The JSON text of a state, moved out of a wait. */
struct state_text {
	char *text;
	size_t n;
};

/* An additional return value of wait_consume_locked(), which kube_wait_next() does not return. */
enum { NO_EVENT = 2 };

static int wait_consume_locked(struct kube_wait *w, struct state_text *ret, struct err *err)
{
	assert_locked(w->watch->waits.lock);
	assert(!w->state || !w->gone);
	if (w->watch->k->stopping)
		return err_set(err, ERR_CANCELLED, "watch %s: the client is being stopped",
		               w->name);
	if (w->state) {
		*ret = (struct state_text) { TAKE(w->state), w->state_n };
		w->gone_reported = false;
		return 0;
	}
	if (w->gone) {
		w->gone = false;
		w->gone_reported = true;
		return KUBE_ABSENT;
	}
	if (w->failed) {
		w->failed = false;
		w->asked = false;
		*err = *w->err;
		return -1;
	}
	return NO_EVENT;
}

static void begin_asking(struct kube_wait *w)
{
	WITH_LOCK(&w->watch->k->lock);
	w->asked = true;
	if (w->unread_since || !w->watch->waits.live || *w->watch->down || !w->watch->resyncing)
		watch_kick(w->watch);
}

static bool has_event_locked(const struct kube_wait *w)
{
	assert_locked(w->watch->waits.lock);
	return w->watch->k->stopping || w->state || w->gone || w->failed;
}

/* Waits for the next text until `at`. Returns NO_EVENT if the time has passed. */
static int wait_text_until(struct kube_wait *w, int64_t at, struct deadline d,
                           struct state_text *ret, struct err *err)
{
	struct kube *k = w->watch->k;
	int rc;

	WITH_LOCK(&k->lock);
	if (at < d.at)
		d.at = at;
	while (!has_event_locked(w) && wait_queue_wait(&w->notified, &k->lock, d))
		;
	rc = wait_consume_locked(w, ret, err);
	if (rc == NO_EVENT && cancel_is_set(d.cancel))
		return err_set(err, ERR_CANCELLED, "watch %s: cancelled", w->name);
	return rc;
}

/* Like kube_wait_next(), but returns the state's text instead of its tree. */
static int wait_next_text(struct kube_wait *w, struct deadline d, struct state_text *ret,
                          struct err *err)
{
	int64_t rest_at = monotonic_ns() + REST_AFTER_NS;
	int rc;
	begin_asking(w);
	rc = wait_text_until(w, rest_at, d, ret, err);
	if (rc == NO_EVENT && rest_at < d.at) {
		if (w->on_rest)
			w->on_rest(w->on_rest_arg);
		thread_rest();
		rc = wait_text_until(w, d.at, d, ret, err);
	}
	if (rc != NO_EVENT)
		return rc;
	WITH_LOCK(&w->watch->k->lock);
	return out_of_time(w, err);
}

/* Parses and frees the text. Returns false if it is not JSON. */
FRAME_OF_ITS_OWN static bool parse(struct kube_wait *w, const struct state_text *state,
                                   struct json **ret)
{
	struct err malformed = ERR_INIT;
	int rc;
	kube_blank_unread(state->text, state->n);
	rc = json_parse(w->name, state->text, state->n, ret, &malformed);
	free(state->text);
	if (rc)
		log_limited(LOG_WARNING, 30, "watch %s: %s; reading it", w->watch->kind.plural,
		            malformed.msg);
	return rc == 0;
}

int kube_wait_next(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
{
	for (;;) {
		struct state_text state = { 0 };
		int rc = wait_next_text(w, d, &state, err);
		if (rc)
			return rc;
		if (parse(w, &state, ret))
			return 0;
		/* The event was not valid JSON: the object is read instead. */
		WITH_LOCK(&w->watch->k->lock);
		w->version[0] = 0;
		wait_must_read(w);
	}
}

void kube_wait_event(struct kube_wait *w, struct deadline d)
{
	begin_asking(w);
	WITH_LOCK(&w->watch->k->lock);
	while (!has_event_locked(w) && wait_queue_wait(&w->notified, w->watch->waits.lock, d))
		;
}
