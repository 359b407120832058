/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create, update, patch and delete: the API server's checks and changes before it stores an object.
 *
 * An update is optimistic: read a version, create the new object, validate it, store it if the
 * version is still the newest. If it is not, a request that names a resourceVersion is answered
 * 409, and any other is retried. A request that changes nothing creates no version and no event. No
 * state.
 */
#include "test/sim/api/api_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "test/sim/kinds/object.h"
#include "test/sim/kinds/validate.h"
#include "test/sim/store/store.h"

#define MODIFIED \
	"the object has been modified; please apply your changes to the latest version and try again"

static bool is_json_type(const char *type)
{
	return !type || str_has_prefix(type, "application/json");
}

/* The body as an object. NULL: the reply has the error. */
static struct json *parse_body(const struct api_call *call, struct reply *ret)
{
	struct json *body AUTO(json_free) = NULL;
	struct err err = ERR_INIT;

	if (json_parse("body", call->body ? call->body : "", call->body_len, &body, &err)) {
		reply_failure(ret, 400, NULL, "%s", err.msg);
		return NULL;
	}
	if (!json_is_object(body)) {
		reply_failure(ret, 400, NULL, "the body of the request is no JSON object");
		return NULL;
	}
	return TAKE(body);
}

static bool is_string_map(const struct json *map)
{
	json_foreach (item, map) {
		if (!json_is_string(item))
			return false;
	}
	return !map || json_is_object(map);
}

static bool metadata_decodes(const struct json *object)
{
	return is_string_map(json_at(object, "metadata.labels")) &&
	       is_string_map(json_at(object, "metadata.annotations"));
}

/*
 * The body as a whole object, whose type and namespace must be those of the path. NULL: the reply
 * has the error.
 */
static struct json *parse_object(const struct api_call *call, const struct target *t,
                                 struct reply *ret)
{
	struct json *o AUTO(json_free) = NULL;
	char *api_version AUTO(free) = resource_api_version(t->res);
	const char *ns;

	if (!is_json_type(call->content_type)) {
		reply_failure(
			ret, 415, NULL,
			"the body of the request was in an unknown format - accepted media types include: application/json");
		return NULL;
	}
	o = parse_body(call, ret);
	if (!o)
		return NULL;
	ns = object_namespace(o);
	if (str_empty(json_str(o, "kind"))) {
		reply_failure(
			ret, 400, NULL,
			"the object provided is unrecognized (must be of type %s): Object 'Kind' is missing",
			t->res->kind);
		return NULL;
	}
	/* The kind of a custom resource is checked by the validation. */
	if (!str_eq(json_str(o, "apiVersion"), api_version) ||
	    (!t->res->schema && !str_eq(json_str(o, "kind"), t->res->kind))) {
		reply_failure(
			ret, 400, NULL,
			"the API version in the data (%s) does not match the expected API version (%s)",
			json_str(o, "apiVersion") ? json_str(o, "apiVersion") : "", api_version);
		return NULL;
	}
	if (!metadata_decodes(o)) {
		reply_failure(
			ret, 400, NULL,
			"%s in version \"%s\" cannot be handled as a %s: labels and annotations are maps of strings",
			t->res->kind, t->res->version, t->res->kind);
		return NULL;
	}
	if (*ns && !str_eq(ns, t->ns)) {
		reply_failure(
			ret, 400, NULL,
			"the namespace of the provided object does not match the namespace sent on the request");
		return NULL;
	}
	return TAKE(o);
}

/* False: the object is invalid, and the reply (422) has the errors. */
static bool is_valid(const struct target *t, const struct json *object, const struct json *old,
                     struct reply *ret)
{
	struct invalid causes AUTO(invalid_clear);

	invalid_init(&causes);
	validate_object(t->res, object, old, &causes);
	if (causes.n)
		reply_invalid(ret, t->res, object_name(object), &causes);
	return !causes.n;
}

static void generate_name(struct json *metadata)
{
	static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
	const char *prefix = json_str(metadata, "generateName");
	char *name AUTO(free) = NULL;
	char uuid[37], suffix[6] = "";

	if (str_empty(prefix) || !str_empty(json_str(metadata, "name")))
		return;
	object_uuid(uuid);
	for (size_t i = 0; i < 5; i++)
		suffix[i] = letters[(unsigned char)uuid[i] % (sizeof(letters) - 1)];
	name = xasprintf("%s%s", prefix, suffix);
	json_set_str(metadata, "name", name);
}

