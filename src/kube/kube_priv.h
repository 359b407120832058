/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this module. Only they and this module's tests include it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/wait_queue.h"
#include "http/http.h"
#include "kube/kube.h"
#include "kube/kube_access.h"
#include "kube/kube_indeterminate.h"
#include "kube/kube_limiter.h"
#include "kube/kube_retry.h"
#include "kube/kube_status.h"

/* Timeouts of the client; 0 selects the default. Tests make these short. */
struct kube_tuning {
	struct http_tuning http;
	int attempt_ms; /* timeout of one attempt of a request; 30 s */
	/*
	 * a stream that is silent for this long is retired; slightly more than two bookmark
	 * periods: 150 s
	 */
	int watch_silence_ms;
	int watch_backoff_ms;      /* the first pause after a failure; 250 ms */
	int watch_backoff_most_ms; /* the longest pause; 5 s */
	int watch_timeout_s;       /* lifetime of a stream; 240 s, plus up to a quarter */
	int fill_ms;               /* timeout for the first object of a full stream; 15 s */
	/* interval of re-reads of an awaited object without events; 5 s */
	int resync_ms;
	int mistake_ms; /* delay before a possibly mistaken answer is checked again; 1 s */
	/*
	 * How long an abandoned POST may still be executed after its time limit. The time limit,
	 * which is sent to the server, is attempt_ms after the request was sent. If etcd has
	 * stalled, the time counts from when requests are answered again (kube_indeterminate.h); 5
	 * s.
	 */
	int late_ms;
	int page; /* objects per page of a list; LIMIT_KUBE_PAGE */
};

struct kube_version;
struct kube_watch;

struct kube {
	struct http *http;
	struct kube_config *config;
	struct kube_limiter limiter;
	struct kube_indeterminate indeterminate;
	struct kube_tuning tuning;
	char *user_agent, *field_manager;
	struct http_timer trim; /* this field and the next: only the engine's thread */
	bool trim_again;
	/* Seconds by which the API server's clock is ahead of the monotonic one; 0: not known. */
	_Atomic int64_t server_ahead;
	/* when the last answer to a caller's request arrived; monotonic ns */
	_Atomic int64_t answered_at;

	pthread_mutex_t lock;      /* guards the fields below, and all waits */
	struct wait_queue changed; /* the client is stopping, or its last user has left */
	bool stopping;
	unsigned users; /* running calls and open waits */
	struct kube_watch *watches;
	struct kube_version *versions;
};

int kube_new_tuned(const struct kube_options *options, const struct kube_tuning *tuning,
                   struct kube **ret, struct err *err) MUST_CHECK;

/* Each running call of kube.h counts as a user; kube_free() waits for all of them. */
void kube_enter(struct kube *k);
void kube_leave(struct kube *k);
DEFINE_AUTO(struct kube *, kube_leave);
#define KUBE_CALL(k_) \
	struct kube *kube_call_ AUTO(kube_leave) __attribute__((unused)) = (kube_enter(k_), (k_))

/*
 * In kube_request.c. Returns a request with the fields that all requests share; the caller owns its
 * `path`.
 */
struct http_request kube_request(struct kube *k, const struct kube_access *access,
                                 const char *method, const char *path);
/* Returns the time at which an attempt that starts now must end; monotonic ns. */
int64_t kube_attempt_end(const struct kube *k);
/*
 * Starts a GET with the path, deadline, stream settings and callbacks of `q`. If `force` is set,
 * re-reads the credentials first. Returns the handle, for http_cancel().
 */
struct http_call *kube_get_start(struct kube *k, const struct http_request *q, bool force);
/*
 * Sets the error for an unsuccessful result, and fills in the target's server and source. Returns
 * -1.
 */
int kube_target_failed(struct kube *k, const struct kube_target *target,
                       const struct http_result *result, struct err *err);
/*
 * Returns "/apis/group/version/namespaces/ns/plural/name", malloc'ed; without the name if it is
 * NULL (a collection).
 */
char *kube_path(const struct kube_kind *kind, const char *version, const char *ns,
                const char *name);
/* Appends text, with percent-encoding of everything except unreserved characters. */
void kube_path_encode(struct str *path, const char *text);

/*
 * kube_resume_point.c. The resume point of a collection's watch. Answers to the client's own
 * requests can show that the server has returned to an earlier state; the watch then lists all
 * objects again.
 */
struct kube_resume_point {
	unsigned lists;   /* number of the list that the watch began with */
	uint64_t version; /* the newest resourceVersion that the watch has delivered; 0: unknown */
};
/*
 * Returns the current resume point. Call it before a request that the server answers from etcd, not
 * from its watch cache.
 */
struct kube_resume_point kube_resume_point_of(struct kube *k, const struct kube_kind *kind,
                                              const char *ns);
/*
 * Compares the resume point with `version`, the resourceVersion of the object that the request has
 * created, or of the list that it has begun.
 */
void kube_resume_point_compare(struct kube *k, const struct kube_kind *kind, const char *ns,
                               struct kube_resume_point before, const char *version);

struct kube_operation {
	const char *method;
	struct kube_target target;
	const char *path; /* NULL: the path of the target */
	/* requests the OpenAPI document that contains the target's kind instead */
	bool schema;
	const char *query; /* with its '?', or NULL */
	const char *content_type;
	const char *body;
	struct json *object; /* the request body, or NULL; the client adds kind and version to it */
	bool again;          /* repeats an earlier identical operation that had no answer */
	/*
	 * Set by kube_exchange(): the last result does not prove that nothing was changed. Either
	 * an earlier attempt without an answer may have been executed, or there was no time to
	 * repeat a request whose answer is possibly mistaken.
	 */
	bool indeterminate;
	/*
	 * Set by kube_exchange(): when the last unanswered attempt to change the object was sent;
	 * monotonic ns; 0: none.
	 */
	int64_t unanswered_at;
	/*
	 * The resourceVersion of the answer is compared with this resume point; `version` 0: no
	 * comparison.
	 */
	struct kube_resume_point before;
};

/*
 * In kube_exchange.c. Sends the request, and repeats it where that is safe and time is left.
 * Returns 0 with the last result in *ret, whose body the caller owns. Returns -1 if the operation
 * was cancelled, or its deadline passed, before a result arrived.
 */
int kube_exchange(struct kube *k, struct kube_operation *op, struct deadline d,
                  struct http_result *ret, struct err *err) MUST_CHECK;
/* Like kube_target_failed(), but the code is not final if the operation is indeterminate. */
int kube_operation_failed(struct kube *k, const struct kube_operation *op,
                          const struct http_result *result, struct err *err);
/*
 * Counts, for /metrics, a request that began at `since` (monotonic ns) and ended with this result.
 */
void kube_count(const char *verb, const struct kube_kind *kind, int64_t since,
                const struct http_result *r);
/* Records, for /metrics, that the API server has just answered or sent an event. */
void kube_count_response(void);
bool kube_is_success(const struct http_result *r);
int kube_parse_answer(const struct kube_operation *op, const struct http_result *r,
                      struct json **ret, struct err *err) MUST_CHECK;

/* kube_trim.c */
void kube_trim_init(struct kube *k);
/*
 * Reports that an answer of this size has arrived. If it is large, the memory of the answers and
 * their trees is soon released to the system. Any thread.
 */
void kube_trim_soon(struct kube *k, size_t bytes);

/* kube_watch.c */
void kube_watches_stop(struct kube *k); /* lock held: wakes all waits */
void kube_watches_free(struct kube *k); /* call it after the HTTP engine has ended */
