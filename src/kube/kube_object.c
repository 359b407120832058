/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs on one object: get, create, patch, delete. Each verb is one operation. This file
 * distinguishes conditions (no such object, already exists) from errors. Stateless; any thread.
 */
#include "kube/kube_priv.h"

#include <stdlib.h>

#include "common/json.h"
#include "common/mem.h"

/*
 * Checks that the answer is the requested object. Any other answer (another object, a list, null)
 * proves nothing about the requested object.
 */
static int check_object(const struct kube_operation *op, const char *name,
                        const struct json *object, struct err *err)
{
	char text[512];
	if (kube_is_object(&op->target, name, object))
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
	               "%s %s: the API server's answer is not this object; check for a proxy in "
	               "between",
	               op->target.verb, kube_target_text(&op->target, text));
}

/* Parses the object of a successful answer; `ret` may be NULL. */
static int parse_object(struct kube *k, const struct kube_operation *op, const char *name,
                        const struct http_result *r, struct json **ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	if (kube_parse_answer(op, r, &object, err) || check_object(op, name, object, err))
		return -1;
	kube_resume_point_compare(k, op->target.kind, op->target.ns, op->before,
	                          json_str(object, "metadata.resourceVersion"));
	if (ret)
		*ret = TAKE(object);
	return 0;
}

/*
 * Executes one operation on one object. Returns 0 with the answer in *ret (`ret` may be NULL), or
 * `condition` if `is_met` recognises it in the answer.
 */
static int object_operate(struct kube *k, struct kube_operation *op, const char *name,
                          struct deadline d,
                          bool (*is_met)(const struct kube_target *t, const struct http_result *r),
                          int condition, struct json **ret, struct err *err)
{
	struct http_result r = { 0 };
	int rc;
	if (kube_exchange(k, op, d, &r, err))
		return -1;
	if (kube_is_success(&r))
		rc = parse_object(k, op, name, &r, ret, err);
	else if (is_met(&op->target, &r))
		rc = condition;
	else
		rc = kube_operation_failed(k, op, &r, err);
	free(r.body);
	kube_trim_soon(k, r.body_n);
	return rc;
}

static int get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const char *query, struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	struct kube_operation op = {
		.method = "GET",
		.target = { .verb = "get", .kind = kind, .ns = ns, .name = name },
		.query = query
	};
	return object_operate(k, &op, name, d, kube_status_no_object, KUBE_ABSENT, ret, err);
}

int kube_get(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
             struct deadline d, struct json **ret, struct err *err)
{
	return get(k, kind, ns, name, NULL, d, ret, err);
}

int kube_get_cached(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                    struct deadline d, struct json **ret, struct err *err)
{
	/*
	 * resourceVersion=0 requests any cached version; without the parameter the server returns
	 * the newest version.
	 */
	return get(k, kind, ns, name, "?resourceVersion=0", d, ret, err);
}

static bool already_exists(const struct kube_target *t, const struct http_result *r)
{
	(void)t;
	return r->end == HTTP_ANSWERED && r->status == 409 &&
	       kube_status_reason_is(r, "AlreadyExists");
}

/*
 * Returns the timeout that is sent to the server ("30s"). The server does not continue a request
 * after this time.
 */
static int patience_s(const struct kube *k)
{
	return (k->tuning.attempt_ms + 999) / 1000;
}

/*
 * Returns the time until which an unanswered request that was sent at `sent_at` may still be
 * executed.
 */
static int64_t late_until(const struct kube *k, int64_t sent_at)
{
	return sent_at + patience_s(k) * INT64_C(1000000000) + k->tuning.late_ms * INT64_C(1000000);
}

/* Not a valid object name: an unanswered PATCH creates no object, so it has its own entry. */
static char *change_of(const char *name)
{
	return xasprintf("change of %s", name);
}

bool kube_may_change(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name)
{
	char *change AUTO(free) = change_of(name);

	return kube_indeterminate_has(&k->indeterminate, kind, ns, change, monotonic_ns());
}

bool kube_may_come(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name)
{
	return kube_indeterminate_has(&k->indeterminate, kind, ns, name, monotonic_ns());
}

int kube_create(struct kube *k, const struct kube_kind *kind, const char *ns, struct json *object,
                struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	char *query AUTO(free) =
		xasprintf("?fieldManager=%s&timeout=%ds", k->field_manager, patience_s(k));
	const char *name = json_str(object, "metadata.name");
	int rc;
	struct kube_operation op = { .method = "POST",
		                     .target = { .verb = "create", .kind = kind, .ns = ns },
		                     .query = query,
		                     .content_type = "application/json",
		                     .object = object,
		                     .before = kube_resume_point_of(k, kind, ns) };
	op.again = kube_may_come(k, kind, ns, name);
	rc = object_operate(k, &op, name, d, already_exists, KUBE_EXISTS, ret, err);
	if (op.unanswered_at)
		kube_indeterminate_add(&k->indeterminate, kind, ns, name, monotonic_ns(),
		                       late_until(k, op.unanswered_at));
	return rc;
}

