/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a struct err from an HTTP status and a Kubernetes Status object. The error message names
 * verb and object, quotes the server's message, and ends with the next step unless the server's
 * message has one. Stateless; any thread.
 */
#include "kube/kube_status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"

#define PAGE_QUOTE_MAX 200
#define STATUS_MAX (256 * 1024) /* bytes; a larger body is not a Status of an API server */

/*
 * Returns true for a verb on one object. For such a verb the caller adds the object's name
 * (kube.h), so the message must not name it a second time.
 */
static bool is_about_one(const struct kube_target *t)
{
	return t->verb && (t->name || str_eq(t->verb, "create"));
}

const char *kube_target_text(const struct kube_target *t, char buf[512])
{
	const char *group = t->kind->group;
	if (is_about_one(t)) {
		snprintf(buf, 512, "%s%s%s", t->kind->plural, str_empty(group) ? "" : ".", group);
		return buf;
	}
	snprintf(buf, 512, "%s%s%s%s%s%s%s", t->kind->plural, str_empty(group) ? "" : ".", group,
	         t->ns || t->name ? " " : "", t->ns ? t->ns : "", t->ns && t->name ? "/" : "",
	         t->name ? t->name : "");
	return buf;
}

struct json *kube_status_parse(const struct http_result *result)
{
	struct err ignored = ERR_INIT;
	struct json *status = NULL;
	if (!result->body || result->body_n > STATUS_MAX ||
	    json_parse("Status", result->body, result->body_n, &status, &ignored))
		return NULL;
	if (!str_eq(json_str(status, "kind"), "Status")) {
		json_free(status);
		return NULL;
	}
	return status;
}

/*
 * Returns true for the Status that the server sends for every unknown path, which is not about an
 * object.
 */
static bool is_unknown_path(const struct json *status)
{
	return str_eq(json_str(status, "message"),
	              "the server could not find the requested resource");
}

/*
 * Returns true for the server's answer about an API group that it does not have, which is not a
 * Status.
 */
static bool is_page_not_found(const struct http_result *result)
{
	static const char page[] = "404 page not found";
	size_t n = result->body_n;
	while (n > 0 && result->body[n - 1] == '\n')
		n--;
	return result->status == 404 && n == strlen(page) && memcmp(result->body, page, n) == 0;
}

static bool has_cause(const struct json *status, const char *reason)
{
	json_foreach (cause, json_at(status, "details.causes"))
		if (str_eq(json_str(cause, "reason"), reason))
			return true;
	return false;
}

/* ---- the table ---- */

enum special {
	PLAIN,
	UNKNOWN, /* the server does not know the path */
	/* a quota is exceeded: only the message says so, because the reason is "Forbidden" */
	QUOTA,
	ADMISSION,   /* a webhook, a policy or a quota, not RBAC, has refused the object */
	TERMINATING, /* the namespace is being deleted */
};

/* The next step, which follows the server's message or replaces it. */
enum hint {
	HINT_NONE, /* the server's message is sufficient */
	HINT_CREDENTIALS,
	HINT_ROLE,  /* check the RBAC rules of the driver */
	HINT_GROUP, /* check the CustomResourceDefinitions */
};

struct status_rule {
	int from, to; /* HTTP status */
	enum special special;
	enum err_code code;
	enum hint hint;
};

static const struct status_rule rules[] = {
	{ .from = 400, .to = 400, .code = ERR_INVALID },
	{ .from = 401, .to = 401, .code = ERR_UNAUTHENTICATED, .hint = HINT_CREDENTIALS },
	{ .from = 403, .to = 403, .special = QUOTA, .code = ERR_EXHAUSTED },
	{ .from = 403, .to = 403, .special = TERMINATING, .code = ERR_PRECONDITION },
	{ .from = 403, .to = 403, .special = ADMISSION, .code = ERR_PERMISSION },
	{ .from = 403, .to = 403, .code = ERR_PERMISSION, .hint = HINT_ROLE },
	{ .from = 404,
	  .to = 404,
	  .special = UNKNOWN,
	  .code = ERR_PRECONDITION,
	  .hint = HINT_GROUP },
	/* A 404 about the object itself is not an error; see kube_status_no_object(). */
	{ .from = 404, .to = 404, .code = ERR_UNAVAILABLE },
	{ .from = 405, .to = 405, .code = ERR_PRECONDITION },
	/* "AlreadyExists" occurs only for create, where it is not an error. */
	{ .from = 409, .to = 409, .code = ERR_ABORTED },
	{ .from = 410, .to = 410, .code = ERR_ABORTED },
	{ .from = 413, .to = 413, .code = ERR_INVALID },
	{ .from = 422, .to = 422, .code = ERR_INVALID },
	{ .from = 429, .to = 429, .code = ERR_UNAVAILABLE },
	{ .from = 400, .to = 499, .code = ERR_INTERNAL },
	{ .from = 500, .to = 599, .code = ERR_UNAVAILABLE },
};

