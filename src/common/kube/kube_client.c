/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: its life, one request with its retries, and the verbs.
 *
 * Callers block in their own thread; the HTTP engine's thread does the I/O. `lock` in struct kube is held
 * for moments only. Watching is in kube_watch.c.
 */
#include "common/kube/kube_priv.h"

#include <ctype.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/limits.h"
#include "common/mem.h"

#define ATTEMPT_MS 30000
#define WATCH_SILENCE_MS 150000
#define WATCH_BACKOFF_MS 250
#define WATCH_BACKOFF_MOST_MS 15000
#define WATCH_TIMEOUT_S 240

/* -------------------------------------------------------------- life */

static void endpoint_changed(void *arg, const struct http_endpoint *endpoint)
{
	struct kube *k = arg;
	http_set_endpoint(k->http, endpoint);
}

static void tuning_default(int *value, int otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void tuning_complete(struct kube_tuning *t)
{
	tuning_default(&t->attempt_ms, ATTEMPT_MS);
	tuning_default(&t->watch_silence_ms, WATCH_SILENCE_MS);
	tuning_default(&t->watch_backoff_ms, WATCH_BACKOFF_MS);
	tuning_default(&t->watch_backoff_most_ms, WATCH_BACKOFF_MOST_MS);
	tuning_default(&t->watch_timeout_s, WATCH_TIMEOUT_S);
	tuning_default(&t->page, LIMIT_KUBE_PAGE);
}

static struct kube *kube_destroy(struct kube *k)
{
	http_free(k->http);
	kube_watches_free(k);
	kube_config_free(k->config);
	kube_limiter_destroy(&k->limiter);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->changed);
	free(k->user_agent);
	free(k->field_manager);
	free(k);
	return NULL;
}

static int start_engine(struct kube *k, struct err *err)
{
	struct kube_access *access = kube_config_get(k->config, false);
	int rc = http_new(access->endpoint, &k->tuning.http, &k->http, err);
	kube_config_put(k->config, access);
	return rc;
}

int kube_new_tuned(const struct kube_options *o, const struct kube_tuning *tuning,
                   struct kube **ret, struct err *err)
{
	struct kube_source source = { .kubeconfig = o->kubeconfig,
		                      .context = o->context,
		                      .service_account_dir = o->service_account_dir };
	const char *agent = o->user_agent ? o->user_agent : "snap-csi";
	struct kube *k = xcalloc(1, sizeof(*k));
	if (tuning)
		k->tuning = *tuning;
	tuning_complete(&k->tuning);
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->changed, NULL);
	kube_limiter_init(&k->limiter, o->qps, o->burst);
	k->user_agent = xstrdup(agent);
	k->field_manager = xstrndup(agent, strcspn(agent, "/"));
	if (kube_config_new(&source, endpoint_changed, k, &k->config, err) ||
	    start_engine(k, err)) {
		kube_destroy(k);
		return -1;
	}
	*ret = k;
	return 0;
}

int kube_new(const struct kube_options *options, struct kube **ret, struct err *err)
{
	return kube_new_tuned(options, NULL, ret, err);
}

struct kube *kube_free(struct kube *k)
{
	if (!k)
		return NULL;
	http_stop(k->http);
	{
		WITH_LOCK(&k->lock);
		k->stopping = true;
		kube_waits_stop(k);
		pthread_cond_broadcast(&k->changed);
		while (k->users > 0)
			pthread_cond_wait(&k->changed, &k->lock);
	}
	return kube_destroy(k);
}

void kube_enter(struct kube *k)
{
	WITH_LOCK(&k->lock);
	k->users++;
}

void kube_leave(struct kube *k)
{
	WITH_LOCK(&k->lock);
	k->users--;
	pthread_cond_broadcast(&k->changed);
}

/* -------------------------------------------------------------- paths */

void kube_path_encode(struct str *path, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (isalnum(*c) || strchr("-._~", *c))
			str_addn(path, (const char *)c, 1);
		else
			str_addf(path, "%%%02X", *c);
	}
}

char *kube_path(const struct kube_kind *kind, const char *ns, const char *name)
{
	AUTO(str_clear) struct str path = STR_INIT(8192);
	if (str_empty(kind->group))
		str_addf(&path, "/api/%s", kind->version);
	else
		str_addf(&path, "/apis/%s/%s", kind->group, kind->version);
	if (ns) {
		str_add(&path, "/namespaces/");
		kube_path_encode(&path, ns);
	}
	str_addf(&path, "/%s", kind->plural);
	if (name) {
		str_add(&path, "/");
		kube_path_encode(&path, name);
	}
	return str_take(&path);
}