int kube_patch(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
               const struct json *patch, struct deadline d, struct json **ret, struct err *err)
{
	KUBE_CALL(k);
	char *query AUTO(free) =
		xasprintf("?fieldManager=%s&timeout=%ds", k->field_manager, patience_s(k));
	char *body AUTO(free) = json_print(patch), *change AUTO(free) = change_of(name);
	int rc;
	struct kube_operation op = {
		.method = "PATCH",
		.target = { .verb = "patch", .kind = kind, .ns = ns, .name = name },
		.query = query,
		.content_type = "application/merge-patch+json",
		.body = body,
		.again = kube_may_change(k, kind, ns, name)
	};
	rc = object_operate(k, &op, name, d, kube_status_no_object, KUBE_ABSENT, ret, err);
	if (op.unanswered_at)
		kube_indeterminate_add(&k->indeterminate, kind, ns, change, monotonic_ns(),
		                       late_until(k, op.unanswered_at));
	return rc;
}

/*
 * Reads the object of that name. Returns 0 if it has this uid and version (NULL: any), KUBE_ABSENT,
 * KUBE_REPLACED if its uid differs, KUBE_CHANGED if its version differs, or -1.
 */
static int read_for_uid(struct kube *k, const struct kube_operation *op, const char *uid,
                        const char *version, struct deadline d, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	const struct kube_target *t = &op->target;
	int rc = kube_get(k, t->kind, t->ns, t->name, d, &object, err);
	if (rc)
		return rc;
	if (!str_eq(json_str(object, "metadata.uid"), uid))
		return KUBE_REPLACED;
	return !version || str_eq(json_str(object, "metadata.resourceVersion"), version)
	               ? 0
	               : KUBE_CHANGED;
}

/*
 * A conflict on DELETE is caused by a precondition, or by a temporary state of the server. A read
 * of the object distinguishes the two without parsing the message.
 */
static int delete_conflict(struct kube *k, const struct kube_operation *op, const char *uid,
                           const char *version, const struct http_result *r, struct deadline d,
                           struct err *err)
{
	int rc = uid ? read_for_uid(k, op, uid, version, d, err) : 0;
	return rc ? rc : kube_target_failed(k, &op->target, r, err);
}

/*
 * Accepts a Status "Success", or the object: its last state, or its current state if finalizers
 * delay the deletion.
 */
static int check_deleted(const struct kube_operation *op, const struct http_result *r,
                         struct err *err)
{
	struct json *answer AUTO(json_free) = NULL;
	if (kube_parse_answer(op, r, &answer, err))
		return -1;
	if (str_eq(json_str(answer, "kind"), "Status") &&
	    str_eq(json_str(answer, "status"), "Success"))
		return 0;
	return check_object(op, op->target.name, answer, err);
}

static char *delete_options(const char *uid, const char *version)
{
	struct json *options AUTO(json_free) = json_object();
	json_set_str(options, "apiVersion", "v1");
	json_set_str(options, "kind", "DeleteOptions");
	if (uid)
		json_set_str(json_sub(options, "preconditions"), "uid", uid);
	if (version)
		json_set_str(json_sub(options, "preconditions"), "resourceVersion", version);
	return json_print(options);
}

static int object_delete_if(struct kube *k, const struct kube_kind *kind, const char *ns,
                            const char *name, const char *uid, const char *version,
                            struct deadline d, struct err *err)
{
	KUBE_CALL(k);
	char *body AUTO(free) = delete_options(uid, version);
	struct kube_operation op = {
		.method = "DELETE",
		.target = { .verb = "delete", .kind = kind, .ns = ns, .name = name },
		.content_type = "application/json",
		.body = body
	};
	struct http_result r = { 0 };
	int rc;
	if (kube_exchange(k, &op, d, &r, err))
		return -1;
	if (kube_is_success(&r))
		rc = check_deleted(&op, &r, err);
	else if (kube_status_no_object(&op.target, &r))
		rc = KUBE_ABSENT;
	else if (r.end == HTTP_ANSWERED && r.status == 409)
		rc = delete_conflict(k, &op, uid, version, &r, d, err);
	else
		rc = kube_operation_failed(k, &op, &r, err);
	free(r.body);
	kube_trim_soon(k, r.body_n);
	return rc;
}

int kube_delete(struct kube *k, const struct kube_kind *kind, const char *ns, const char *name,
                const char *uid, struct deadline d, struct err *err)
{
	return object_delete_if(k, kind, ns, name, uid, NULL, d, err);
}

int kube_delete_state(struct kube *k, const struct kube_kind *kind, const char *ns,
                      const struct json *state, struct deadline d, struct err *err)
{
	return object_delete_if(k, kind, ns, json_str(state, "metadata.name"),
	                        json_str(state, "metadata.uid"),
	                        json_str(state, "metadata.resourceVersion"), d, err);
}

int kube_find_group(struct kube *k, const struct kube_kind *kind, struct deadline d,
                    struct err *err)
{
	KUBE_CALL(k);
	struct json *list AUTO(json_free) = NULL;
	struct http_result r = { 0 };
	struct kube_operation op = { .method = "GET",
		                     .target = { .verb = "list", .kind = kind },
		                     .path = "/apis" };
	int rc;
	if (kube_exchange(k, &op, d, &r, err))
		return -1;
	rc = kube_is_success(&r) ? kube_parse_answer(&op, &r, &list, err)
	                         : kube_operation_failed(k, &op, &r, err);
	free(r.body);
	kube_trim_soon(k, r.body_n);
	if (rc)
		return -1;
	if (!str_eq(json_str(list, "kind"), "APIGroupList") ||
	    !json_is_array(json_at(list, "groups")))
		return err_set(err, ERR_UNAVAILABLE,
		               "the API server's answer is not a list of API groups; check for a "
		               "proxy in between");
	json_foreach (group, json_at(list, "groups"))
		if (str_eq(json_str(group, "name"), kind->group))
			return KUBE_EXISTS;
	return 0;
}
