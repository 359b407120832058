/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread for each kind lists its objects and watches them until the watch ends for any reason;
 * then it lists again. The HTTP engine's thread applies events, DPF's thread the answers to its
 * writes. `lock` serialises both; a state that is not newer than the store's copy is dropped.
 *
 * The store numbers versions itself. The server's resourceVersion is kept in the copy as
 * metadata.remoteVersion (REMOTE), and writes are conditional on it.
 */
#include "test/sim/kinds/served.h"
#include "test/sim/store/mirror.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "http/http.h"
#include "kube/kube_access.h"
#include "test/sim/kinds/object.h"

#define REMOTE "remoteVersion"
#define REQUEST_MS 10000
#define RETRY_MS 200
#define START_MS 10000
#define WATCH_SECONDS 300
#define N_KINDS 6

static const enum resource_id kinds[N_KINDS] = { RES_VENDORS, RES_POLICIES, RES_DPUNODES,
	                                         RES_DPUS,    RES_VOLUMES,  RES_ATTACHMENTS };

struct collection {
	struct mirror *m;
	const struct api_resource *res;
	pthread_t thread;
	bool running;
	char version[64]; /* where the watch starts */
	/* the incomplete line; owned by the engine's thread while a watch is open */
	struct str line;
	bool ended; /* under m->lock: the watch has ended */
};

struct mirror {
	struct sim *sim;
	struct http *http;
	struct kube_config *config;
	_Atomic bool stopping;
	pthread_mutex_t lock; /* held while the store's copy changes; guards `ended` */
	pthread_cond_t changed;
	struct collection collections[N_KINDS];
};

bool mirror_has(const struct api_resource *res)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (res == &resources[kinds[i]])
			return true;
	return false;
}

/* ---- requests ---- */

/* The version in requests to the API server: the first one that snap-sim serves. malloc'ed. */
static char *mirror_version(const struct api_resource *res)
{
	struct strs versions AUTO(strs_clear) = STRS_INIT;

	served_versions(res, &versions);
	return xstrdup(versions.v[0]);
}

/* An object of the store as JSON in that version; malloc'ed. */
static char *mirror_text(const struct api_resource *res, const struct json *o)
{
	char *version AUTO(free) = mirror_version(res), *text AUTO(free) = json_print(o);

	return served_convert(text, res, res->version, version);
}

/*
 * The path of the collection (v NULL) or of one object, followed by `rest`. Names are DNS names, so
 * nothing needs escaping.
 */
static char *path_of(const struct api_resource *res, const struct object_version *v,
                     const char *rest)
{
	char *version AUTO(free) = mirror_version(res);

	if (!v)
		return xasprintf("/apis/%s/%s/%s%s", res->group, version, res->plural, rest);
	return xasprintf("/apis/%s/%s/namespaces/%s/%s/%s%s", res->group, version, v->ns,
	                 res->plural, v->name, rest);
}

static struct http_request request(const struct kube_access *access, const char *method,
                                   const char *path)
{
	return (struct http_request) { .method = method,
		                       .path = path,
		                       .accept = "application/json",
		                       .content_type = "application/json",
		                       .user_agent = "snap-sim/" SNAP_CSI_VERSION,
		                       .bearer = access->token,
		                       .max_body = LIMIT_HTTP_BODY };
}

static void ask(struct mirror *m, const char *method, const char *path, const char *body,
                struct http_result *ret)
{
	struct kube_access *access = kube_config_get(m->config, false);
	struct http_request q = request(access, method, path);

	q.body = body;
	q.body_n = body ? strlen(body) : 0;
	http_do(m->http, &q, deadline_in_ms(REQUEST_MS), ret);
	kube_config_put(m->config, access);
}

static void pause_ms(const struct mirror *m, int ms)
{
	struct pollfd end = { .fd = m->sim->stop_fd, .events = POLLIN };

	(void)poll(&end, 1, ms);
}

/* ---- the store's copy ---- */

static uint64_t number(const char *text)
{
	return text ? strtoull(text, NULL, 10) : 0;
}

static void put_locked(struct mirror *m, const struct api_resource *res, const struct json *object)
{
	struct json *copy AUTO(json_free) = json_copy(object);
	char *api_version AUTO(free) = NULL;
	struct object_version *v AUTO(version_unref) =
		store_get(m->sim->store, res, object_namespace(object), object_name(object));
	const char *version = json_str(object, "metadata.resourceVersion");

	assert_locked(&m->lock);
	if (v) {
		struct json *old AUTO(json_free) = version_parse(v);

		if (number(json_str(old, "metadata." REMOTE)) >= number(version))
			return;
	}
	api_version = resource_api_version(res);
	/* Items of a list have no apiVersion and kind. */
	json_set_str(copy, "apiVersion", api_version);
	json_set_str(copy, "kind", res->kind);
	json_set_str(json_sub(copy, "metadata"), REMOTE, version);
	if (v && !str_eq(v->uid, object_uid(object))) {
		IGNORE_RESULT(store_remove(m->sim->store, v));
		IGNORE_RESULT(store_put(m->sim->store, res, copy, NULL, NULL));
	} else {
		IGNORE_RESULT(store_put(m->sim->store, res, copy, v, NULL));
	}
}

