/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind's schema, from the OpenAPI documents of the API server. Every account may read these
 * (system:discovery), while reading a CustomResourceDefinition needs a right of its own. No state,
 * any thread.
 */
#include "kube/kube_priv.h"

#include <stdlib.h>

#include "common/mem.h"

static bool is_of_kind(const struct json *schema, const struct kube_kind *kind)
{
	json_foreach (gvk, json_member(schema, "x-kubernetes-group-version-kind"))
		if (str_eq(json_str(gvk, "group"), kind->group) &&
		    str_eq(json_str(gvk, "version"), kind->version) &&
		    str_eq(json_str(gvk, "kind"), kind->kind))
			return true;
	return false;
}

static int pick(const struct json *document, const struct kube_kind *kind, struct json **ret,
                struct err *err)
{
	json_foreach (schema, json_at(document, "components.schemas")) {
		if (!is_of_kind(schema, kind))
			continue;
		*ret = json_copy(schema);
		return 0;
	}
	return err_set(err, ERR_UNAVAILABLE,
	               "the API server's answer has no schema of %s %s/%s; is its CRD just being "
	               "installed, or a proxy in between?",
	               kind->kind, kind->group, kind->version);
}

int kube_schema(struct kube *k, const struct kube_kind *kind, struct deadline d, struct json **ret,
                struct err *err)
{
	KUBE_CALL(k);
	char *path AUTO(free) = xasprintf("/openapi/v3/apis/%s/%s", kind->group, kind->version);
	struct json *document AUTO(json_free) = NULL;
	struct http_result r = { 0 };
	struct kube_operation op = { .method = "GET",
		                     .target = { .verb = "get", .kind = kind },
		                     .path = path };
	int rc;

	if (kube_exchange(k, &op, d, &r, err))
		return err_wrap(err, "%s", path);
	if (!kube_is_success(&r))
		rc = kube_operation_failed(k, &op, &r, err);
	else if (kube_parse_answer(&op, &r, &document, err))
		rc = -1;
	else
		rc = pick(document, kind, ret, err);
	free(r.body);
	kube_trim_soon(k, r.body_n);
	return rc ? err_wrap(err, "%s", path) : 0;
}