/* -------------------------------------------------------------- one request */

struct http_request kube_request(struct kube *k, const struct kube_access *access,
                                 const char *method, const char *path)
{
	return (struct http_request) { .method = method,
		                       .path = path,
		                       .accept = "application/json",
		                       .user_agent = k->user_agent,
		                       .bearer = access->token,
		                       .max_body = LIMIT_HTTP_BODY };
}

/* Woken by the caller's cancellation, whose lock is then held: it must not be asked for under ours. */
struct sleeper {
	struct kube *k;
	bool cancelled; /* under the client's lock */
};

static void wake_sleeper(void *arg)
{
	struct sleeper *s = arg;
	WITH_LOCK(&s->k->lock);
	s->cancelled = true;
	pthread_cond_broadcast(&s->k->changed);
}

static bool sleep_locked(struct kube *k, const struct sleeper *s, struct deadline until)
{
	struct timespec ts = deadline_timespec(until);
	WITH_LOCK(&k->lock);
	while (!k->stopping && !s->cancelled && !deadline_passed(until))
		pthread_cond_clockwait(&k->changed, &k->lock, CLOCK_MONOTONIC, &ts);
	return k->stopping;
}

/* Sleeps until `at`, the end of d, its cancellation, or kube_free(). */
static int sleep_until(struct kube *k, int64_t at, struct deadline d, struct err *err,
                       const char *what)
{
	struct sleeper s = { .k = k };
	if (cancel_on_set(d.cancel, wake_sleeper, &s))
		return deadline_check(d, err, what);
	bool stopping = sleep_locked(k, &s, (struct deadline) { .at = at < d.at ? at : d.at });
	(void)cancel_on_set(d.cancel, NULL, NULL);
	if (stopping)
		return err_set(err, ERR_CANCELLED, "%s: the client is being stopped", what);
	return deadline_check(d, err, what);
}

struct operation {
	const char *method;
	struct kube_target target;
	const char *query; /* with its '?', or NULL */
	const char *content_type;
	const char *body;
};

static int wait_for_turn(struct kube *k, struct deadline d, struct err *err)
{
	int64_t now = monotonic_ns();
	int64_t wait = kube_limiter_take(&k->limiter, now);
	if (wait == 0)
		return 0;
	if (sleep_until(k, now + wait, d, err, "waiting for the request limit (--kube-api-qps)")) {
		kube_limiter_return(&k->limiter);
		return -1;
	}
	return 0;
}

static void attempt(struct kube *k, const struct operation *op, const char *path,
                    const struct kube_access *access, struct deadline d, struct http_result *ret)
{
	struct http_request q = kube_request(k, access, op->method, path);
	q.deadline_at = monotonic_ns() + k->tuning.attempt_ms * INT64_C(1000000);
	q.content_type = op->content_type;
	q.body = op->body;
	q.body_n = op->body ? strlen(op->body) : 0;
	http_do(k->http, &q, d, ret);
}

/* Sets the error for a result that is no success. */
static int operation_failed(struct kube *k, const struct operation *op,
                            const struct http_result *result, struct err *err)
{
	struct kube_access *access = kube_config_get(k->config, false);
	struct kube_target target = op->target;
	target.server = access->endpoint->url;
	target.source = access->source;
	kube_status_error(&target, result, err);
	kube_config_put(k->config, access);
	return -1;
}

static void send_once(struct kube *k, const struct operation *op, const char *path, bool refused,
                      struct deadline d, struct http_result *ret)
{
	struct kube_access *access = kube_config_get(k->config, refused);
	attempt(k, op, path, access, d, ret);
	kube_config_put(k->config, access);
}

/* When the time ends in a later attempt, what the one before it met says more than "no answer". */
static void keep_the_telling_one(struct http_result *result, struct http_result *before)
{
	if (result->end != HTTP_DEADLINE || before->end == HTTP_DEADLINE) {
		free(before->body);
		return;
	}
	free(result->body);
	*result = *before;
}

/* Sends it, again where that is allowed and there is time. 0: *ret is what came of it, its body the
   caller's; -1: cancelled or out of time before there was anything to tell. */