static void remove_locked(struct mirror *m, const struct api_resource *res,
                          const struct json *object)
{
	struct object_version *v AUTO(version_unref) =
		store_get(m->sim->store, res, object_namespace(object), object_name(object));

	assert_locked(&m->lock);
	if (v && str_eq(v->uid, object_uid(object)))
		IGNORE_RESULT(store_remove(m->sim->store, v));
}

static bool listed(const struct json *list, const struct object_version *v)
{
	json_foreach (item, json_at(list, "items"))
		if (str_eq(object_uid(item), v->uid))
			return true;
	return false;
}

static void take_list(struct collection *c, const struct json *list)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = c->res };
	const char *version = json_str(list, "metadata.resourceVersion");

	WITH_LOCK(&c->m->lock);
	snprintf(c->version, sizeof(c->version), "%s", version ? version : "");
	store_list(c->m->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		if (!listed(list, page.v[i]))
			IGNORE_RESULT(store_remove(c->m->sim->store, page.v[i]));
	json_foreach (item, json_at(list, "items"))
		put_locked(c->m, c->res, item);
}

static int failed(const struct http_result *r, const char *what, const char *path, struct err *err)
{
	if (r->end != HTTP_ANSWERED)
		return err_set(err, ERR_UNAVAILABLE, "%s %s: %s", what, path, r->why);
	return err_set(err, ERR_UNAVAILABLE, "%s %s: status %d: %.200s", what, path, r->status,
	               r->body ? r->body : "");
}

static int list(struct collection *c, struct err *err)
{
	char *path AUTO(free) = path_of(c->res, NULL, "");
	struct json *tree AUTO(json_free) = NULL;
	struct http_result r;
	int rc;

	ask(c->m, "GET", path, NULL, &r);
	if (r.end != HTTP_ANSWERED || r.status != 200)
		rc = failed(&r, "GET", path, err);
	else
		rc = json_parse(path, r.body, r.body_n, &tree, err);
	free(r.body);
	if (!rc)
		take_list(c, tree);
	return rc;
}

/* ---- the watch, on the engine's thread ---- */

/* False: the watch has to be ended (an error, or invalid JSON). */
static bool take_event(struct collection *c, const char *text, size_t n)
{
	struct json *event AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	const char *type;
	const struct json *object;

	if (json_parse("watch", text, n, &event, &err))
		return false;
	type = json_str(event, "type");
	object = json_at(event, "object");
	WITH_LOCK(&c->m->lock);
	if (str_eq(type, "ADDED") || str_eq(type, "MODIFIED"))
		put_locked(c->m, c->res, object);
	else if (str_eq(type, "DELETED"))
		remove_locked(c->m, c->res, object);
	return str_eq(type, "BOOKMARK") || !str_eq(type, "ERROR");
}

static bool on_bytes(void *arg, const char *bytes, size_t n)
{
	struct collection *c = arg;

	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t piece = end ? (size_t)(end - bytes) : n;

		if (!str_addn(&c->line, bytes, piece))
			return false;
		if (!end)
			return true;
		if (c->line.len && !take_event(c, c->line.ptr, c->line.len))
			return false;
		str_reset(&c->line);
		bytes += piece + 1;
		n -= piece + 1;
	}
	return true;
}

static void on_done(void *arg, struct http_result *result)
{
	struct collection *c = arg;

	(void)result;
	WITH_LOCK(&c->m->lock);
	c->ended = true;
	pthread_cond_broadcast(&c->m->changed);
}

static void watch(struct collection *c)
{
	struct mirror *m = c->m;
	char *rest AUTO(free) =
		xasprintf("?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
	                  WATCH_SECONDS, c->version);
	char *path AUTO(free) = path_of(c->res, NULL, rest);
	struct kube_access *access = kube_config_get(m->config, false);
	struct http_request q = request(access, "GET", path);

	q.stream = true;
	q.on_bytes = on_bytes;
	q.on_done = on_done;
	q.arg = c;
	c->ended = false;
	str_reset(&c->line);
	(void)http_start(m->http, &q);
	kube_config_put(m->config, access);
	WITH_LOCK(&m->lock);
	while (!c->ended)
		pthread_cond_wait(&m->changed, &m->lock);
}

static void *follow(void *arg)
{
	struct collection *c = arg;

	while (!c->m->stopping) {
		struct err err = ERR_INIT;

		watch(c);
		while (!c->m->stopping && list(c, &err)) {
			log_limited(LOG_WARNING, 10, "%s", err.msg);
			err_clear(&err);
			pause_ms(c->m, RETRY_MS);
		}
	}
	return NULL;
}

/* ---- writing ---- */

/* The object as the server knows it, with the new finalizers or status. */
static char *body_of(const struct api_resource *res, const struct json *o)
{
	struct json *copy AUTO(json_free) = json_copy(o);
	struct json *metadata = json_sub(copy, "metadata");

	json_set_str(metadata, "resourceVersion", json_str(o, "metadata." REMOTE));
	json_remove(metadata, REMOTE);
	return mirror_text(res, copy);
}

