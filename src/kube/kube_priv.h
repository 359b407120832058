/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. Only they and this room's tests include it. */
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

/* How long the client waits; 0 takes the default. Tests make these short. */
struct kube_tuning {
	struct http_tuning http;
	int attempt_ms;            /* one try of a request; 30 s */
	int watch_silence_ms;      /* retires a stream; a bit over two bookmark periods: 150 s */
	int watch_backoff_ms;      /* the first pause after a failure; 250 ms */
	int watch_backoff_most_ms; /* the longest pause; 5 s */
	int watch_timeout_s;       /* when the server ends a stream; 240 s to a quarter more */
	int fill_ms;               /* a full stream brings its first object; 15 s */
	int resync_ms;             /* interval of reads of an awaited object without events; 5 s */
	int mistake_ms; /* before it is asked again what may be refused by mistake; 1 s */
	/*
	 * A POST that was given up is not carried out later than attempt_ms (which the server is
	 * told) and this after it was sent, nor, when etcd has stood still, later than this after
	 * requests are answered again (kube_indeterminate.h); 5 s.
	 */
	int late_ms;
	int page; /* objects per page of a list; LIMIT_KUBE_PAGE */
};

struct kube_watch;

struct kube {
	struct http *http;
	struct kube_config *config;
	struct kube_limiter limiter;
	struct kube_indeterminate indeterminate;
	struct kube_tuning tuning;
	char *user_agent, *field_manager;
	struct http_timer trim; /* this and the next: the engine's thread only */
	bool trim_again;
	_Atomic int64_t answered_at; /* when a caller's request was last answered; monotonic ns */

	pthread_mutex_t lock;      /* guards the fields below, and all waits */
	struct wait_queue changed; /* stopping, or the last user has left */
	bool stopping;
	unsigned users; /* running calls and open waits */
	struct kube_watch *watches;
};

int kube_new_tuned(const struct kube_options *options, const struct kube_tuning *tuning,
                   struct kube **ret, struct err *err) MUST_CHECK;

/* Each running call of kube.h counts as a user; kube_free() waits until there is none. */
void kube_enter(struct kube *k);
void kube_leave(struct kube *k);
DEFINE_AUTO(struct kube *, kube_leave);
#define KUBE_CALL(k_) \
	struct kube *kube_call_ AUTO(kube_leave) __attribute__((unused)) = (kube_enter(k_), (k_))

/* kube_request.c. A request with all that is the same for each; its `path` is the caller's. */
struct http_request kube_request(struct kube *k, const struct kube_access *access,
                                 const char *method, const char *path);
/* When one try of a request that starts now ends; monotonic ns. */
int64_t kube_attempt_end(const struct kube *k);
/*
 * Starts a GET with the path, deadline, stream settings and callbacks of `q`. force: reads the
 * credentials again first. Returns the handle, for http_cancel().
 */
struct http_call *kube_get_start(struct kube *k, const struct http_request *q, bool force);
/* Always -1: sets the error for a result that is no success. Fills in server and source. */
int kube_target_failed(struct kube *k, const struct kube_target *target,
                       const struct http_result *result, struct err *err);
/* "/apis/group/version/namespaces/ns/plural/name", malloc'ed; name NULL: the collection. */
char *kube_path(const struct kube_kind *kind, const char *ns, const char *name);
/* Appends text with everything but unreserved characters percent-encoded. */
void kube_path_encode(struct str *path, const char *text);

/*
 * kube_resume_point.c. The resume point of a collection's watch. Answers to the client's own
 * requests can show that the server has returned to an earlier state; the watch then lists all
 * objects again.
 */
struct kube_resume_point {
	unsigned lists;   /* which list the watch began with */
	uint64_t version; /* the newest resourceVersion that the watch has delivered; 0: unknown */
};
/* Call it before a request that goes through the server's store. */
struct kube_resume_point kube_resume_point_of(struct kube *k, const struct kube_kind *kind,
                                              const char *ns);
/* version: of the object that the request has created, or of the list that it has begun. */
void kube_resume_point_compare(struct kube *k, const struct kube_kind *kind, const char *ns,
                               struct kube_resume_point before, const char *version);

struct kube_operation {
	const char *method;
	struct kube_target target;
	const char *path;  /* NULL: the target's */
	const char *query; /* with its '?', or NULL */
	const char *content_type;
	const char *body;
	bool again; /* an operation before it had no answer, and this is the same once more */
	/*
	 * Set by kube_exchange(): the last result does not prove that nothing was done, because an
	 * earlier attempt may have been carried out although its answer did not come; or there was
	 * no time to ask again what may be a mistake.
	 */
	bool indeterminate;
	/* Set by kube_exchange(): when an attempt was sent that had no answer; 0: there is none. */
	int64_t unanswered_at;
	/* The answer's version is compared with it; 0: no comparison. */
	struct kube_resume_point before;
};

/*
 * kube_exchange.c. Sends the request, and sends it again where that is safe and there is time. 0:
 * *ret is the last result, its body the caller's. -1: cancelled or out of time before there was a
 * result.
 */
int kube_exchange(struct kube *k, struct kube_operation *op, struct deadline d,
                  struct http_result *ret, struct err *err) MUST_CHECK;
/*
 * Always -1: as kube_target_failed(), but the code is not final when the operation is
 * indeterminate.
 */
int kube_operation_failed(struct kube *k, const struct kube_operation *op,
                          const struct http_result *result, struct err *err);
/* For /metrics: a request that began at `since` (monotonic ns) has ended so. */
void kube_count(const char *verb, const struct kube_kind *kind, int64_t since,
                const struct http_result *r);
/* For /metrics: the API server has just answered or sent an event. */
void kube_count_response(void);
bool kube_is_success(const struct http_result *r);
int kube_parse_answer(const struct kube_operation *op, const struct http_result *r,
                      struct json **ret, struct err *err) MUST_CHECK;

/* kube_trim.c */
void kube_trim_init(struct kube *k);
/*
 * Any thread. Answers of so many bytes have come: when they are large, the memory that they and
 * their trees needed is given back to the system soon.
 */
void kube_trim_soon(struct kube *k, size_t bytes);

/* kube_watch.c */
void kube_watches_stop(struct kube *k); /* lock held: wakes all who wait */
void kube_watches_free(struct kube *k); /* to be called when the HTTP engine has ended */
