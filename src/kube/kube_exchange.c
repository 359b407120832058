/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request with its retries, on the caller's thread, which sleeps between them. Its deadline,
 * its cancellation and kube_free() end the sleep. No state of its own.
 */
#include "kube/kube_event.h"
#include "kube/kube_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/thread.h"

/* Sleeps until `at`, the end of d, its cancellation, or kube_free(). */
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

/* The HTTP status, or what came instead of an answer. */
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

static void attempt(struct kube *k, const struct kube_operation *op, const char *path,
                    const struct kube_access *access, bool patient, struct deadline d,
                    struct http_result *ret)
{
	struct http_request q = kube_request(k, access, op->method, path);
	int64_t since = monotonic_ns();

	q.deadline_at = kube_attempt_end(k);
	q.patient = patient;
	q.content_type = op->content_type;
	q.body = op->body;
	q.body_n = op->body ? strlen(op->body) : 0;
	http_do(k->http, &q, d, ret);
	kube_count(op->target.verb, op->target.kind, since, ret);
}

/*
 * May the server go on with the request although nobody waits for it any more? What the API server
 * itself refuses is over; of a 5xx it does not know what has become of it in etcd.
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
 * A server that hangs and one whose webhooks take their time look alike: the first attempt is given
 * up soon, and the next one, over a fresh connection, perhaps to another server, waits for longer.
 */
static void exchange_send(struct kube *k, struct kube_operation *op, const char *path, bool refused,
                          struct deadline d, struct http_result *ret)
{
	struct kube_access *access = kube_config_get(k->config, refused);
	int64_t at = monotonic_ns();
	bool unanswered;
	attempt(k, op, path, access, changes(op) && (op->again || op->unanswered_at), d, ret);
	unanswered = is_unanswered(ret);
	/* What its caller has cancelled says nothing of the server. */
	if (ret->end == HTTP_ANSWERED || (unanswered && ret->end != HTTP_CANCELLED))
		kube_indeterminate_response(&k->indeterminate, !unanswered, monotonic_ns());
	if (changes(op) && unanswered)
		op->unanswered_at = ret->sent_at ? ret->sent_at : at;
	if (ret->end == HTTP_ANSWERED)
		atomic_store(&k->answered_at, monotonic_ns());
	kube_config_put(k->config, access);
}

/* How much a result says; least of all that there was no time to send the request. */
static int worth(const struct http_result *r)
{
	if (r->end != HTTP_DEADLINE)
		return 2;
	return r->sent ? 1 : 0;
}

/*
 * When the deadline ends a later attempt, the result before it may say more; but its code proves
 * nothing then.
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
	log_limited(LOG_WARNING, 10, "%s; trying again in %d.%d s", err.msg, pause_ms / 1000,
	            pause_ms % 1000 / 100);
}

int kube_exchange(struct kube *k, struct kube_operation *op, struct deadline d,
                  struct http_result *ret, struct err *err)
{
	char *object AUTO(free) =
		op->path ? xstrdup(op->path)
			 : kube_path(op->target.kind, op->target.ns, op->target.name);
	char *path AUTO(free) = xasprintf("%s%s", object, op->query ? op->query : "");
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
		exchange_send(k, op, path, refused, d, ret);
		pause_ms = kube_retry_ms(op->method, ret, n);
		if (ret->end == HTTP_ANSWERED && ret->status == 401 && !refused) {
			refused = true;
			pause_ms = 0;
		}
		/* A refused request has done nothing, so this is safe for every method. */
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
	 * The server may have acted: an answer that cannot be read must not become a final code.
	 */
	err_recode(err, ERR_UNAVAILABLE);
	return err_wrap(err, "%s: the API server's answer", op->target.verb);
}