static void set_new_metadata(const struct target *t, struct json *object)
{
	struct json *metadata = json_sub(object, "metadata");
	char now[32], uuid[37];

	object_now(now);
	object_uuid(uuid);
	generate_name(metadata);
	json_set_str(metadata, "namespace", t->ns);
	json_set_str(metadata, "uid", uuid);
	json_set_str(metadata, "creationTimestamp", now);
	json_set_int(metadata, "generation", 1);
	json_remove(metadata, "deletionTimestamp");
	json_remove(metadata, "deletionGracePeriodSeconds");
	json_remove(metadata, "managedFields");
	json_remove(metadata, "selfLink");
}

static bool namespace_exists(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct object_version *ns AUTO(version_unref) = NULL;

	if (!t->res->namespaced)
		return true;
	ns = t->ns ? store_get(call->sim->store, RES(NAMESPACES), "", t->ns) : NULL;
	if (!ns)
		reply_not_found(ret, RES(NAMESPACES), t->ns ? t->ns : "");
	return ns;
}

void api_create(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct json *object AUTO(json_free) = parse_object(call, t, ret);
	struct object_version *made AUTO(version_unref) = NULL;

	if (!object || !namespace_exists(call, t, ret))
		return;
	if (json_str(object, "metadata.resourceVersion") &&
	    *json_str(object, "metadata.resourceVersion")) {
		/* The real API server answers 500 here, too. */
		reply_failure(ret, 500, NULL,
		              "resourceVersion should not be set on objects to be created");
		return;
	}
	set_new_metadata(t, object);
	validate_prune(t->res, object);
	/*
	 * Kinds without a schema (Node, DPUNode) keep the status from their creation: no controller
	 * here would write it.
	 */
	if (t->res->schema)
		json_remove(object, "status");
	if (!is_valid(t, object, NULL, ret))
		return;
	if (str_eq(call_query(call, "dryRun"), "All")) {
		reply_json(ret, 201, object);
		return;
	}
	if (store_put(call->sim->store, t->res, object, NULL, &made) == STORE_CHANGED) {
		reply_exists(ret, t->res, object_name(object));
		return;
	}
	reply_text(ret, 201, made->text);
	ret->type = "application/json";
}

/* A change outside metadata and status raises the generation. */
static bool same_spec(const struct json *a, const struct json *b)
{
	struct json *x AUTO(json_free) = json_copy(a);
	struct json *y AUTO(json_free) = json_copy(b);

	json_remove(x, "metadata");
	json_remove(x, "status");
	json_remove(y, "metadata");
	json_remove(y, "status");
	return json_equal(x, y);
}

/* Restores the metadata that a client may not change. */
static void keep_metadata(struct json *object, const struct json *old)
{
	static const char *const fixed[] = {
		"name",
		"namespace",
		"uid",
		"generation",
		"creationTimestamp",
		"deletionTimestamp",
		"deletionGracePeriodSeconds",
		"resourceVersion",
	};
	struct json *metadata = json_sub(object, "metadata");

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		const struct json *value = json_member(json_at(old, "metadata"), fixed[i]);

		if (value)
			json_set(metadata, fixed[i], json_copy(value));
		else
			json_remove(metadata, fixed[i]);
	}
	json_remove(metadata, "managedFields");
}

/*
 * The new object: a path with /status takes only the status from `wanted`, any other path
 * everything except the status.
 */
static struct json *combine(const struct target *t, const struct json *wanted,
                            const struct json *old)
{
	struct json *object = json_copy(t->sub ? old : wanted);
	const struct json *status = json_at(t->sub ? wanted : old, "status");

	if (t->sub || t->res->schema) {
		if (status)
			json_set(object, "status", json_copy(status));
		else
			json_remove(object, "status");
	}
	keep_metadata(object, old);
	validate_prune(t->res, object);
	if (!same_spec(object, old))
		json_set_int(json_sub(object, "metadata"), "generation",
		             object_generation(old) + 1);
	return object;
}