static void take_answer(struct mirror *m, const struct object_version *v,
                        const struct http_result *r)
{
	struct json *object AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	if (json_parse(v->name, r->body, r->body_n, &object, &err)) {
		log_msg(LOG_WARNING, "answer of a write: %s", err.msg);
		return;
	}
	WITH_LOCK(&m->lock);
	struct object_version *now AUTO(version_unref) =
		store_get(m->sim->store, v->res, v->ns, v->name);

	/*
	 * It may be deleted: a write that removes the last finalizer ends the object, and its event
	 * says so.
	 */
	if (now && str_eq(now->uid, object_uid(object)))
		put_locked(m, v->res, object);
}

void mirror_write(struct mirror *m, const struct object_version *v, const struct json *o)
{
	struct json *old AUTO(json_free) = version_parse(v);
	bool status =
		json_equal(json_at(old, "metadata.finalizers"), json_at(o, "metadata.finalizers"));
	char *path AUTO(free) = path_of(v->res, v, status ? "/status" : "");
	char *body AUTO(free) = body_of(v->res, o);

	while (!m->stopping) {
		struct http_result r;
		struct err err = ERR_INIT;
		bool answered;

		ask(m, "PUT", path, body, &r);
		answered = r.end == HTTP_ANSWERED;
		if (answered && r.status == 200)
			take_answer(m, v, &r);
		else if (!answered || (r.status != 404 && r.status != 409))
			(void)failed(&r, "PUT", path, &err);
		free(r.body);
		if (!err.code)
			return;
		log_limited(LOG_WARNING, 10, "%s", err.msg);
		if (answered && r.status < 429)
			return;
		pause_ms(m, RETRY_MS);
	}
}

void mirror_create(struct mirror *m, const struct api_resource *res, const struct json *o)
{
	char *version AUTO(free) = mirror_version(res);
	char *path AUTO(free) =
		xasprintf("/%s%s/%s/namespaces/%s/%s", *res->group ? "apis/" : "api", res->group,
	                  version, object_namespace(o), res->plural);
	char *body AUTO(free) = mirror_text(res, o);
	struct http_result r;
	struct err err = ERR_INIT;

	ask(m, "POST", path, body, &r);
	if (r.end != HTTP_ANSWERED || r.status != 201) {
		(void)failed(&r, "POST", path, &err);
		log_limited(LOG_WARNING, 10, "%s", err.msg);
	}
	free(r.body);
}

/* ---- life ---- */

static void endpoint_changed(void *arg, const struct http_endpoint *endpoint)
{
	struct mirror *m = arg;

	if (m->http)
		http_set_endpoint(m->http, endpoint);
}

static int connect_to(struct mirror *m, const char *kubeconfig, struct err *err)
{
	const struct kube_source source = { .kubeconfig = kubeconfig };
	struct kube_access *access;
	int rc;

	if (kube_config_new(&source, endpoint_changed, m, &m->config, err))
		return -1;
	access = kube_config_get(m->config, false);
	rc = http_new(access->endpoint, NULL, &m->http, err);
	kube_config_put(m->config, access);
	return rc;
}

/*
 * Retries for some seconds: an API server may answer 429 while it prepares the storage of a new
 * CRD.
 */
static int list_patiently(struct collection *c, struct err *err)
{
	struct deadline d = deadline_in_ms(START_MS);

	while (list(c, err)) {
		if (deadline_passed(d))
			return -1;
		err_clear(err);
		pause_ms(c->m, RETRY_MS);
	}
	return 0;
}

static int start(struct mirror *m, struct err *err)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (list_patiently(&m->collections[i], err))
			return -1;
	for (size_t i = 0; i < N_KINDS; i++) {
		struct collection *c = &m->collections[i];

		if (pthread_create(&c->thread, NULL, follow, c))
			abort();
		c->running = true;
	}
	return 0;
}

int mirror_new(struct sim *sim, const char *kubeconfig, struct mirror **ret, struct err *err)
{
	struct mirror *m = xcalloc(1, sizeof(*m));

	m->sim = sim;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	for (size_t i = 0; i < N_KINDS; i++) {
		m->collections[i] = (struct collection) { .m = m, .res = &resources[kinds[i]] };
		str_init(&m->collections[i].line, LIMIT_HTTP_WATCH_LINE);
	}
	if (connect_to(m, kubeconfig, err) || start(m, err)) {
		mirror_stop(m);
		mirror_free(m);
		return -1;
	}
	*ret = m;
	return 0;
}

void mirror_stop(struct mirror *m)
{
	if (!m)
		return;
	m->stopping = true;
	if (m->http)
		http_stop(m->http);
	for (size_t i = 0; i < N_KINDS; i++)
		if (m->collections[i].running)
			pthread_join(m->collections[i].thread, NULL);
}

struct mirror *mirror_free(struct mirror *m)
{
	if (!m)
		return NULL;
	assert(m->stopping);
	m->http = http_free(m->http);
	m->config = kube_config_free(m->config);
	for (size_t i = 0; i < N_KINDS; i++)
		str_clear(&m->collections[i].line);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
	return NULL;
}
