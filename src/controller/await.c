/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until an object is ready, or until it is deleted, through kube_wait. The newest state is
 * kept, because a timeout names the unmet condition; while no events arrive, the state is kept as
 * text, a tenth of the tree's size. A struct await is on its caller's stack and used only by that
 * thread. The struct is small, because thousands of calls may wait at the same time, each with its
 * own stack.
 */
#include "controller/await.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dpf/conditions.h"
#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/running.h"
#include "common/thread.h"
#include "controller/object_events.h"

/* A POST whose answer is lost is repeated for 1.5 s; after that the sidecar may retry the call. */
#define POST_RETRIES 4
#define POST_PAUSE_MS 100
/* An object that may not be watched is read this many times, over 3.2 s. */
/* time limit for reading an object's Events after the deadline of its wait */
#define EVENTS_MS 2000
#define UNDO_MS 5000 /* further time limit for removing an object before a final code */
#define POLLS 7
#define POLL_PAUSE_MS 50

FRAME_OF_ITS_OWN static char *ref_of(const struct controller *c, const struct kube_kind *kind,
                                     const char *name)
{
	char ref[OBJECT_REF_MAX];

	object_ref(c, kind, name, ref);
	return xstrdup(ref);
}

/* Publishes the condition that the last state does not meet, for the log and /metrics. */
FRAME_OF_ITS_OWN static void announce_wait(struct await *a)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct condition c;
	const char *word = "none";

	if (a->for_its_end)
		word = "gone";
	else if (a->last && condition_unmet(a->last, &c))
		word = c.type;
	if (a->last)
		state_describe(a->last, "", &why);
	running_waits("%s%s%s", a->ref, a->for_its_end ? " to be gone" : "", why.ptr);
	if (a->span)
		metric_span_labels(a->span, METRIC_WAITS, LABELS(a->kind->plural, word));
	else
		a->span = metric_begin(METRIC_WAITS, LABELS(a->kind->plural, word));
}

/*
 * Converts the last state to text, which needs a tenth of the tree's memory. Called only after a
 * pause, because most states are soon followed by another one.
 */
static void keep_as_text(void *arg)
{
	struct await *a = arg;

	announce_wait(a);
	if (!a->last)
		return;
	a->last_text = json_print(a->last);
	json_free(TAKE(a->last));
}

int await_open(const struct controller *c, const struct kube_kind *kind, const char *name,
               struct deadline d, struct await *ret, struct err *err)
{
	*ret = (struct await) { .c = c, .kind = kind, .name = name, .d = d };
	ret->ref = ref_of(c, kind, name);
	if (kube_wait_open(c->kube, kind, c->namespace, name, &ret->wait, err))
		return -1;
	kube_wait_on_rest(ret->wait, keep_as_text, ret);
	return 0;
}

void await_close(struct await *a)
{
	if (a->wait)
		kube_wait_close(a->wait);
	json_free(a->last);
	free(a->reason);
	free(a->watch_error);
	free(a->ref);
	a->wait = NULL;
	a->last = NULL;
	a->reason = a->watch_error = a->ref = NULL;
}

/* ---- errors ---- */

static void keep_reason(struct await *a, char *reason)
{
	free(a->reason);
	a->reason = reason;
}

