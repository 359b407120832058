/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes API: objects as JSON trees, one request at a time per caller,
 * and waiting for one object by name. Knows no kinds of its own and no volumes.
 *
 * Any thread may call; each call blocks until its request ends or its deadline passes. One thread
 * inside does all I/O. Retries after 429 (Retry-After) and 5xx happen inside, within the deadline.
 *
 * An answer counts when it is the API server's own: the object that was asked for (kind, namespace,
 * name, a uid), or a Status. Anything else, a proxy's page of whatever number, is UNAVAILABLE.
 * 401, 403 and "not served" are asked for a second time before they are believed. A code that is
 * final says that the request has done nothing: when an earlier attempt may have been carried out,
 * it is UNAVAILABLE whatever the last one brought.
 *
 * Codes: 400/422 INVALID_ARGUMENT, 401 UNAUTHENTICATED, 403 PERMISSION_DENIED naming verb and
 * resource (quota: RESOURCE_EXHAUSTED), 404 see below, 409 conflict ABORTED, 429 after retries, 5xx
 * and no connection UNAVAILABLE, API group not served FAILED_PRECONDITION naming it.
 */
#pragma once

#include <stdbool.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/json.h"

struct kube;

/*
 * For the request limit (`qps`): what this thread sends from now on belongs to a new piece of work,
 * of a kind that the caller numbers. Requests that have to wait take turns by kind, and of one kind
 * the work that began first goes first. A thread that never calls this has work of kind 0.
 */
#define KUBE_WORK_KINDS 8
void kube_begin(unsigned kind);

struct kube_kind {
	const char *group;   /* "" is the core group */
	const char *version; /* "v1alpha1" */
	const char *plural;  /* "dpuvolumes" */
	const char *kind;    /* "DPUVolume" */
};

struct kube_options {
	const char *kubeconfig; /* file; NULL: in-cluster (environment and ServiceAccount files) */
	const char *context;    /* of the kubeconfig; NULL: its current-context */
	const char *user_agent; /* "snap-csi/1.0"; up to the '/' it is the fieldManager */
	const char *service_account_dir; /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
	double qps;                      /* 0: unlimited */
	int burst;
};

/*
 * Reads the configuration and starts the I/O thread. Contacts nobody: an API server that is away is
 * no error here. INVALID_ARGUMENT naming file and field when the configuration cannot be read.
 */
int kube_new(const struct kube_options *options, struct kube **ret, struct err *err) MUST_CHECK;
/*
 * Requests in flight and waits fail with CANCELLED. Returns when no call runs any more and the
 * callers have closed all waits. NULL is fine; returns NULL.
 */
struct kube *kube_free(struct kube *k);

/*
 * What the operations return instead of 0 when the answer is about the object's existence:
 * KUBE_ABSENT no such object, KUBE_EXISTS (kube_create only) an object of this name is there,
 * KUBE_REPLACED (deletions only) an object of this name with another uid is there, KUBE_CHANGED
 * (kube_delete_state only) it is there in another state.
 */
enum { KUBE_ABSENT = 1, KUBE_EXISTS = 1, KUBE_REPLACED = 2, KUBE_CHANGED = 3 };

/* What the text of an error says then, in front of what the last attempt brought. */
#define KUBE_PERHAPS_DONE \
	"an attempt before may have been carried out, although its answer did not come; the next"

/*
 * ns NULL: a cluster-scoped kind. *ret is a new root, the caller frees it. Error texts say what was
 * done and what came back ("get dpuvolumes.storage.dpu.nvidia.com: cannot reach ..."); the caller
 * puts the object in front.
 */
/* 0, or KUBE_ABSENT. */
int kube_get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
             struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * The same from the API server's cache, without a read of etcd: what it says may be older than what
 * any other read has said. So neither the state nor an absence is proof; the uid is good for a
 * precondition.
 */