static bool is_exceeded_quota(const struct json *status)
{
	const char *message = json_str(status, "message");
	return message && strstr(message, "exceeded quota");
}

/*
 * The message of a webhook is `admission webhook "..." denied the request`, that of any other
 * admission plugin `... is forbidden: REASON`, and that of the authorizer `... is forbidden: User
 * "..." cannot ...`.
 */
static bool is_by_admission(const struct json *status)
{
	static const char forbidden[] = " is forbidden: ";
	const char *message = json_str(status, "message");
	const char *reason = message ? strstr(message, forbidden) : NULL;
	if (message && strstr(message, "admission webhook"))
		return true;
	return reason && !str_has_prefix(reason + strlen(forbidden), "User ");
}

static bool status_applies(const struct status_rule *rule, int http_status,
                           const struct json *status)
{
	if (http_status < rule->from || http_status > rule->to)
		return false;
	switch (rule->special) {
	case UNKNOWN:
		return is_unknown_path(status);
	case QUOTA:
		return is_exceeded_quota(status);
	case ADMISSION:
		return is_by_admission(status);
	case TERMINATING:
		return has_cause(status, "NamespaceTerminating");
	case PLAIN:
	default:
		return true;
	}
}

static const struct status_rule *rule_for(int http_status, const struct json *status)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (status_applies(&rules[i], http_status, status))
			return &rules[i];
	return NULL;
}

/* ---- texts ---- */

static int status_set_with_hint(const struct kube_target *t, const struct status_rule *rule,
                                const char *said, struct err *err)
{
	char object[512];
	const char *group = str_empty(t->kind->group) ? "core" : t->kind->group;
	kube_target_text(t, object);
	switch (rule->hint) {
	case HINT_ROLE:
		return err_set(
			err, rule->code,
			"not allowed to %s %s (API group %s)%s%s: %s; check the %sClusterRole of "
			"the driver's ServiceAccount",
			t->verb, t->kind->plural, group, t->ns ? " in namespace " : "",
			t->ns ? t->ns : "", said, t->ns ? "Role or " : "");
	case HINT_GROUP:
		if (!str_empty(t->unusable))
			return err_set(
				err, rule->code,
				"%s %s: the API server serves no version of API group %s that this "
				"driver can use (%s; expected %s, or a version with the same "
				"fields); install a driver version for this version of DPF",
				t->verb, object, group, t->unusable, t->kind->version);
		return err_set(
			err, rule->code,
			"%s %s: the API server does not serve %s of API group %s/%s; are the "
			"CustomResourceDefinitions installed?",
			t->verb, object, t->kind->plural, group,
			t->version ? t->version : t->kind->version);
	case HINT_CREDENTIALS:
		return err_set(err, rule->code,
		               "%s %s: the API server does not accept the credentials of %s: %s",
		               t->verb, object, t->source ? t->source : "the configuration", said);
	case HINT_NONE:
	default:
		return err_set(err, rule->code, "%s %s: %s", t->verb, object, said);
	}
}

/* Returns true if the namespace is missing, not the object. The administrator must create it. */
static bool is_missing_namespace(const struct json *status)
{
	return str_eq(json_str(status, "details.kind"), "namespaces");
}

/* `page`: the result of page_quote() for an answer without a Status. */
static int status_error_quoting(const struct kube_target *t, int http_status,
                                const struct json *status, const char *page, struct err *err)
{
	static const struct status_rule other = { .code = ERR_UNAVAILABLE };
	static const struct status_rule no_namespace = { .code = ERR_PRECONDITION };
	char number[64 + PAGE_QUOTE_MAX];
	const struct status_rule *rule = rule_for(http_status, status);
	const char *said = json_str(status, "message");
	if (str_empty(said)) {
		snprintf(number, sizeof(number), "the API server answered HTTP %d%s", http_status,
		         page);
		said = number;
	}
	if (!rule)
		rule = &other;
	if (http_status == 404 && is_missing_namespace(status) &&
	    !str_eq(t->kind->plural, "namespaces"))
		rule = &no_namespace;
	return status_set_with_hint(t, rule, said, err);
}

int kube_status_error_of(const struct kube_target *t, int http_status, const struct json *status,
                         struct err *err)
{
	return status_error_quoting(t, http_status, status, "", err);
}

/*
 * Appends ` ("...")` with the title of an HTML page, or with the content of any other page. A page
 * that repeats the request's headers is not quoted, because it contains the token.
 */
static void page_quote(const struct http_result *result, struct str *out)
{
	struct str text AUTO(str_clear) = STR_INIT(PAGE_QUOTE_MAX);
	const char *at = result->body;
	bool in_tag = false, space = false;

	if (!at || strcasestr(at, "bearer") || strcasestr(at, "authorization"))
		return;
	if (strcasestr(at, "<title"))
		at = strcasestr(at, "<title");
	for (; *at && text.len < PAGE_QUOTE_MAX - 4; at++) {
		if (in_tag || *at == '<') {
			if (!in_tag && text.len && at[1] == '/')
				break; /* the end of the title, or of the first element with text */
			in_tag = *at != '>';
			space = true;
		} else if (strchr(" \t\r\n", *at)) {
			space = true;
		} else {
			str_addf(&text, "%s%c", space && text.len ? " " : "", *at);
			space = false;
		}
	}
	if (text.len)
		str_addf(out, " (\"%s\")", text.ptr);
}

