/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the path into group, version, namespace, resource, name and subresource, and finds the
 * verb ("list", "watch", ...) by which requests are counted and faults are matched. Runs on the
 * connection's thread.
 */
#include "test/sim/api/api.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/sim/api/api_discovery.h"
#include "test/sim/api/api_openapi.h"
#include "test/sim/api/api_read.h"
#include "test/sim/api/api_write.h"
#include "test/sim/api/watch.h"
#include "test/sim/base/counters.h"
#include "test/sim/base/faults.h"
#include "test/sim/base/options.h"
#include "test/sim/kinds/served.h"

static void target_clear(struct target *t)
{
	free(t->ns);
	free(t->name);
	free(t->sub);
}
DEFINE_AUTO_VALUE(struct target, target_clear);

static void split_path(const char *path, struct strs *ret)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n) {
			char *part AUTO(free) = xstrndup(path, n);

			strs_add(ret, part);
		}
		path += n + (path[n] == '/');
	}
}

/* parts: the path after group and version. False: the resource does not exist. */
static bool parse_target(const char *group, const char *version, char **parts, size_t n,
                         struct target *ret)
{
	size_t at = 0;

	/* /namespaces/NAME and /namespaces/NAME/status are the namespace itself. */
	if (n > 2 && str_eq(parts[0], "namespaces") && !str_eq(parts[2], "status")) {
		ret->ns = xstrdup(parts[1]);
		at = 2;
	}
	ret->res = at < n ? resource_find(group, parts[at]) : NULL;
	ret->version = version;
	if (!ret->res || !served_has(ret->res, version) || n - at > 3 ||
	    (ret->ns && !ret->res->namespaced))
		return false;
	if (n - at > 1)
		ret->name = xstrdup(parts[at + 1]);
	if (n - at > 2)
		ret->sub = xstrdup(parts[at + 2]);
	/* A namespaced object is reached only through its namespace. */
	if (ret->name && ret->res->namespaced && !ret->ns)
		return false;
	return !ret->sub || (ret->res->status && str_eq(ret->sub, "status"));
}

typedef void handler(const struct api_call *call, const struct target *t, struct reply *ret);

static const struct verb {
	const char *method;
	bool with_name; /* the path must name an object; otherwise it must not */
	const char *name;
	handler *fn;
} verbs[] = {
	{ .method = "GET", .with_name = true, .name = "get", .fn = api_get },
	{ .method = "GET", .name = "list", .fn = api_list },
	{ .method = "POST", .name = "create", .fn = api_create },
	{ .method = "PUT", .with_name = true, .name = "update", .fn = api_update },
	{ .method = "PATCH", .with_name = true, .name = "patch", .fn = api_patch },
	{ .method = "DELETE", .with_name = true, .name = "delete", .fn = api_delete },
};
static const struct verb watch_verb = { .method = "GET", .name = "watch", .fn = api_watch };

static const struct verb *verb_find(const struct api_call *call, const struct target *t)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		const struct verb *v = &verbs[i];

		if (!str_eq(v->method, call->method) || v->with_name != (t->name != NULL))
			continue;
		return v->fn == api_list && call_flag(call, "watch") ? &watch_verb : v;
	}
	return NULL;
}

/* The name that faults match: that of the path or, when an object is created, that of the body. */
static char *name_for_faults(const struct api_call *call, const struct target *t)
{
	struct json *body AUTO(json_free) = NULL;
	struct err err = ERR_INIT;
	const char *name;

	if (t->name)
		return xstrdup(t->name);
	if (!call->body_len || json_parse("body", call->body, call->body_len, &body, &err))
		return xstrdup("");
	name = json_str(body, "metadata.name");
	return xstrdup(name ? name : "");
}

static void reply_fault(struct reply *r, const struct request_fault *fault)
{
	reply_clear(r);
	reply_failure(r, fault->status, *fault->reason ? fault->reason : NULL, "%s",
	              *fault->message ? fault->message : "injected by /sim/faults");
	r->retry_after = fault->retry_after;
}

/* Replaces the text at the path. */
static void make_wrong(struct reply *r, const char *path)
{
	struct json *body AUTO(json_free) = NULL;
	const char *last = strrchr(path, '.');
	struct err ignored = ERR_INIT;
	struct json *in;

	if (!r->body || json_parse("reply", r->body, strlen(r->body), &body, &ignored))
		return;
	in = last ? json_sub(body, "metadata") : body;
	json_set_str(in, last ? last + 1 : path, "another");
	free(r->body);
	r->body = json_print(body);
}

/* False: snap-sim is being stopped. */
static bool wait_also_without_client(const struct api_call *call, int ms)
{
	struct api_call nobody = *call;

	nobody.client_fd = -1;
	return call_wait(&nobody, -1, ms) == WAIT_TIMEOUT;
}

/* Executes the request, and applies the fault to it. */
static void run_with_fault(const struct api_call *call, const struct verb *verb,
                           const struct target *t, const struct request_fault *fault,
                           struct reply *ret)
{
	bool fails =
		fault->status || fault->hang || fault->unserved || fault->has_body || fault->closed;