/* Replaces `old` by `object`: 0 (replied), or STORE_CHANGED. */
static int commit(const struct api_call *call, const struct target *t, struct json *object,
                  const struct json *old, const struct object_version *expect, struct reply *ret)
{
	struct object_version *made AUTO(version_unref) = NULL;

	if (!is_valid(t, object, old, ret))
		return 0;
	if (json_equal(object, old) || str_eq(call_query(call, "dryRun"), "All")) {
		reply_json(ret, 200, object);
		return 0;
	}
	if (object_is_deleting(object) && !object_has_finalizers(object)) {
		if (store_remove(call->sim->store, expect) == STORE_CHANGED)
			return STORE_CHANGED;
		reply_json(ret, 200, object);
		return 0;
	}
	if (store_put(call->sim->store, t->res, object, expect, &made) == STORE_CHANGED)
		return STORE_CHANGED;
	reply_text(ret, 200, made->text);
	ret->type = "application/json";
	return 0;
}

/*
 * Whether the uid and the resourceVersion of `wanted`, where present, are those of the object.
 * False: the reply names the mismatch.
 */
static bool preconditions_hold(const struct target *t, const struct json *wanted,
                               const struct object_version *current, bool *named_rv,
                               struct reply *ret)
{
	const char *rv = json_str(wanted, "metadata.resourceVersion");
	const char *uid = object_uid(wanted);
	char own[24];

	*named_rv = !str_empty(rv);
	snprintf(own, sizeof(own), "%" PRIu64, current->rv);
	if (*uid && !str_eq(uid, current->uid)) {
		char *why AUTO(free) = xasprintf(
			"Precondition failed: UID in precondition: %s, UID in object meta: %s", uid,
			current->uid);

		reply_conflict(ret, t->res, current->name, why);
		return false;
	}
	if (*named_rv && !str_eq(rv, own)) {
		reply_conflict(ret, t->res, current->name, MODIFIED);
		return false;
	}
	return true;
}

static bool names_agree(const struct target *t, const struct json *wanted, struct reply *ret)
{
	if (!*object_name(wanted) || str_eq(object_name(wanted), t->name))
		return true;
	reply_failure(ret, 400, NULL,
	              "the name of the object (%s) does not match the name on the URL (%s)",
	              object_name(wanted), t->name);
	return false;
}

void api_update(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct json *wanted AUTO(json_free) = parse_object(call, t, ret);
	struct json *old AUTO(json_free) = NULL;
	struct json *object AUTO(json_free) = NULL;
	struct object_version *current AUTO(version_unref) =
		store_get(call->sim->store, t->res, t->ns, t->name);
	bool named_rv;

	if (!wanted || !names_agree(t, wanted, ret))
		return;
	if (!current) {
		reply_not_found(ret, t->res, t->name);
		return;
	}
	if (!preconditions_hold(t, wanted, current, &named_rv, ret))
		return;
	if (!named_rv) {
		struct invalid causes AUTO(invalid_clear);
		struct api_resource as = *t->res;

		as.kind = t->res->plural; /* the message names the plural */
		invalid_init(&causes);
		invalid_add(&causes, "FieldValueInvalid", "metadata.resourceVersion",
		            "Invalid value: 0: must be specified for an update");
		reply_invalid(ret, &as, t->name, &causes);
		return;
	}
	old = version_parse(current);
	object = combine(t, wanted, old);
	if (commit(call, t, object, old, current, ret) == STORE_CHANGED)
		reply_conflict(ret, t->res, t->name, MODIFIED);
}

static void reply_uid_is_fixed(const struct target *t, const struct json *patch, struct reply *ret)
{
	struct invalid causes AUTO(invalid_clear);

	invalid_init(&causes);
	invalid_add(&causes, "FieldValueInvalid", "metadata.uid",
	            "Invalid value: \"%s\": field is immutable", object_uid(patch));
	reply_invalid(ret, t->res, t->name, &causes);
}

/* One attempt. 0: replied, or STORE_CHANGED. */
static int try_patch(const struct api_call *call, const struct target *t, const struct json *patch,
                     struct reply *ret)
{
	struct json *object AUTO(json_free) = NULL;
	struct json *old AUTO(json_free) = NULL;
	struct json *wanted AUTO(json_free) = NULL;
	struct object_version *current AUTO(version_unref) =
		store_get(call->sim->store, t->res, t->ns, t->name);
	bool named_rv;

