/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends one request with its retries, on the caller's thread, which sleeps between the attempts.
 * The deadline, its cancellation and kube_free() end the sleep. Stateless.
 */
#include "kube/kube_event.h"
#include "kube/kube_priv.h"
#include "kube/kube_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/thread.h"

#define NS_PER_S INT64_C(1000000000)

int64_t kube_server_time(struct kube *k)
{
	int64_t ahead = atomic_load(&k->server_ahead);

	return ahead ? ahead + monotonic_ns() / NS_PER_S : 0;
}

/* Sleeps until `at`, the end or cancellation of d, or kube_free(). */
static int sleep_until(struct kube *k, int64_t at, struct deadline d, struct err *err,
                       const char *what)
{
	struct deadline until = { at < d.at ? at : d.at, d.cancel };

	thread_rest();
	{
		WITH_LOCK(&k->lock);
		while (!k->stopping && wait_queue_wait(&k->changed, &k->lock, until))
			;
		if (k->stopping)
			return err_set(err, ERR_CANCELLED, "%s: the client is being stopped", what);
	}
	return deadline_check(d, err, what);
}

/* Returns when the served versions of the kind have been read, or at d. */
static void wait_for_version(struct kube *k, const struct kube_kind *kind, struct deadline d)
{
	WITH_LOCK(&k->lock);
	while (!k->stopping && kube_version_is_reading(k, kind) &&
	       wait_queue_wait(&k->changed, &k->lock, d))
		;
}

/* Returns the HTTP status, or a word for the missing answer. */
static const char *answer_word(const struct http_result *r, char buf[16])
{
	static const char *const ends[] = {
		[HTTP_NOT_SENT] = "unreachable", [HTTP_CUT] = "cut",
		[HTTP_DEADLINE] = "deadline",    [HTTP_CANCELLED] = "cancelled",
		[HTTP_RETIRED] = "cut",          [HTTP_TOO_LARGE] = "too large",
	};

	if (r->end != HTTP_ANSWERED)
		return ends[r->end];
	snprintf(buf, 16, "%d", r->status);
	return buf;
}

void kube_count(const char *verb, const struct kube_kind *kind, int64_t since,
                const struct http_result *r)
{
	char buf[16];

	metric_observe(METRIC_API_REQUESTS, monotonic_ns() - since,
	               LABELS(verb, kind->plural, answer_word(r, buf)));
	if (r->end == HTTP_ANSWERED)
		kube_count_response();
}

void kube_count_response(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	metric_set(METRIC_API_ANSWERED, now.tv_sec * INT64_C(1000000000) + now.tv_nsec, NULL);
}

static bool changes(const struct kube_operation *op)
{
	return !str_eq(op->method, "GET");
}

/*
 * Returns the path with its query, malloc'ed, and sets *ret_body to the body, malloc'ed, or NULL.
 */
static char *operation_path(struct kube *k, const struct kube_operation *op, char **ret_body)
{
	const struct kube_target *t = &op->target;
	char version[KUBE_VERSION_MAX];
	char *group_version AUTO(free) = NULL, *path AUTO(free) = NULL;

	kube_version(k, t->kind, version);
	group_version = str_empty(t->kind->group) ? xstrdup(version)
	                                          : xasprintf("%s/%s", t->kind->group, version);
	if (op->object) {
		json_set_str(op->object, "apiVersion", group_version);
		json_set_str(op->object, "kind", t->kind->kind);
	}
	*ret_body = op->object ? json_print(op->object) : xstrdup_or_null(op->body);
	if (op->path)
		path = xstrdup(op->path);
	else if (op->schema)
		path = kube_version_document(t->kind, version);
	else
		path = kube_path(t->kind, version, t->ns, t->name);
	return xasprintf("%s%s", path, op->query ? op->query : "");
}

static void attempt(struct kube *k, const struct kube_operation *op,
                    const struct kube_access *access, bool patient, struct deadline d,
                    struct http_result *ret)
{
	char *body AUTO(free) = NULL;
	char *path AUTO(free) = operation_path(k, op, &body);
	struct http_request q = kube_request(k, access, op->method, path);
	int64_t since = monotonic_ns();

	q.deadline_at = kube_attempt_end(k);
	q.patient = patient;
	q.content_type = op->content_type;
	q.body = body;
	q.body_n = body ? strlen(body) : 0;
	http_do(k->http, &q, d, ret);
	kube_count(op->target.verb, op->target.kind, since, ret);
}

/*
 * Returns true if the server may still execute the request although the client no longer waits for
 * it. A request that the API server itself has refused is finished; after a 5xx the server does not
 * know the request's effect in etcd.
 */
static bool is_unanswered(const struct http_result *r)
{
	struct json *status AUTO(json_free) = NULL;
	if (r->end != HTTP_ANSWERED)
		return r->sent || r->end == HTTP_CUT;
	if (r->status != 503)
		return r->status >= 500;
	status = kube_status_parse(r);
	return !status;
}

/*
 * Because a server that hangs and a server whose webhooks are slow look alike, the first attempt
 * has a short timeout. The next attempt uses a fresh connection, perhaps to another server, and a
 * longer timeout.
 */