	if (fault->latency_ms && call_wait(call, -1, (int)fault->latency_ms) == WAIT_GONE) {
		ret->cut = true;
		return;
	}
	if (fault->late_ms && !wait_also_without_client(call, (int)fault->late_ms)) {
		ret->cut = true;
		return;
	}
	if (!fails || fault->applied)
		verb->fn(call, t, ret);
	if (fault->hang) {
		call_wait(call, -1, -1);
		ret->cut = true;
	} else if (fault->closed) {
		reply_clear(ret);
		ret->cut = true;
	} else if (fault->unserved) {
		reply_no_such_path(ret);
	} else if (fault->has_body) {
		reply_clear(ret);
		reply_text(ret, fault->status ? fault->status : 200, fault->body);
	} else if (fault->status) {
		reply_fault(ret, fault);
	} else if (*fault->wrong) {
		make_wrong(ret, fault->wrong);
	}
	ret->cut |= fault->cut;
}

static void run(const struct api_call *call, const struct target *t, struct reply *ret)
{
	const struct verb *verb = verb_find(call, t);
	char *name AUTO(free) = NULL;
	char *resource AUTO(free) =
		t->sub ? xasprintf("%s/%s", t->res->plural, t->sub) : xstrdup(t->res->plural);
	struct request_fault fault = { 0 };

	if (!verb) {
		reply_failure(ret, 405, NULL,
		              "the server does not allow this method on the requested resource");
		return;
	}
	counters_count(call->sim->counters, verb->name, resource);
	name = name_for_faults(call, t);
	if (faults_request(call->sim->faults, verb->name, resource, name, &fault))
		run_with_fault(call, verb, t, &fault, ret);
	else
		verb->fn(call, t, ret);
}

/* Runs the request in the version of stored objects, and converts input and output. */
static void run_in_version(const struct api_call *call, const struct target *t, struct reply *ret)
{
	char *body AUTO(free) = NULL, *text AUTO(free) = NULL, *other AUTO(free) = NULL;
	struct api_call stored = *call;

	if (str_eq(t->version, t->res->version)) {
		run(call, t, ret);
		return;
	}
	if (call->body) {
		text = xstrndup(call->body, call->body_len);
		/* An object of the stored version has the wrong version here. */
		other = served_convert(text, t->res, t->res->version, "other");
		body = served_convert(other, t->res, t->version, t->res->version);
		stored.body = body;
		stored.body_len = strlen(body);
	}
	run(&stored, t, ret);
	if (ret->body) {
		char *out = served_convert(ret->body, t->res, t->res->version, t->version);

		free(ret->body);
		ret->body = out;
	}
}

static void run_openapi(const struct api_call *call, struct reply *ret)
{
	static const struct verb openapi_verb = { .name = "get", .fn = api_openapi };
	const struct target nothing = { 0 };
	struct request_fault fault = { 0 };

	counters_count(call->sim->counters, "get", "openapi");
	if (faults_request(call->sim->faults, "get", "openapi", "", &fault))
		run_with_fault(call, &openapi_verb, &nothing, &fault, ret);
	else
		api_openapi(call, &nothing, ret);
}

static bool authorized(const struct api_call *call)
{
	const char *token = call->sim->options->token;

	if (!token)
		return true;
	return call->authorization && str_has_prefix(call->authorization, "Bearer ") &&
	       str_eq(call->authorization + strlen("Bearer "), token);
}

static void handle_resource(const struct api_call *call, struct reply *ret)
{
	struct strs parts AUTO(strs_clear) = STRS_INIT;
	struct target t AUTO(target_clear) = { 0 };
	bool core = str_has_prefix(call->path, "/api/");
	const char *group;
	size_t skip = core ? 2 : 3;

	split_path(call->path, &parts);
	group = core ? "" : parts.n > 1 ? parts.v[1] : "?";
	if (parts.n <= skip || !resource_group_served(group)) {
		reply_no_such_path(ret);
		return;
	}
	if (parse_target(group, parts.v[skip - 1], parts.v + skip, parts.n - skip, &t))
		run_in_version(call, &t, ret);
	else if (core)
		reply_no_such_resource(ret);
	else
		reply_no_such_path(ret);
}

void api_handle(struct api_call *call, struct reply *ret)
{
	*ret = (struct reply) { 0 };
	if (str_eq(call->path, "/healthz") || str_eq(call->path, "/readyz") ||
	    str_eq(call->path, "/livez"))
		reply_text(ret, 200, "ok");
	else if (!authorized(call))
		reply_failure(ret, 401, NULL, "Unauthorized");
	else if (str_eq(call->method, "GET") && api_discovery(call->path, ret))
		return;
	else if (str_eq(call->method, "GET") && api_openapi_is(call->path))
		run_openapi(call, ret);
	else if (str_has_prefix(call->path, "/api/") || str_has_prefix(call->path, "/apis/"))
		handle_resource(call, ret);
	else
		reply_no_such_path(ret);
}
