/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until one object is ready or gone; when time runs out, the error says what is missing. A
 * wait is opened before its object is read or created, so that no change is missed.
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
	char *last_text;   /* the same while nothing comes, instead of `last`; owned */
	bool unwatchable;  /* watching was refused: no event will come */
	bool for_its_end;  /* it is waited until the object is gone */
	unsigned span;     /* its entry in the metric of waits */
	int64_t since;     /* when the wait began; monotonic ns; 0: it has not */
	/* Why the watch was not running when the time was over; NULL when it was. Owned. */
	char *watch_error;
	/*
	 * The last error once more, as a clause for a sentence that has named the object already:
	 * "it failed: ...". Set with every error whose code is final; owned.
	 */
	char *reason;
	char *ref; /* the object, as errors name it; owned */
};

/* An await_readiness returns it besides 0 and -1. */
enum { AWAIT_NOT_YET = 1 };

/*
 * The readiness of a state of the object. 0: the object is ready. AWAIT_NOT_YET: it is not, and
 * `why` (may be NULL) says what is missing. -1: it will never be; the error's text follows the
 * object's name.
 */
typedef int await_readiness(void *arg, const struct json *object, struct str *why, struct err *err);

int await_open(const struct controller *c, const struct kube_kind *kind, const char *name,
               struct deadline d, struct await *ret, struct err *err) MUST_CHECK;
void await_close(struct await *a);
DEFINE_AUTO_VALUE(struct await, await_close);

/*
 * Errors that name the object and keep their reason. await_fail() sets "<before><object> <text>",
 * await_wrap() makes "<object>: <text>" of an error. Both return -1.
 */
int await_fail(struct await *a, struct err *err, enum err_code code, const char *before,
               const char *fmt, ...) PRINTF_(5, 6);
int await_wrap(struct await *a, struct err *err);

/*
 * kube_create(), repeated when the answer was lost. KUBE_EXISTS: an object of this name is there,
 * perhaps by the first attempt. A final code: none of the attempts has made one.
 */
int await_create(struct await *a, struct json *object, struct json **ret, struct err *err)
	MUST_CHECK;
/* kube_get() of an object that may be there by our doing: no code of its error is final. */
int await_find(struct await *a, struct json **ret, struct err *err) MUST_CHECK;
/* metadata.uid, or NULL with the error UNAVAILABLE: an API server always sets it. */
const char *object_uid(const struct json *object, const char *ref, struct err *err) MUST_CHECK;
/*
 * Waits for an event after the state `first`, for `ms` at most; await_ready() consumes it. For work
 * that comes before await_ready(), and is quicker once the event has come.
 */
void await_event(struct await *a, const struct json *first, int ms);
/*
 * Waits until `readiness` returns 0; a->last is then that state. `first` is its first
 * state, which has a uid and is taken over; a later object of the name is another one. When time
 * runs out: DEADLINE or CANCELLED "<goal>: <object> <why>". Deleted meanwhile: ABORTED.
 */
int await_ready(struct await *a, struct json *first, const char *goal, await_readiness *readiness,
                void *arg, struct err *err) MUST_CHECK;
/*
 * Waits until there is no object of that name with that uid: proven by the event of its deletion or
 * by a read (kube_wait_expect()). ABORTED when a read finds another one of the name. To be called
 * when its deletion has begun: no code is final.
 */
int await_gone(struct await *a, const char *uid, const char *goal, struct err *err) MUST_CHECK;
/* Always -1, ABORTED: the object was to be deleted, and there is another one of its name now. */
int await_refuse_replaced(const struct await *a, struct err *err);
/* Deletes the object of that uid, unless it is being deleted, and waits until it is gone. */
int await_deleted(struct await *a, const struct json *object, const char *goal, struct err *err)
	MUST_CHECK;
/* Of the next two: nothing was deleted, for the object is not what the caller takes it for. */
enum { AWAIT_CHANGED = 2 };
/* The same by uid alone, in whatever state it is; AWAIT_CHANGED: the name has another uid. */
int await_deleted_uid(struct await *a, const char *uid, const char *goal, struct err *err)
	MUST_CHECK;
/* The same, but only while the object is in the state `object`. */
int await_deleted_as_is(struct await *a, const struct json *object, const char *goal,
                        struct err *err) MUST_CHECK;
/*
 * To be called before an answer says that the object is not there. UNAVAILABLE: a request of ours
 * that was to make it had no answer, and may still be carried out.
 */
int await_settled(const struct await *a, struct err *err) MUST_CHECK;
/*
 * For an await_readiness: -1 when a condition says that the object has failed for good (reason
 * Failure). RESOURCE_EXHAUSTED when its message speaks of space or quota, else UNAVAILABLE.
 */
int await_failed(const struct json *object, struct err *err) MUST_CHECK;