	if (!current) {
		reply_not_found(ret, t->res, t->name);
		return 0;
	}
	if (*object_uid(patch) && !str_eq(object_uid(patch), current->uid)) {
		reply_uid_is_fixed(t, patch, ret);
		return 0;
	}
	if (!preconditions_hold(t, patch, current, &named_rv, ret))
		return 0;
	old = version_parse(current);
	wanted = json_copy(old);
	json_merge_patch(wanted, patch);
	object = combine(t, wanted, old);
	if (commit(call, t, object, old, current, ret) == 0)
		return 0;
	if (!named_rv)
		return STORE_CHANGED;
	reply_conflict(ret, t->res, t->name, MODIFIED);
	return 0;
}

void api_patch(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct json *patch AUTO(json_free) = NULL;

	if (!call->content_type ||
	    !str_has_prefix(call->content_type, "application/merge-patch+json")) {
		reply_failure(
			ret, 415, NULL,
			"the body of the request was in an unknown format - accepted media types include: application/merge-patch+json (snap-sim knows no other patch)");
		return;
	}
	patch = parse_body(call, ret);
	if (!patch || !names_agree(t, patch, ret))
		return;
	while (try_patch(call, t, patch, ret) == STORE_CHANGED)
		;
}

/* Checks the preconditions of the body's DeleteOptions, which may be absent. False: replied. */
static bool delete_allowed(const struct api_call *call, const struct target *t,
                           const struct object_version *current, bool *named_rv, struct reply *ret)
{
	struct json *options AUTO(json_free) =
		call->body_len ? parse_body(call, ret) : json_object();
	struct json *as_object AUTO(json_free) = json_object();
	struct json *metadata = json_sub(as_object, "metadata");

	if (!options)
		return false;
	json_set_str(metadata, "uid", json_str(options, "preconditions.uid"));
	json_set_str(metadata, "resourceVersion",
	             json_str(options, "preconditions.resourceVersion"));
	return preconditions_hold(t, as_object, current, named_rv, ret);
}

/*
 * For an object with finalizers: sets deletionTimestamp; the object is removed with its last
 * finalizer. 0 (replied), or STORE_CHANGED.
 */
static int mark_deleted(const struct api_call *call, const struct target *t, struct json *object,
                        const struct object_version *current, struct reply *ret)
{
	struct json *metadata = json_sub(object, "metadata");
	struct object_version *made AUTO(version_unref) = NULL;
	char now[32];

	if (!object_is_deleting(object)) {
		object_now(now);
		json_set_str(metadata, "deletionTimestamp", now);
		json_set_int(metadata, "deletionGracePeriodSeconds", 0);
		json_set_int(metadata, "generation", object_generation(object) + 1);
		if (store_put(call->sim->store, t->res, object, current, &made) == STORE_CHANGED)
			return STORE_CHANGED;
	}
	reply_json(ret, 200, object);
	return 0;
}

/* One attempt. 0: replied, or STORE_CHANGED. */
static int try_delete(const struct api_call *call, const struct target *t, struct reply *ret)
{
	struct json *object AUTO(json_free) = NULL;
	struct object_version *current AUTO(version_unref) =
		store_get(call->sim->store, t->res, t->ns, t->name);
	bool named_rv;

	if (!current) {
		reply_not_found(ret, t->res, t->name);
		return 0;
	}
	if (!delete_allowed(call, t, current, &named_rv, ret))
		return 0;
	object = version_parse(current);
	if (object_has_finalizers(object))
		return mark_deleted(call, t, object, current, ret);
	if (store_remove(call->sim->store, current) == STORE_CHANGED)
		return STORE_CHANGED;
	reply_deleted(ret, t->res, t->name, current->uid);
	return 0;
}

void api_delete(const struct api_call *call, const struct target *t, struct reply *ret)
{
	if (t->sub) {
		reply_failure(ret, 405, NULL,
		              "the server does not allow this method on the requested resource");
		return;
	}
	while (try_delete(call, t, ret) == STORE_CHANGED)
		;
}
