/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until one object is ready or deleted. At the deadline, the error names the unmet condition.
 * Open a wait before reading or creating its object, so that no change is missed.
 */
#pragma once

#include "common/cleanup.h"
#include "common/str.h"
#include "controller/controller.h"

struct await {
	const struct controller *c;
	const struct kube_kind *kind;
	const char *name; /* borrowed */
	struct kube_wait *wait;
	struct deadline d;
	struct json *last; /* the newest state seen, owned */
	char *last_text;   /* JSON text that replaces `last` while no events arrive; owned */
	bool unwatchable;  /* the watch was refused: no event will arrive */
	bool for_its_end;  /* waits for the object's deletion */
	unsigned span;     /* this wait's span in the metric of waits */
	int64_t since;     /* when the wait began; monotonic ns; 0: not begun */
	/* Why the watch was not running at the deadline; NULL if it was. Owned. */
	char *watch_error;
	/*
	 * The last error as a clause that follows the object's name: "it failed: ...". Set with
	 * every error whose code is final; owned.
	 */
	char *reason;
	char *ref; /* the object, as errors name it; owned */
};

/* Additional return value of an await_readiness. */
enum { AWAIT_NOT_YET = 1 };

/*
 * Decides whether the object is ready. Returns 0 if it is. Returns AWAIT_NOT_YET if it is not yet
 * ready; `why` (may be NULL) names the unmet condition. Returns -1 if it will never be ready; the
 * error message follows the object's name.
 */
typedef int await_readiness(void *arg, const struct json *object, struct str *why, struct err *err);

int await_open(const struct controller *c, const struct kube_kind *kind, const char *name,
               struct deadline d, struct await *ret, struct err *err) MUST_CHECK;
void await_close(struct await *a);
DEFINE_AUTO_VALUE(struct await, await_close);

/*
 * Both set an error that names the object, keep its reason in a->reason, and return -1.
 * await_fail() sets "<before><object> <text>", await_wrap() prefixes an error with "<object>: ".
 */
int await_fail(struct await *a, struct err *err, enum err_code code, const char *before,
               const char *fmt, ...) PRINTF_(5, 6);
int await_wrap(struct await *a, struct err *err);

/*
 * Like kube_create(), but repeats the POST if its answer was lost. Returns KUBE_EXISTS if an object
 * of this name exists, perhaps created by the first attempt. A final code means that no attempt has
 * created an object.
 */
int await_create(struct await *a, struct json *object, struct json **ret, struct err *err)
	MUST_CHECK;
/*
 * Like kube_get(), for an object that this call may have created, so no code of its error is final.
 */
int await_find(struct await *a, struct json **ret, struct err *err) MUST_CHECK;
/*
 * Returns metadata.uid; NULL with the error UNAVAILABLE if it is missing, because an API server
 * always sets it.
 */
const char *object_uid(const struct json *object, const char *ref, struct err *err) MUST_CHECK;
/*
 * Waits at most `ms` for an event after the state `first`; await_ready() consumes the event. Used
 * by a caller that has other work to do before await_ready() and can do that work at a lower cost
 * after the event.
 */
void await_event(struct await *a, const struct json *first, int ms);
/*
 * Waits until `readiness` returns 0; a->last is then that state. `first` is the object's first
 * state, which has a uid and whose ownership passes to the function; a later object with another
 * uid is a different object. When time runs out, the error is DEADLINE or CANCELLED "<goal>:
 * <object> <why>". If the object is deleted during the wait, it is ABORTED.
 */
int await_ready(struct await *a, struct json *first, const char *goal, await_readiness *readiness,
                void *arg, struct err *err) MUST_CHECK;
/*
 * Waits until no object has that name and uid. The proof is the event of its deletion, or a read
 * (kube_wait_expect()). ABORTED if a read finds another object of that name. Call it after the
 * deletion has begun, so no code is final.
 */
int await_gone(struct await *a, const char *uid, const char *goal, struct err *err) MUST_CHECK;
/*
 * Sets ABORTED, because the object was to be deleted and another object has its name now. Returns
 * -1.
 */
int await_refuse_replaced(const struct await *a, struct err *err);
/*
 * Deletes the object with the uid of `object`, unless it is already being deleted, and waits until
 * it is deleted.
 */
int await_deleted(struct await *a, const struct json *object, const char *goal, struct err *err)
	MUST_CHECK;
/*
 * The next two functions return it if the object is not the expected one, so nothing was deleted.
 */
enum { AWAIT_CHANGED = 2 };
/*
 * Like await_deleted(), but takes only the uid, and deletes the object in any state. Returns
 * AWAIT_CHANGED if the object of that name has a different uid.
 */
int await_deleted_uid(struct await *a, const char *uid, const char *goal, struct err *err)
	MUST_CHECK;
/* Like await_deleted(), but only while the object is in the state `object`. */
int await_deleted_as_is(struct await *a, const struct json *object, const char *goal,
                        struct err *err) MUST_CHECK;
/*
 * Call it before an answer that the object does not exist. UNAVAILABLE if this driver's request to
 * create the object had no answer, and may still be executed.
 */
int await_settled(const struct await *a, struct err *err) MUST_CHECK;
/*
 * For use in an await_readiness. Returns -1 if a condition reports that the object has failed
 * permanently (reason Failure): RESOURCE_EXHAUSTED if the condition's message mentions space or
 * quota, else UNAVAILABLE.
 */
int await_failed(const struct json *object, struct err *err) MUST_CHECK;
