/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a kind's schema from the OpenAPI documents of the API server. Every account may read these
 * documents (system:discovery), whereas a CustomResourceDefinition needs its own permission.
 * Stateless; any thread.
 */
#include "kube/kube_priv.h"
#include "kube/kube_version.h"

#include <stdlib.h>

#include "common/mem.h"

static int pick(struct kube *k, const struct json *document, const struct kube_kind *kind,
                struct json **ret, struct err *err)
{
	char version[KUBE_VERSION_MAX];
	const struct json *schema =
		kube_version_schema(document, kind, kube_version(k, kind, version));
	if (schema) {
		*ret = json_copy(schema);
		return 0;
	}
	return err_set(err, ERR_UNAVAILABLE,
	               "the API server's answer has no schema of %s %s/%s; its CRD may just be "
	               "being installed; otherwise check for a proxy in between",
	               kind->kind, kind->group, version);
}

int kube_schema(struct kube *k, const struct kube_kind *kind, struct deadline d, struct json **ret,
                struct err *err)
{
	KUBE_CALL(k);
	char version[KUBE_VERSION_MAX];
	char *path AUTO(free) = NULL;
	struct json *document AUTO(json_free) = NULL;
	struct http_result r = { 0 };
	struct kube_operation op = { .method = "GET",
		                     .target = { .verb = "get", .kind = kind },
		                     .schema = true };
	int rc;

	rc = kube_exchange(k, &op, d, &r, err);
	path = kube_version_document(kind, kube_version(k, kind, version));
	if (rc)
		return err_wrap(err, "%s", path);
	if (!kube_is_success(&r))
		rc = kube_operation_failed(k, &op, &r, err);
	else if (kube_parse_answer(&op, &r, &document, err))
		rc = -1;
	else
		rc = pick(k, document, kind, ret, err);
	free(r.body);
	kube_trim_soon(k, r.body_n);
	return rc ? err_wrap(err, "%s", path) : 0;
}