int await_fail(struct await *a, struct err *err, enum err_code code, const char *before,
               const char *fmt, ...)
{
	char text[ERR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	keep_reason(a, xasprintf("%sit %s", before, text));
	return err_set(err, code, "%s%s %s", before, a->ref, text);
}

int await_wrap(struct await *a, struct err *err)
{
	keep_reason(a, xstrdup(err->msg));
	return err_wrap(err, "%s", a->ref);
}

/* ---- states ---- */

/*
 * Recodes the error of a POST. kube_create() returns final codes only if it has changed nothing,
 * but the effect of an earlier attempt without an answer is unknown: that attempt may be executed
 * even after a read that found nothing.
 */
static int refuse_perhaps_created(struct err *err)
{
	IGNORE_RESULT(err_recode(err, ERR_UNAVAILABLE));
	return err_wrap(err, KUBE_PERHAPS_DONE);
}

/* Sets the error of an earlier attempt: an attempt that the deadline cut off says less. */
static int refuse_as_before(const char *before, struct err *err)
{
	err_clear(err);
	IGNORE_RESULT(err_set(err, ERR_UNAVAILABLE, "%s", before));
	return err_wrap(err, KUBE_PERHAPS_DONE);
}

int await_create(struct await *a, struct json *object, struct json **ret, struct err *err)
{
	int64_t pause = POST_PAUSE_MS;
	char *before AUTO(free) = NULL;

	for (int i = 0;; i++, pause *= 2) {
		struct err ignored = ERR_INIT;
		int rc = kube_create(a->c->kube, a->kind, a->c->namespace, object, a->d, ret, err);

		if (rc >= 0)
			return rc;
		if (before && err->code == ERR_DEADLINE)
			return refuse_as_before(before, err);
		if (err->code != ERR_UNAVAILABLE || i == POST_RETRIES ||
		    deadline_sleep(a->d, pause, &ignored, "POST"))
			return i > 0 && !code_is_open(err->code) ? refuse_perhaps_created(err) : -1;
		free(before);
		before = xstrdup(err->msg);
		err_clear(err);
	}
}

int await_find(struct await *a, struct json **ret, struct err *err)
{
	int rc = kube_get(a->c->kube, a->kind, a->c->namespace, a->name, a->d, ret, err);

	if (rc < 0 && !code_is_open(err->code))
		return err_recode(err, ERR_UNAVAILABLE);
	return rc;
}

static void keep(struct await *a, struct json *state)
{
	json_free(a->last);
	a->last = state;
}

static bool same_uid(const struct json *object, const char *uid)
{
	return str_eq(json_str(object, "metadata.uid"), uid);
}

/*
 * After the deadline, adds the cause in the object's Events to `why`. Returns true if the Event, or
 * a condition with the reason Error (after which DPF retries), reports that storage or a quota is
 * exhausted. The call then has a few more seconds for its last steps before the answer.
 */
static bool explain_deadline(struct await *a, struct str *why)
{
	struct deadline d = deadline_in_ms(EVENTS_MS);
	struct condition c;
	bool exhausted;

	d.cancel = a->d.cancel;
	if (!a->last)
		return false;
	exhausted = object_events_describe(a->c, a->last, d, why);
	exhausted |= condition_reason(a->last, REASON_ERROR, &c) && speaks_of_exhaustion(c.message);
	if (!exhausted || a->for_its_end)
		return false;
	a->d.at = deadline_in_ms(UNDO_MS).at;
	return true;
}

/*
 * Sets the error of a wait that cannot continue: the awaited state, then why the object has not
 * reached it.
 */
static int refuse_given_up(struct await *a, const char *goal, struct str *why, struct err *err)
{
	enum err_code code = err->code;

	if (code != ERR_DEADLINE && code != ERR_CANCELLED) {
		keep_reason(a, xasprintf("waiting for it: %s", err->msg));
		return err_wrap(err, "waiting for %s", a->ref);
	}
	err_clear(err);
	if (code == ERR_DEADLINE && explain_deadline(a, why)) {
		code = ERR_EXHAUSTED;
		keep_reason(a, xasprintf("it %s", why->ptr));
	}
	return err_set(err, code, "%s: %s %s%s%s", goal, a->ref, why->ptr,
	               a->watch_error ? "; " : "", a->watch_error ? a->watch_error : "");
}

/*
 * GONE: the object does not exist, or does not have the uid that the wait is about. REPLACED: an
 * event or a read returned an object with a different uid. If that was a late event, the other
 * object may be older than the awaited one.
 */
enum { GONE = KUBE_ABSENT, REPLACED = KUBE_REPLACED };

/*
 * Reads the object. Returns 0 if it exists (then it is in a->last), GONE, or REPLACED if an object
 * with a different uid exists.
 */
static int confirm_gone(struct await *a, const char *uid, struct err *err)
{
	struct json *now = NULL;
	int rc = kube_get(a->c->kube, a->kind, a->c->namespace, a->name, a->d, &now, err);

	if (rc)
		return rc;
	if (!same_uid(now, uid)) {
		json_free(now);
		return REPLACED;
	}
	keep(a, now);
	return 0;
}

FRAME_OF_ITS_OWN static void ask_watch_error(struct await *a)
{
	char text[KUBE_WATCH_ERROR_MAX];

	kube_wait_watch_error(a->wait, text);
	free(a->watch_error);
	a->watch_error = *text ? xstrdup(text) : NULL;
}

/* The output of json_print() is always valid JSON. */
FRAME_OF_ITS_OWN static void keep_as_tree(struct await *a)
{
	struct err impossible = ERR_INIT;
	int rc;

	if (!a->last_text)
		return;
	assert(!a->last);
	rc = json_parse("state", a->last_text, strlen(a->last_text), &a->last, &impossible);
	assert(rc == 0);
	(void)rc;
	free(TAKE(a->last_text));
}

static void begin_wait(struct await *a, bool for_its_end)
{
	if (!a->since || for_its_end)
		a->since = monotonic_ns();
	a->for_its_end = for_its_end;
}

static const char *end_word(const struct await *a, int rc, const struct err *err)
{
	if (!rc)
		return "reached";
	if (err->code == ERR_DEADLINE || err->code == ERR_CANCELLED)
		return err->code == ERR_DEADLINE ? "deadline" : "cancelled";
	return a->unwatchable ? "unwatchable" : "failed";
}

/* Ends the wait and returns rc. */
static int end_wait(struct await *a, int rc, const struct err *err)
{
	running_waits(NULL);
	metric_end(TAKE_OR(a->span, 0));
	metric_observe(METRIC_WAITED, monotonic_ns() - TAKE_OR(a->since, 0),
	               LABELS(a->kind->plural, end_word(a, rc, err)));
	return rc;
}

/*
 * Waits for the next state of the object with that uid, which becomes a->last. Returns 0, GONE,
 * REPLACED, or -1.
 */
static int await_next_state(struct await *a, const char *uid, struct err *err)
{
	struct json *next = NULL;
	int rc = kube_wait_next(a->wait, a->d, &next, err);

	keep_as_tree(a);
	if (rc < 0)
		a->unwatchable = !code_is_open(err->code);
	if (rc < 0 && err->code == ERR_DEADLINE)
		ask_watch_error(a);
	if (rc)
		return rc;
	if (!same_uid(next, uid)) {
		json_free(next);
		return REPLACED;
	}
	keep(a, next);
	return 0;
}

/* Prefixes the error of an await_readiness ("... is being deleted") with the object's name. */
static int refuse_by_readiness(struct await *a, struct err *err)
{
	struct err words = *err;

	err_clear(err);
	return await_fail(a, err, words.code, "", "%s", words.msg);
}

const char *object_uid(const struct json *object, const char *ref, struct err *err)
{
	const char *uid = json_str(object, "metadata.uid");

	if (!str_empty(uid))
		return uid;
	err_set(err, ERR_UNAVAILABLE, "%s: metadata.uid is missing", ref);
	return NULL;
}

/*
 * Calls `readiness` again to describe the unmet condition, which is not done earlier, because most
 * states are soon followed by another one.
 */
static int refuse_unready(struct await *a, const char *goal, await_readiness *readiness, void *arg,
                          struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct err ignored = ERR_INIT;

	IGNORE_RESULT(readiness(arg, a->last, &why, &ignored));
	return refuse_given_up(a, goal, &why, err);
}

/*
 * Makes the wait ignore events about another object of the same name, and about the state `first`.
 */
static void expect_event(struct await *a, const struct json *first)
{
	kube_wait_expect(a->wait, json_str(first, "metadata.uid"));
	kube_wait_seen(a->wait, json_str(first, "metadata.resourceVersion"));
}

void await_event(struct await *a, const struct json *first, int ms)
{
	struct deadline d = deadline_in_ms(ms);

	if (d.at > a->d.at)
		d.at = a->d.at;
	d.cancel = a->d.cancel;
	begin_wait(a, false);
	expect_event(a, first);
	kube_wait_event(a->wait, d);
}

static int wait_ready(struct await *a, struct json *first, const char *goal,
                      await_readiness *readiness, void *arg, struct err *err)
{
	char *uid AUTO(free) = NULL;
	int rc = 0;

	assert(first && json_str(first, "metadata.uid"));
	keep(a, first);
	uid = xstrdup(json_str(first, "metadata.uid"));
	expect_event(a, first);
	for (;;) {
		rc = readiness(arg, a->last, NULL, err);
		if (rc < 0)
			return refuse_by_readiness(a, err);
		if (rc != AWAIT_NOT_YET)
			return 0;
		kill_point("wait: not ready yet");
		rc = await_next_state(a, uid, err);
		if (rc == GONE || rc == REPLACED)
			rc = confirm_gone(a, uid, err);
		if (rc < 0)
			return refuse_unready(a, goal, readiness, arg, err);
		if (rc == GONE || rc == REPLACED)
			return err_set(err, ERR_ABORTED, "%s was deleted during the wait for it",
			               a->ref);
	}
}

int await_ready(struct await *a, struct json *first, const char *goal, await_readiness *readiness,
                void *arg, struct err *err)
{
	begin_wait(a, false);
	return end_wait(a, wait_ready(a, first, goal, readiness, arg, err), err);
}

static void why_still_there(const struct await *a, struct str *why)
{
	str_add(why, "still exists");
	if (a->last)
		state_describe(a->last, "", why);
}

/*
 * Without permission to watch there are no events, but reading may be permitted. Reads the object a
 * few times, with growing pauses.
 */
static bool poll_until_gone(struct await *a, const char *uid)
{
	int64_t pause = POLL_PAUSE_MS;

	for (int i = 0; i < POLLS; i++, pause *= 2) {
		struct err ignored = ERR_INIT;
		int rc = confirm_gone(a, uid, &ignored);

		if (rc)
			return rc == GONE;
		if (deadline_sleep(a->d, pause, &ignored, "poll"))
			return false;
	}
	return false;
}

/*
 * The call has to make sure that no object has this name, so it fails; the next call handles the
 * new object.
 */
int await_refuse_replaced(const struct await *a, struct err *err)
{
	return err_set(err, ERR_ABORTED,
	               "%s was created again by another client during its "
	               "deletion; retry",
	               a->ref);
}

static int wait_gone(struct await *a, const char *uid, const char *goal, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	int rc = 0;

	kill_point("wait: not gone yet");
	kube_wait_expect(a->wait, uid);
	while (!a->unwatchable && rc == 0) {
		rc = await_next_state(a, uid, err);
		if (rc == REPLACED)
			rc = confirm_gone(a, uid, err);
	}
	if (rc == GONE)
		return 0;
	if (rc == REPLACED)
		return await_refuse_replaced(a, err);
	if (a->unwatchable && poll_until_gone(a, uid)) {
		err_clear(err);
		return 0;
	}
	if (rc == 0)
		err_set(err, ERR_DEADLINE, "polled %d times", POLLS);
	why_still_there(a, &why);
	IGNORE_RESULT(refuse_given_up(a, goal, &why, err));
	/* The deletion has begun, so a final code would be wrong. */
	return code_is_open(err->code) ? -1 : err_recode(err, ERR_UNAVAILABLE);
}

int await_gone(struct await *a, const char *uid, const char *goal, struct err *err)
{
	begin_wait(a, true);
	return end_wait(a, wait_gone(a, uid, goal, err), err);
}

/* Waits for the deletion. `rc` is the result of the DELETE of the object with that uid. */
static int await_end(struct await *a, int rc, const char *uid, const char *goal, struct err *err)
{
	if (rc < 0)
		return err_wrap(err, "%s", a->ref);
	kill_point("remove: DELETE answered");
	if (rc == KUBE_CHANGED)
		return AWAIT_CHANGED;
	if (rc == KUBE_REPLACED)
		return await_refuse_replaced(a, err);
	return rc == KUBE_ABSENT ? 0 : await_gone(a, uid, goal, err);
}

static int delete_and_wait(struct await *a, const struct json *object, bool as_is, const char *goal,
                           struct err *err)
{
	const char *uid = object_uid(object, a->ref, err);
	int rc = 0;

	if (!uid)
		return -1;
	/* Before the DELETE, because the event may arrive before the DELETE's answer. */
	kube_wait_expect(a->wait, uid);
	if (json_at(object, "metadata.deletionTimestamp"))
		rc = 0;
	else if (as_is)
		rc = kube_delete_state(a->c->kube, a->kind, a->c->namespace, object, a->d, err);
	else
		rc = kube_delete(a->c->kube, a->kind, a->c->namespace, a->name, uid, a->d, err);
	return await_end(a, rc, uid, goal, err);
}

int await_deleted(struct await *a, const struct json *object, const char *goal, struct err *err)
{
	return delete_and_wait(a, object, false, goal, err);
}

int await_deleted_uid(struct await *a, const char *uid, const char *goal, struct err *err)
{
	int rc;

	kube_wait_expect(a->wait, uid);
	rc = kube_delete(a->c->kube, a->kind, a->c->namespace, a->name, uid, a->d, err);
	return await_end(a, rc == KUBE_REPLACED ? KUBE_CHANGED : rc, uid, goal, err);
}

int await_deleted_as_is(struct await *a, const struct json *object, const char *goal,
                        struct err *err)
{
	return delete_and_wait(a, object, true, goal, err);
}

int await_settled(const struct await *a, struct err *err)
{
	if (!kube_may_come(a->c->kube, a->kind, a->c->namespace, a->name))
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
	               "%s does not exist now, but a request to create it had no answer, and the "
	               "API server may still execute it for half a minute; retry",
	               a->ref);
}

int await_failed(const struct json *object, struct err *err)
{
	struct condition c;

	if (!condition_reason(object, REASON_FAILURE, &c))
		return 0;
	return err_set(err, speaks_of_exhaustion(c.message) ? ERR_EXHAUSTED : ERR_UNAVAILABLE,
	               "failed: %s=%s (Failure: %s)", c.type, c.status, c.message);
}
