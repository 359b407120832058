/* SPDX-License-Identifier: Apache-2.0 */
/* Status objects in the words of Kubernetes: code, reason, message, details. No state. */
#include "test/sim/api/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

static const struct {
	unsigned code;
	const char *reason;
} reasons[] = {
	{ 400, "BadRequest" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "NotFound" },
	{ 405, "MethodNotAllowed" },
	{ 406, "NotAcceptable" },
	{ 409, "Conflict" },
	{ 410, "Expired" },
	{ 413, "RequestEntityTooLarge" },
	{ 415, "UnsupportedMediaType" },
	{ 422, "Invalid" },
	{ 429, "TooManyRequests" },
	{ 500, "InternalError" },
	{ 503, "ServiceUnavailable" },
	{ 504, "Timeout" },
};

const char *status_reason(unsigned code)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].code == code)
			return reasons[i].reason;
	return "";
}

static struct json *status_object(const char *status)
{
	struct json *s = json_object();

	json_set_str(s, "kind", "Status");
	json_set_str(s, "apiVersion", "v1");
	json_set(s, "metadata", json_object());
	json_set_str(s, "status", status);
	return s;
}

struct json *status_failure(unsigned code, const char *reason, const char *message)
{
	struct json *s = status_object("Failure");

	json_set_str(s, "message", message);
	json_set_str(s, "reason", reason ? reason : status_reason(code));
	json_set_int(s, "code", code);
	return s;
}

void reply_json(struct reply *r, unsigned code, const struct json *body)
{
	r->code = code;
	r->type = "application/json";
	free(r->body);
	r->body = json_print(body);
}

void reply_text(struct reply *r, unsigned code, const char *text)
{
	r->code = code;
	r->type = "text/plain; charset=utf-8";
	free(r->body);
	r->body = xstrdup(text);
}

void reply_clear(struct reply *r)
{
	free(r->body);
	r->body = NULL;
}

void reply_failure(struct reply *r, unsigned code, const char *reason, const char *fmt, ...)
{
	char message[4096];
	va_list args;
	struct json *s AUTO(json_free) = NULL;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	s = status_failure(code, reason, message);
	reply_json(r, code, s);
}

/* Adds details; `kind` is the plural of the resource, except in a 422. */
static struct json *details(struct json *status, const struct api_resource *res, const char *name,
                            const char *kind)
{
	struct json *d = json_sub(status, "details");

	json_set_str(d, "name", name);
	if (*res->group)
		json_set_str(d, "group", res->group);
	json_set_str(d, "kind", kind);
	return d;
}

static void reply_about(struct reply *r, unsigned code, const char *reason,
                        const struct api_resource *res, const char *name, const char *message)
{
	struct json *s AUTO(json_free) = status_failure(code, reason, message);

	details(s, res, name, res->plural);
	reply_json(r, code, s);
}

void reply_not_found(struct reply *r, const struct api_resource *res, const char *name)
{
	char *what AUTO(free) = resource_qualified(res);
	char *message AUTO(free) = xasprintf("%s \"%s\" not found", what, name);

	reply_about(r, 404, NULL, res, name, message);
}

void reply_exists(struct reply *r, const struct api_resource *res, const char *name)
{
	char *what AUTO(free) = resource_qualified(res);
	char *message AUTO(free) = xasprintf("%s \"%s\" already exists", what, name);

	reply_about(r, 409, "AlreadyExists", res, name, message);
}

void reply_conflict(struct reply *r, const struct api_resource *res, const char *name,
                    const char *why)
{
	char *what AUTO(free) = resource_qualified(res);
	char *message AUTO(free) =
		xasprintf("Operation cannot be fulfilled on %s \"%s\": %s", what, name, why);

	reply_about(r, 409, "Conflict", res, name, message);
}

void reply_invalid(struct reply *r, const struct api_resource *res, const char *name,
                   const struct invalid *causes)
{
	char *what AUTO(free) = invalid_message(causes);
	char *message AUTO(free) = xasprintf("%s%s%s \"%s\" is invalid: %s", res->kind,
	                                     *res->group ? "." : "", res->group, name, what);
	struct json *s AUTO(json_free) = status_failure(422, "Invalid", message);

	json_set(details(s, res, name, res->kind), "causes", json_copy(causes->causes));
	reply_json(r, 422, s);
}

void reply_deleted(struct reply *r, const struct api_resource *res, const char *name,
                   const char *uid)
{
	struct json *s AUTO(json_free) = status_object("Success");

	json_set_str(details(s, res, name, res->plural), "uid", uid);
	reply_json(r, 200, s);
}

void reply_no_such_path(struct reply *r)
{
	reply_text(r, 404, "404 page not found\n");
}

void reply_no_such_resource(struct reply *r)
{
	struct json *s AUTO(json_free) =
		status_failure(404, NULL, "the server could not find the requested resource");

	json_set(s, "details", json_object());
	reply_json(r, 404, s);
}