/*
 * If the API server refuses a request, it sends a Status. An answer without a Status is a proxy's:
 * the effect on the server behind the proxy is unknown, so the code is never final.
 */
static int answer_error(const struct kube_target *t, const struct http_result *result,
                        struct err *err)
{
	static const struct status_rule unserved = { .code = ERR_PRECONDITION, .hint = HINT_GROUP };
	struct json *status AUTO(json_free) = kube_status_parse(result);
	struct str page AUTO(str_clear) = STR_INIT(PAGE_QUOTE_MAX + 8);
	if (is_page_not_found(result))
		return status_set_with_hint(t, &unserved, "", err);
	if (!status)
		page_quote(result, &page);
	if (status || result->status < 400 || result->status > 499 || result->status == 429)
		return status_error_quoting(t, result->status, status, page.ptr, err);
	return err_set(err, ERR_UNAVAILABLE,
	               "%s %s: HTTP %d, which is not an answer of an API server%s; check for a "
	               "proxy in between",
	               t->verb, t->kind->plural, result->status, page.ptr);
}

static int no_answer(const struct kube_target *t, const struct http_result *result, struct err *err)
{
	char object[512];
	kube_target_text(t, object);
	switch (result->end) {
	case HTTP_CANCELLED:
		return err_set(err, ERR_CANCELLED, "%s %s: cancelled", t->verb, object);
	case HTTP_DEADLINE:
		if (!result->sent)
			return err_set(err, ERR_DEADLINE, "%s %s: not sent to %s in time: %s",
			               t->verb, object, t->server, result->why);
		return err_set(err, ERR_DEADLINE, "%s %s: no answer from %s in time", t->verb,
		               object, t->server);
	case HTTP_NOT_SENT:
		return err_set(err, ERR_UNAVAILABLE, "%s %s: cannot reach the API server %s: %s",
		               t->verb, object, t->server, result->why);
	case HTTP_ANSWERED:
	case HTTP_CUT:
	case HTTP_RETIRED:
	case HTTP_TOO_LARGE:
	default:
		return err_set(err, ERR_UNAVAILABLE, "%s %s: incomplete answer from %s: %s",
		               t->verb, object, t->server, result->why);
	}
}

int kube_status_error(const struct kube_target *t, const struct http_result *result,
                      struct err *err)
{
	if (result->end == HTTP_ANSWERED)
		return answer_error(t, result, err);
	IGNORE_RESULT(no_answer(t, result, err));
	err->sys = ENOTCONN;
	return -1;
}

bool kube_status_reason_is(const struct http_result *result, const char *reason)
{
	struct json *status AUTO(json_free) = kube_status_parse(result);
	return str_eq(json_str(status, "reason"), reason);
}

bool kube_status_no_object(const struct kube_target *t, const struct http_result *result)
{
	struct json *status AUTO(json_free) = NULL;
	if (result->end != HTTP_ANSWERED || result->status != 404 || !t->name)
		return false;
	status = kube_status_parse(result);
	return str_eq(json_str(status, "reason"), "NotFound") &&
	       str_eq(json_str(status, "details.kind"), t->kind->plural) &&
	       str_eq(json_str(status, "details.name"), t->name);
}

bool kube_status_may_be_mistaken(const struct http_result *result)
{
	struct json *status AUTO(json_free) = NULL;
	/* Most answers are objects, which need not be parsed for this. */
	if (result->end != HTTP_ANSWERED || result->status < 400)
		return false;
	status = kube_status_parse(result);
	switch (result->status) {
	case 401:
		return true;
	case 403:
		return !is_exceeded_quota(status) && !has_cause(status, "NamespaceTerminating");
	case 404:
		return is_unknown_path(status) || is_page_not_found(result);
	default:
		return false;
	}
}

bool kube_status_is_refusal(const struct http_result *result)
{
	struct json *status AUTO(json_free) = NULL;
	if (result->end == HTTP_NOT_SENT || (result->end == HTTP_DEADLINE && !result->sent))
		return true;
	if (result->end != HTTP_ANSWERED || result->status < 400 || result->status > 499)
		return false;
	if (result->status == 429 || is_page_not_found(result))
		return true;
	status = kube_status_parse(result);
	return status != NULL;
}

bool kube_is_object(const struct kube_target *t, const char *name, const struct json *object)
{
	return str_eq(json_str(object, "kind"), t->kind->kind) &&
	       str_eq(json_str(object, "metadata.name"), name) &&
	       (!t->ns || str_eq(json_str(object, "metadata.namespace"), t->ns)) &&
	       !str_empty(json_str(object, "metadata.uid"));
}