static int exchange(struct kube *k, const struct operation *op, struct deadline d,
                    struct http_result *ret, struct err *err)
{
	AUTO(free) char *object = kube_path(op->target.kind, op->target.ns, op->target.name);
	AUTO(free) char *path = xasprintf("%s%s", object, op->query ? op->query : "");
	struct http_result before = { .end = HTTP_DEADLINE };
	bool refused = false;
	char text[512];
	kube_target_text(&op->target, text);
	for (unsigned n = 1;; n++) {
		if (wait_for_turn(k, d, err))
			break;
		send_once(k, op, path, refused, d, ret);
		int pause_ms = kube_retry_ms(op->method, ret, n);
		if (ret->end == HTTP_ANSWERED && ret->status == 401 && !refused) {
			refused = true;
			pause_ms = 0;
		}
		int64_t at = monotonic_ns() + pause_ms * INT64_C(1000000);
		if (pause_ms < 0 || at >= d.at) {
			keep_the_telling_one(ret, &before);
			return 0;
		}
		free(before.body);
		before = *ret;
		if (pause_ms > 0 && sleep_until(k, at, d, err, text))
			break;
	}
	if (err->code == ERR_DEADLINE && before.end != HTTP_DEADLINE) {
		err_clear(err);
		*ret = before;
		return 0;
	}
	free(before.body);
	return -1;
}

static bool is_success(const struct http_result *r)
{
	return r->end == HTTP_ANSWERED && r->status >= 200 && r->status < 300;
}

static int parse_answer(const struct operation *op, const struct http_result *r, struct json **ret,
                        struct err *err)
{
	char text[512];
	if (json_parse(kube_target_text(&op->target, text), r->body ? r->body : "", r->body_n, ret,
	               err) == 0)
		return 0;
	/* The server may have acted: nothing final may be told from an answer that cannot be read. */
	err_recode(err, ERR_UNAVAILABLE);
	return err_wrap(err, "%s: the API server's answer", op->target.verb);
}

/* One operation on one object: 0 and the answer (ret may be NULL), 1 when `absent` says so. */
static int operate(struct kube *k, const struct operation *op, struct deadline d,
                   bool (*absent)(const struct kube_target *t, const struct http_result *r),
                   struct json **ret, struct err *err)
{
	struct http_result r = { 0 };
	int rc;
	if (exchange(k, op, d, &r, err))
		return -1;
	if (is_success(&r))
		rc = ret ? parse_answer(op, &r, ret, err) : 0;
	else if (absent(&op->target, &r))
		rc = 1;
	else
		rc = operation_failed(k, op, &r, err);
	free(r.body);
	return rc;
}

/* -------------------------------------------------------------- verbs */

int kube_get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
             struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	struct operation op = { .method = "GET",
		                .target = { .verb = "get", .kind = kind, .ns = ns, .name = name } };
	return operate(k, &op, d, kube_status_no_object, ret, err);
}

static bool already_exists(const struct kube_target *t, const struct http_result *r)
{
	(void)t;
	return r->end == HTTP_ANSWERED && r->status == 409 &&
	       kube_status_reason_is(r, "AlreadyExists");
}

int kube_create(struct kube *k, const struct kube_kind *kind, const char *ns, struct json *object,
                struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	AUTO(free)
	char *version = str_empty(kind->group) ? xstrdup(kind->version)
	                                       : xasprintf("%s/%s", kind->group, kind->version);
	AUTO(free) char *query = xasprintf("?fieldManager=%s", k->field_manager);
	json_set_str(object, "apiVersion", version);
	json_set_str(object, "kind", kind->kind);
	AUTO(free) char *body = json_print(object);
	const char *name = json_str(object, "metadata.name");
	struct operation op = { .method = "POST",
		                .target = { .verb = "create", .kind = kind, .ns = ns },
		                .query = query,
		                .content_type = "application/json",
		                .body = body };
	int rc = operate(k, &op, d, already_exists, ret, err);
	return rc < 0 && name ? err_wrap(err, "%s %s", kind->kind, name) : rc;
}

int kube_patch(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const struct json *patch, struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	AUTO(free) char *query = xasprintf("?fieldManager=%s", k->field_manager);
	AUTO(free) char *body = json_print(patch);
	struct operation op = { .method = "PATCH",
		                .target = { .verb = "patch", .kind = kind, .ns = ns, .name = name },
		                .query = query,
		                .content_type = "application/merge-patch+json",
		                .body = body };
	return operate(k, &op, d, kube_status_no_object, ret, err);
}

/* 1: the object of that name is another one, or there is none; 0: it is the one. */
static int is_other(struct kube *k, const struct operation *op, const char *uid, struct deadline d,
                    struct err *err)
{
	AUTO(json_free) struct json *object = NULL;
	const struct kube_target *t = &op->target;
	int rc = kube_get(k, t->kind, t->ns, t->name, d, &object, err);
	if (rc)
		return rc;
	return !str_eq(json_str(object, "metadata.uid"), uid);
}

/* A conflict on DELETE is the uid precondition's, or a passing one of the server: asking for the object tells them
   apart without reading the message. */
