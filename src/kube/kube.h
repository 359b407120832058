/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes API: objects as JSON trees, one request at a time per caller, and waiting for one
 * object by name. Independent of specific kinds and of volumes.
 *
 * Any thread may call; each call blocks until its request ends or its deadline passes. The client's
 * own thread does all I/O. The client retries after 429 (Retry-After) and 5xx, within the deadline.
 *
 * An answer is accepted only if the API server itself wrote it: the requested object (kind,
 * namespace, name, a uid), or a Status. Any other answer, such as a proxy's page with any status,
 * is UNAVAILABLE. After 401, 403 or "not served" the client repeats the request once, and trusts
 * only the second answer. A final code means that the request has changed nothing. If an earlier
 * attempt may have been executed, the code is UNAVAILABLE, whatever the last attempt returned.
 *
 * Codes: 400/422 INVALID_ARGUMENT, 401 UNAUTHENTICATED, 403 PERMISSION_DENIED naming verb and
 * resource (quota: RESOURCE_EXHAUSTED), 404 see below, 409 conflict ABORTED, 429 after retries, 5xx
 * and no connection UNAVAILABLE, API group not served FAILED_PRECONDITION naming the group. If no
 * answer arrived, err.sys is ENOTCONN.
 */
#pragma once

#include <stdbool.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/json.h"

struct kube;
struct str;

/*
 * For the request limit (`qps`): assigns this thread's later requests to a new operation. `kind` is
 * a number below KUBE_WORK_KINDS that the caller chooses. Queued requests take turns by kind;
 * within a kind the operation that began first goes first. Requests of a thread that has never
 * called this function belong to kind 0.
 */
#define KUBE_WORK_KINDS 8
void kube_begin(unsigned kind);

struct kube_kind {
	const char *group;   /* "" is the core group */
	const char *version; /* "v1alpha1" */
	const char *plural;  /* "dpuvolumes" */
	const char *kind;    /* "DPUVolume" */
	/*
	 * Returns true if the schema of another version has all fields that the caller uses. If
	 * not, *lacks names the missing ones. Called on the HTTP engine's thread; must not block.
	 * If the API server does not serve `version`, the client uses the first served version that
	 * this function accepts. NULL: no other version is used. A kind with serves() must outlive
	 * the client.
	 */
	bool (*serves)(const struct json *schema, struct str *lacks);
};

struct kube_options {
	const char *kubeconfig; /* NULL: in-cluster (environment and ServiceAccount files) */
	const char *context;    /* name of a context in the kubeconfig; NULL: its current-context */
	const char *user_agent; /* "snap-csi/1.0"; the part before '/' is the fieldManager */
	const char *service_account_dir; /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
	double qps;                      /* requests per second; 0: unlimited */
	int burst;
};

/*
 * Reads the configuration and starts the I/O thread. Sends no request: an unreachable API server is
 * not an error here. INVALID_ARGUMENT naming file and field when the configuration cannot be read.
 */
int kube_new(const struct kube_options *options, struct kube **ret, struct err *err) MUST_CHECK;
/*
 * Ends the client: requests in flight and waits fail with CANCELLED. Blocks until no call is
 * running and the callers have closed all waits. NULL is allowed; returns NULL.
 */
struct kube *kube_free(struct kube *k);

/*
 * Return values other than 0 and -1. KUBE_ABSENT: no such object exists. KUBE_EXISTS (kube_create()
 * only): an object of this name exists. KUBE_REPLACED (deletions only): an object of this name with
 * another uid exists. KUBE_CHANGED (kube_delete_state() only): the object exists in another state.
 */
enum { KUBE_ABSENT = 1, KUBE_EXISTS = 1, KUBE_REPLACED = 2, KUBE_CHANGED = 3 };

/*
 * The beginning of an error message if an earlier attempt may have been executed; the result of the
 * last attempt follows.
 */
#define KUBE_PERHAPS_DONE \
	"an earlier attempt may have been executed, although no answer arrived; the next"