static void exchange_send(struct kube *k, struct kube_operation *op, bool refused,
                          struct deadline d, struct http_result *ret)
{
	struct kube_access *access = kube_config_get(k->config, refused);
	int64_t at = monotonic_ns();
	bool unanswered;
	attempt(k, op, access, changes(op) && (op->again || op->unanswered_at), d, ret);
	unanswered = is_unanswered(ret);
	/* A request cancelled by its caller proves nothing about the server. */
	if (ret->end == HTTP_ANSWERED || (unanswered && ret->end != HTTP_CANCELLED))
		kube_indeterminate_response(&k->indeterminate, !unanswered, monotonic_ns());
	if (changes(op) && unanswered)
		op->unanswered_at = ret->sent_at ? ret->sent_at : at;
	if (ret->end == HTTP_ANSWERED)
		atomic_store(&k->answered_at, monotonic_ns());
	if (ret->date)
		atomic_store(&k->server_ahead, ret->date - monotonic_ns() / NS_PER_S);
	kube_config_put(k->config, access);
}

/*
 * Returns how informative a result is. A deadline that passed before the request was sent is the
 * least informative result.
 */
static int worth(const struct http_result *r)
{
	if (r->end != HTTP_DEADLINE)
		return 2;
	return r->sent ? 1 : 0;
}

/*
 * If the deadline ends a later attempt, and the result of the previous one is more informative, that
 * result is reported. Its code is then not final.
 */
static void keep_the_better_reason(struct kube_operation *op, struct http_result *result,
                                   struct http_result *before)
{
	if (worth(result) >= worth(before)) {
		free(before->body);
		return;
	}
	free(result->body);
	*result = *before;
	op->indeterminate = true;
}

static void log_retry(struct kube *k, const struct kube_operation *op,
                      const struct http_result *result, int pause_ms)
{
	struct err err = ERR_INIT;

	(void)kube_target_failed(k, &op->target, result, &err);
	log_limited(LOG_WARNING, 10, "%s; retrying in %d.%d s", err.msg, pause_ms / 1000,
	            pause_ms % 1000 / 100);
}

int kube_exchange(struct kube *k, struct kube_operation *op, struct deadline d,
                  struct http_result *ret, struct err *err)
{
	struct http_result before = { .end = HTTP_DEADLINE };
	bool refused = false, asked_again = false;
	char text[512];
	kube_target_text(&op->target, text);
	op->indeterminate = false;
	op->unanswered_at = 0;
	for (unsigned n = 1;; n++) {
		bool mistaken;
		int pause_ms;
		int64_t at;
		if (kube_limiter_wait(&k->limiter, d, err))
			break;
		exchange_send(k, op, refused, d, ret);
		kube_version_read(k, op->target.kind, ret);
		pause_ms = kube_retry_ms(op->method, ret, n);
		if (ret->end == HTTP_ANSWERED && ret->status == 401 && !refused) {
			refused = true;
			pause_ms = 0;
		}
		/* A refused request has changed nothing, so this is safe for every method. */
		mistaken = pause_ms < 0 && !asked_again && kube_status_may_be_mistaken(ret);
		if (mistaken)
			pause_ms = k->tuning.mistake_ms + kube_asked_ms(ret);
		at = monotonic_ns() + pause_ms * INT64_C(1000000);
		if (pause_ms < 0 || at >= d.at) {
			op->indeterminate |= mistaken;
			keep_the_better_reason(op, ret, &before);
			return 0;
		}
		asked_again |= mistaken;
		op->indeterminate |= changes(op) && !kube_status_is_refusal(ret);
		if (worth(ret) > 0) {
			free(before.body);
			before = *ret;
		}
		metric_add(METRIC_API_RETRIES, 1, LABELS(op->target.verb, op->target.kind->plural));
		if (pause_ms > 0)
			log_retry(k, op, ret, pause_ms);
		if (pause_ms > 0 && sleep_until(k, at, d, err, text))
			break;
		wait_for_version(k, op->target.kind, d);
	}
	if (err->code == ERR_DEADLINE && worth(&before) > 0) {
		err_clear(err);
		*ret = before;
		op->indeterminate = true;
		return 0;
	}
	free(before.body);
	return -1;
}

int kube_operation_failed(struct kube *k, const struct kube_operation *op,
                          const struct http_result *result, struct err *err)
{
	(void)kube_target_failed(k, &op->target, result, err);
	if (!op->indeterminate || kube_passes_by_itself(err))
		return -1;
	IGNORE_RESULT(err_recode(err, ERR_UNAVAILABLE));
	return changes(op) ? err_wrap(err, KUBE_PERHAPS_DONE) : -1;
}

bool kube_is_success(const struct http_result *r)
{
	return r->end == HTTP_ANSWERED && r->status >= 200 && r->status < 300;
}

int kube_parse_answer(const struct kube_operation *op, const struct http_result *r,
                      struct json **ret, struct err *err)
{
	char text[512];
	if (r->body)
		kube_blank_unread(r->body, r->body_n);
	if (json_parse(kube_target_text(&op->target, text), r->body ? r->body : "", r->body_n, ret,
	               err) == 0)
		return 0;
	/*
	 * The server may have executed the request, so an unreadable answer must not become a final
	 * code.
	 */
	err_recode(err, ERR_UNAVAILABLE);
	return err_wrap(err, "%s: the API server's answer", op->target.verb);
}