int kube_get_cached(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                    struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * POST; apiVersion and kind are added to `object` (which stays the caller's). 0 and the stored
 * object, or KUBE_EXISTS. A POST whose answer was lost may be retried by the caller.
 */
int kube_create(struct kube *k, const struct kube_kind *kind, const char *ns, struct json *object,
                struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * May an object of this name still be made by a POST of this client? Its server may carry a request
 * out when the client has given it up; it is told how long, and until then and some seconds more
 * this is true, whatever has become of the object since. So while it is true, an absence is none
 * for good. A client that was started anew does not know of those before it.
 */
bool kube_may_come(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name);
/*
 * The same of a PATCH: until then no refusal of a later one says that the object stays as it is.
 */
bool kube_may_change(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *name);
/* Merge patch; ret may be NULL. 0, or KUBE_ABSENT. */
int kube_patch(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const struct json *patch, struct deadline d, struct json **ret, struct err *err)
	MUST_CHECK;
/*
 * DELETE with the uid as precondition. 0: accepted (the object may stay until its finalizers are
 * gone). KUBE_ABSENT or KUBE_REPLACED: no object of that name with that uid (uid NULL: any).
 */
int kube_delete(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                const char *uid, struct deadline d, struct err *err) MUST_CHECK;
/*
 * The same with uid and resourceVersion of `state` as preconditions: an object that anybody has
 * changed since is not deleted. Or KUBE_CHANGED, also when a DELETE before had no answer.
 */
int kube_delete_state(struct kube *k, const struct kube_kind *kind, const char *ns,
                      const struct json *state, struct deadline d, struct err *err) MUST_CHECK;
/*
 * 0: the API server's list of its API groups has no such group, so there is no object of the kind.
 * KUBE_EXISTS: the group is there; whether it has this kind and version is not said.
 */
int kube_find_group(struct kube *k, const struct kube_kind *kind, struct deadline d,
                    struct err *err) MUST_CHECK;
/*
 * The kind's schema (OpenAPI v3) as the API server publishes it to every account, with the rules of
 * its CRD below "x-kubernetes-validations". *ret is a new root.
 */
int kube_schema(struct kube *k, const struct kube_kind *kind, struct deadline d, struct json **ret,
                struct err *err) MUST_CHECK;
/* What fn of kube_list() returns to stop; kube_list() then returns 0. */
enum { KUBE_STOP = 1 };

/*
 * Every object, page by page; label_selector may be NULL. fn returns 0 to go on, KUBE_STOP, or -1
 * with err. The item is only valid during the call. When the server's snapshot expires on the way,
 * an object may be handed out twice.
 */
int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err) MUST_CHECK;

/* The server no longer knows where that page begins, or never knew. */
enum { KUBE_NO_SUCH_PAGE = 2 };
/*
 * One page of at most `limit` objects (0 or too many: as many as a page of kube_list() has; perhaps
 * fewer than there are), from where `token` says (NULL or "": the beginning); fn as above, but it
 * never stops. *ret_next is the token of the next page, "" when there is none; the caller frees it.
 * 0, KUBE_NO_SUCH_PAGE, or -1. When the server's snapshot has expired and it offers to go on in a
 * newer one, this goes on there: every object that lives meanwhile is handed out once.
 */
int kube_list_page(struct kube *k, const struct kube_kind *kind, const char *ns, int limit,
                   const char *token,
                   int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                   char **ret_next, struct deadline d, struct err *err) MUST_CHECK;

/*
 * Waiting. Open the wait first, then read or create the object, then take its states one after the
 * other: no change in between is lost, but a state may be skipped when a newer one has come. One
 * watch per collection (kind, namespace) serves all waits; it starts with the first wait and stays
 * open. Nothing is cached: only the newest state of an awaited name is kept. An awaited object
 * without an event is read about every 5 s, at most ten objects per second and collection, so a
 * watch that is silent, or cannot be opened, hides no change. When the watch has lost its resume
 * point (the server no longer has it, or its data were replaced by older data), all awaited objects
 * are read, a few at a time, outside the request limit.
 */
struct kube_wait;
int kube_wait_open(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                   struct kube_wait **ret, struct err *err) MUST_CHECK;
/*
 * Blocks until the object has a state that this wait has not yet given out. 0 and the object (a new
 * root), or KUBE_ABSENT: it was deleted or does not exist (given once, when a read or an event says
 * so). Objects of one name with different uids may follow each other: compare metadata.uid. -1:
 * DEADLINE, CANCELLED, or why watching is impossible (PERMISSION_DENIED naming the verb,
 * FAILED_PRECONDITION: not served). While the API server is away, this waits for it.
 */
int kube_wait_next(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
	MUST_CHECK;
/* Blocks until kube_wait_next() would return without waiting, or until d. Consumes nothing. */
void kube_wait_event(struct kube_wait *w, struct deadline d);
/*
 * Says which object the wait is about; a caller that knows its uid calls it before it believes an
 * absence. What was learnt before about another one is dropped. From then on KUBE_ABSENT is proof
 * that this object is gone: the event of its deletion (the server sends it once the object has left
 * its store, and no uid comes twice), or a read that has begun since and found none (a GET without
 * resourceVersion is answered from the store, by any replica). Nothing else is: an object of
 * another uid, in an event, may be an earlier one. Without a uid, a read confirms each event of a
 * deletion, which costs a request.
 */
void kube_wait_expect(struct kube_wait *w, const char *uid);
/*
 * Says which state, by its resourceVersion, the caller has already: that of an answer to a request.
 * It is not given out once more when the watch brings it.
 */
void kube_wait_seen(struct kube_wait *w, const char *version);
/*
 * fn is called by kube_wait_next(), on its thread and without locks, when no state has come for a
 * moment: the caller gives back memory that a wait need not keep.
 */
void kube_wait_on_rest(struct kube_wait *w, void (*fn)(void *arg), void *arg);
/* Why the watch behind this wait is not running at the moment; "" when it is. Returns ret. */
#define KUBE_WATCH_ERROR_MAX 256
const char *kube_wait_watch_error(struct kube_wait *w, char ret[KUBE_WATCH_ERROR_MAX]);
void kube_wait_close(struct kube_wait *w);
DEFINE_AUTO(struct kube_wait *, kube_wait_close);