/*
 * For all functions below: `ns` is NULL for a cluster-scoped kind. *ret is a new root, which the
 * caller frees. Error messages name the operation and its result ("get
 * dpuvolumes.storage.dpu.nvidia.com: cannot reach ..."); the caller adds the object's name in
 * front.
 */
/* Reads the object. Returns 0, KUBE_ABSENT, or -1. */
int kube_get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
             struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * Like kube_get(), but from the API server's cache, without a read of etcd: the result may be older
 * than the result of any earlier read. So neither the state nor an absence is proof; the uid can be
 * used as a precondition.
 */
int kube_get_cached(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                    struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * Sends a POST. Adds apiVersion and kind to `object`, which the caller keeps. Returns 0 with the
 * stored object in *ret, KUBE_EXISTS, or -1. A POST whose answer was lost may be retried by the
 * caller.
 */
int kube_create(struct kube *k, const struct kube_kind *kind, const char *ns, struct json *object,
                struct deadline d, struct json **ret, struct err *err) MUST_CHECK;
/*
 * Returns true while a POST of this client may still create an object of this name. The server may
 * execute a request after the client has abandoned it. Each request carries a time limit; the
 * function returns true until some seconds after that limit, even if the object has changed since.
 * While it returns true, an absence is not permanent. A restarted client does not know the requests
 * that were sent before its start.
 */
bool kube_may_come(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name);
/*
 * Like kube_may_come(), but for a PATCH. While it returns true, the refusal of a later PATCH does
 * not prove that the object stays unchanged.
 */
bool kube_may_change(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *name);
/* Sends a merge patch; `ret` may be NULL. Returns 0, KUBE_ABSENT, or -1. */
int kube_patch(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const struct json *patch, struct deadline d, struct json **ret, struct err *err)
	MUST_CHECK;
/*
 * Sends a DELETE with the uid as precondition (uid NULL: any object of this name). Returns 0 if the
 * server has accepted it (the object may stay until its finalizers are removed), or KUBE_ABSENT or
 * KUBE_REPLACED if no object has that name and uid.
 */
int kube_delete(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                const char *uid, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Like kube_delete(), but with the uid and resourceVersion of `state` as preconditions, so that an
 * object that has changed since is not deleted. Returns KUBE_CHANGED in this case, even if an
 * earlier DELETE had no answer.
 */
int kube_delete_state(struct kube *k, const struct kube_kind *kind, const char *ns,
                      const struct json *state, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Checks whether the API server's list of API groups has the kind's group. Returns 0 if it does
 * not, so that no object of the kind exists; KUBE_EXISTS if it does (the group's kinds and versions
 * are not checked); or -1.
 */
int kube_find_group(struct kube *k, const struct kube_kind *kind, struct deadline d,
                    struct err *err) MUST_CHECK;
/*
 * Reads the kind's schema (OpenAPI v3), which the API server publishes to every account, with the
 * CRD's rules under "x-kubernetes-validations". *ret is a new root.
 */
int kube_schema(struct kube *k, const struct kube_kind *kind, struct deadline d, struct json **ret,
                struct err *err) MUST_CHECK;
/*
 * Returns the API server's clock as Unix seconds, from the Date header of its last answer, precise
 * to a second or two; 0 if no answer had this header.
 */
int64_t kube_server_time(struct kube *k);
/* The value that kube_list()'s fn returns to end the list; kube_list() then returns 0. */
enum { KUBE_STOP = 1 };

/*
 * Calls fn for every object, page by page; label_selector may be NULL. fn returns 0 to continue,
 * KUBE_STOP, or -1 with err. The item is valid only during the call. If the server's snapshot
 * expires during the list, an object may be passed twice.
 */
int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err) MUST_CHECK;

/*
 * Like kube_list(), but from the API server's cache (resourceVersion=0), at no cost to etcd: the
 * result may be older than earlier results.
 */
int kube_list_cached(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *label_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;

/*
 * Like kube_list(), but with a field selector ("involvedObject.uid=...") instead of a label
 * selector.
 */
int kube_list_fields(struct kube *k, const struct kube_kind *kind, const char *ns,
                     const char *field_selector,
                     int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                     struct deadline d, struct err *err) MUST_CHECK;

/* Returned by kube_list_page() if the server does not know the token, or no longer knows it. */
enum { KUBE_NO_SUCH_PAGE = 2 };
/*
 * Calls fn, as kube_list() does, for the objects of one page; fn must not return KUBE_STOP. The
 * page has at most `limit` objects, and may have fewer even if more exist. A limit that is 0 or too
 * large means the page size of kube_list(). The page starts at `token` (NULL or "": the beginning).
 * *ret_next is the token of the next page, "" after the last one; the caller frees it. Returns 0,
 * KUBE_NO_SUCH_PAGE, or -1. If the server's snapshot has expired and the server offers a newer one,
 * the list continues there: every object that exists throughout is passed once.
 */
int kube_list_page(struct kube *k, const struct kube_kind *kind, const char *ns, int limit,
                   const char *token,
                   int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
                   char **ret_next, struct deadline d, struct err *err) MUST_CHECK;

/*
 * Waiting. Open the wait first, then read or create the object, then read its states one after the
 * other: no change in between is lost, but a state may be skipped when a newer one has arrived. One
 * watch per collection (kind, namespace) serves all waits; it starts with the first wait and stays
 * open. Nothing is cached: only the newest state of an awaited name is kept. While no events arrive
 * for an awaited object, the client reads it about every 5 s, at most ten objects per second and
 * collection. So a watch that is silent, or cannot be opened, hides no change. When the watch has
 * lost its resume point (the server has discarded it, or the server's data were replaced by older
 * data), all awaited objects are re-read in small batches, outside the request limit.
 */
struct kube_wait;
int kube_wait_open(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                   struct kube_wait **ret, struct err *err) MUST_CHECK;
/*
 * Blocks until the object has a state that this wait has not yet returned. Returns 0 with the
 * object (a new root) in *ret. Returns KUBE_ABSENT once when a read or an event shows that the
 * object was deleted or does not exist. Returns -1 with DEADLINE, CANCELLED, or the reason why
 * watching is impossible (PERMISSION_DENIED naming the verb, FAILED_PRECONDITION: not served).
 * Objects of one name with different uids may follow each other: compare metadata.uid. While the
 * API server is unreachable, the function keeps waiting.
 */
int kube_wait_next(struct kube_wait *w, struct deadline d, struct json **ret, struct err *err)
	MUST_CHECK;
/* Blocks until kube_wait_next() would return without waiting, or until d. Consumes nothing. */
void kube_wait_event(struct kube_wait *w, struct deadline d);
/*
 * Sets the uid of the awaited object. A caller that knows the uid calls this function before it
 * trusts KUBE_ABSENT. States of another object that were received before are dropped. After this
 * call KUBE_ABSENT proves that the object is deleted. The proof is the event of its deletion (the
 * server sends it once the object has left its store, and no uid is reused), or a later read that
 * did not find it (a GET without resourceVersion is answered from the store, by any replica).
 * Nothing else is proof: an event about an object with a different uid may be about an earlier
 * object. Without a uid, each deletion event is confirmed by a read, which costs a request.
 */
void kube_wait_expect(struct kube_wait *w, const char *uid);
/*
 * Tells the wait which state (its resourceVersion) the caller already has from an answer. The wait
 * does not return that state when the watch delivers it.
 */
void kube_wait_seen(struct kube_wait *w, const char *version);
/*
 * Sets a function that kube_wait_next() calls, on its own thread and without locks, when no state
 * has arrived for a moment. The caller uses it to free memory that it does not need during a wait.
 */
void kube_wait_on_rest(struct kube_wait *w, void (*fn)(void *arg), void *arg);
/*
 * Writes to `ret` why the watch behind this wait is not running now; "" if it is running. Returns
 * ret.
 */
#define KUBE_WATCH_ERROR_MAX 256
const char *kube_wait_watch_error(struct kube_wait *w, char ret[KUBE_WATCH_ERROR_MAX]);
void kube_wait_close(struct kube_wait *w);
DEFINE_AUTO(struct kube_wait *, kube_wait_close);
