/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of each kind, and the position of the kind in a version's OpenAPI document. Sends no
 * request; kube_version_read.c sends them.
 */
#include "kube/kube_version.h"

#include <stdlib.h>

#include "common/mem.h"
#include "kube/kube_priv.h"

struct kube_version *kube_version_find(struct kube *k, const struct kube_kind *kind)
{
	struct kube_version *v;

	assert_locked(&k->lock);
	for (v = k->versions; v; v = v->next)
		if (str_eq(v->kind->plural, kind->plural) && str_eq(v->kind->group, kind->group))
			break;
	return v;
}

const char *kube_version(struct kube *k, const struct kube_kind *kind, char ret[KUBE_VERSION_MAX])
{
	const struct kube_version *v;

	snprintf(ret, KUBE_VERSION_MAX, "%s", kind->version);
	if (!kind->serves)
		return ret;
	WITH_LOCK(&k->lock);
	v = kube_version_find(k, kind);
	if (v)
		snprintf(ret, KUBE_VERSION_MAX, "%s", v->version);
	return ret;
}

const char *kube_version_why(struct kube *k, const struct kube_kind *kind,
                             char ret[KUBE_VERSION_WHY_MAX])
{
	const struct kube_version *v;

	*ret = 0;
	if (!kind->serves)
		return ret;
	WITH_LOCK(&k->lock);
	v = kube_version_find(k, kind);
	if (v)
		snprintf(ret, KUBE_VERSION_WHY_MAX, "%s", v->why);
	return ret;
}

bool kube_version_is_reading(struct kube *k, const struct kube_kind *kind)
{
	const struct kube_version *v = kube_version_find(k, kind);

	return v && v->reading;
}

char *kube_version_document(const struct kube_kind *kind, const char *version)
{
	return xasprintf("/openapi/v3/apis/%s/%s", kind->group, version);
}

static bool is_of_kind(const struct json *schema, const struct kube_kind *kind, const char *version)
{
	json_foreach (gvk, json_member(schema, "x-kubernetes-group-version-kind"))
		if (str_eq(json_str(gvk, "group"), kind->group) &&
		    str_eq(json_str(gvk, "version"), version) &&
		    str_eq(json_str(gvk, "kind"), kind->kind))
			return true;
	return false;
}

const struct json *kube_version_schema(const struct json *document, const struct kube_kind *kind,
                                       const char *version)
{
	json_foreach (schema, json_at(document, "components.schemas"))
		if (is_of_kind(schema, kind, version))
			return schema;
	return NULL;
}

void kube_versions_free(struct kube *k)
{
	while (k->versions) {
		struct kube_version *v = k->versions;

		k->versions = v->next;
		free(v);
	}
}