static int delete_conflict(struct kube *k, const struct operation *op, const char *uid,
                           const struct http_result *r, struct deadline d, struct err *err)
{
	int other = uid ? is_other(k, op, uid, d, err) : 0;
	return other ? other : operation_failed(k, op, r, err);
}

int kube_delete(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                const char *uid, struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	AUTO(json_free) struct json *options = json_object();
	json_set_str(options, "apiVersion", "v1");
	json_set_str(options, "kind", "DeleteOptions");
	if (uid)
		json_set_str(json_sub(options, "preconditions"), "uid", uid);
	AUTO(free) char *body = json_print(options);
	struct operation op = {
		.method = "DELETE",
		.target = { .verb = "delete", .kind = kind, .ns = ns, .name = name },
		.content_type = "application/json",
		.body = body
	};
	struct http_result r = { 0 };
	int rc;
	if (exchange(k, &op, d, &r, err))
		return -1;
	if (is_success(&r))
		rc = 0;
	else if (kube_status_no_object(&op.target, &r))
		rc = 1;
	else if (r.end == HTTP_ANSWERED && r.status == 409)
		rc = delete_conflict(k, &op, uid, &r, d, err);
	else
		rc = operation_failed(k, &op, &r, err);
	free(r.body);
	return rc;
}

/* -------------------------------------------------------------- list */

#define RESTARTS_MAX 5

struct listing {
	struct kube *k;
	struct operation op;
	const char *label_selector;
	int (*fn)(void *arg, const struct json *item, struct err *err);
	void *arg;
	char *token; /* where the next page starts; "" at the beginning and at the end */
	unsigned pages, restarts;
};

static char *list_query(const struct listing *l)
{
	AUTO(str_clear) struct str query = STR_INIT(64 * 1024);
	str_addf(&query, "?limit=%d", l->k->tuning.page);
	if (!str_empty(l->label_selector)) {
		str_add(&query, "&labelSelector=");
		kube_path_encode(&query, l->label_selector);
	}
	if (!str_empty(l->token)) {
		str_add(&query, "&continue=");
		kube_path_encode(&query, l->token);
	}
	return str_take(&query);
}

static void next_page_at(struct listing *l, const char *token)
{
	free(l->token);
	l->token = xstrdup(token ? token : "");
}

static int hand_out(const struct listing *l, const struct json *page, struct err *err)
{
	json_foreach (item, json_at(page, "items")) {
		int rc = l->fn(l->arg, item, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* The snapshot that the token names is gone. The server offers a token that goes on at the next name with
   newer objects; without it the list starts again. */
static int list_expired(struct listing *l, const struct http_result *r, struct err *err)
{
	AUTO(json_free) struct json *status = kube_status_parse(r);
	if (str_empty(l->token) || ++l->restarts > RESTARTS_MAX)
		return operation_failed(l->k, &l->op, r, err);
	next_page_at(l, json_str(status, "metadata.continue"));
	return 0;
}

/* 0: there is more, 1: that was all. */
static int list_page(struct listing *l, struct deadline d, struct err *err)
{
	AUTO(free) char *query = list_query(l);
	AUTO(json_free) struct json *page = NULL;
	struct http_result r = { 0 };
	l->op.query = query;
	if (exchange(l->k, &l->op, d, &r, err))
		return -1;
	AUTO(free) char *body __attribute__((unused)) = r.body;
	if (r.end == HTTP_ANSWERED && r.status == 410)
		return list_expired(l, &r, err);
	if (!is_success(&r))
		return operation_failed(l->k, &l->op, &r, err);
	if (parse_answer(&l->op, &r, &page, err))
		return -1;
	l->pages++;
	int rc = hand_out(l, page, err);
	next_page_at(l, json_str(page, "metadata.continue"));
	return rc ? rc : str_empty(l->token);
}

int kube_list(struct kube *k, const struct kube_kind *kind, const char *ns,
              const char *label_selector,
              int (*fn)(void *arg, const struct json *item, struct err *err), void *arg,
              struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	struct listing l = { .k = k,
		             .op = { .method = "GET",
		                     .target = { .verb = "list", .kind = kind, .ns = ns } },
		             .label_selector = label_selector,
		             .fn = fn,
		             .arg = arg,
		             .token = xstrdup("") };
	int rc;
	do
		rc = list_page(&l, d, err);
	while (rc == 0);
	free(l.token);
	/* Trees of whole pages: without this 2 MB and more stay in the process. */
	if (l.pages > 1)
		malloc_trim(0);
	return rc < 0 ? -1 : 0;
}
