/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery runs on the HTTP engine's thread, so that watches and callers share the result. The
 * list of API groups names the versions, and the OpenAPI document of each version has the kind's
 * schema. The version for which the driver was written is checked first, and needs only to have the
 * kind. After an error the known version is kept; discovery restarts when the server next answers
 * that the version is not served.
 */
#include "kube/kube_version.h"

#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "kube/kube_priv.h"

#define VERSIONS_MOST 8 /* maximum number of versions read per API group */

/* ---- the engine's thread ---- */

/*
 * Ends the discovery with the version to use; NULL: none was determined. Until `reading` is false,
 * no other thread uses the freed members.
 */
static void version_read_end(struct kube_version *v, const char *version)
{
	char *used AUTO(free) = xstrdup_or_null(version);
	struct strs served = v->served;
	struct str unusable AUTO(str_clear) = v->unusable;
	bool other;

	{
		WITH_LOCK(&v->k->lock);
		other = used && !str_eq(v->version, used);
		if (used) {
			snprintf(v->version, sizeof(v->version), "%s", used);
			snprintf(v->why, sizeof(v->why), "%s", unusable.ptr);
		}
		v->reading = false;
		wait_queue_wake(&v->k->changed);
	}
	if (other)
		log_event(LOG_INFO, "the API server serves the kind in another version", "kind",
		          v->kind->plural, "group", v->kind->group, "version", used, NULL);
	else if (used && unusable.len)
		log_limited(LOG_ERROR, 60,
		            "%s.%s: the API server serves no version that this driver can use (%s; "
		            "expected %s, or a version with the same fields); install a driver "
		            "version for this version of DPF",
		            v->kind->plural, v->kind->group, unusable.ptr, v->kind->version);
	strs_clear(&served);
}

static void version_request(struct kube_version *v, const char *path,
                            void (*on_done)(void *arg, struct http_result *r))
{
	struct http_request q = {
		.path = path, .deadline_at = kube_attempt_end(v->k), .on_done = on_done, .arg = v
	};

	(void)kube_get_start(v->k, &q, false);
}

static void version_document_done(void *arg, struct http_result *r);

static void version_next_document(struct kube_version *v)
{
	char *path AUTO(free) = NULL;

	if (v->at == v->served.n) {
		version_read_end(v, v->kind->version);
		return;
	}
	path = kube_version_document(v->kind, v->served.v[v->at]);
	version_request(v, path, version_document_done);
}

/*
 * Returns true if this version can be used. If not, adds the reason to `unusable`, provided that
 * the version has the kind.
 */
static bool is_usable(struct kube_version *v, const struct json *document, const char *version)
{
	struct str lacks AUTO(str_clear) = STR_INIT(KUBE_VERSION_WHY_MAX);
	const struct json *schema = kube_version_schema(document, v->kind, version);

	if (!schema)
		return false;
	if (str_eq(version, v->kind->version) || v->kind->serves(schema, &lacks))
		return true;
	str_addf(&v->unusable, "%s%s: %s", v->unusable.len ? "; " : "", version, lacks.ptr);
	return false;
}

static void version_document_done(void *arg, struct http_result *r)
{
	struct kube_version *v = arg;
	const char *version = v->served.v[v->at];
	struct json *document AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;

	if (r->end != HTTP_ANSWERED || (r->status != 404 && r->status != 200) ||
	    (r->status != 404 &&
	     json_parse("OpenAPI", r->body ? r->body : "", r->body_n, &document, &ignored))) {
		err_clear(&ignored);
		version_read_end(v, NULL);
		return;
	}
	kube_trim_soon(v->k, r->body_n);
	if (document && is_usable(v, document, version)) {
		str_reset(&v->unusable);
		version_read_end(v, version);
		return;
	}
	v->at++;
	version_next_document(v);
}

/*
 * Adds the driver's own version first, then the others in the API server's order: stable and newer
 * versions first.
 */
static void versions_of_group(struct kube_version *v, const struct json *group)
{
	json_foreach (item, json_at(group, "versions"))
		if (str_eq(json_str(item, "version"), v->kind->version))
			strs_add(&v->served, v->kind->version);
	json_foreach (item, json_at(group, "versions")) {
		const char *version = json_str(item, "version");

		if (version && dns1123_subdomain(version) && strlen(version) < KUBE_VERSION_MAX &&
		    !str_eq(version, v->kind->version) && v->served.n < VERSIONS_MOST)
			strs_add(&v->served, version);
	}
}

static void version_groups_done(void *arg, struct http_result *r)
{
	struct kube_version *v = arg;
	struct json *list AUTO(json_free) = NULL;
	struct err ignored = ERR_INIT;

	if (r->end != HTTP_ANSWERED || r->status != 200 ||
	    json_parse("/apis", r->body ? r->body : "", r->body_n, &list, &ignored) ||
	    !str_eq(json_str(list, "kind"), "APIGroupList")) {
		err_clear(&ignored);
		version_read_end(v, NULL);
		return;
	}
	json_foreach (group, json_at(list, "groups"))
		if (str_eq(json_str(group, "name"), v->kind->group))
			versions_of_group(v, group);
	version_next_document(v);
}

/* ---- any thread ---- */

void kube_version_read(struct kube *k, const struct kube_kind *kind, const struct http_result *r)
{
	struct kube_version *v;

	if (!kind->serves || r->status != 404 || !kube_status_may_be_mistaken(r))
		return;
	{
		WITH_LOCK(&k->lock);
		v = kube_version_find(k, kind);
		if (v && v->reading)
			return;
		if (!v) {
			v = xcalloc(1, sizeof(*v));
			v->k = k;
			v->kind = kind;
			v->next = k->versions;
			snprintf(v->version, sizeof(v->version), "%s", kind->version);
			k->versions = v;
		}
		v->reading = true;
		v->at = 0;
		v->served = (struct strs)STRS_INIT;
		str_init(&v->unusable, KUBE_VERSION_WHY_MAX - 1);
	}
	version_request(v, "/apis", version_groups_done);
}
