/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one object, and formats the error for a missing one. */
#include "controller/volume_read.h"

#include "common/str.h"

int volume_read(const struct controller *c, const char *id, struct deadline d,
                struct json **ret_object, struct dpu_volume *ret, struct err *err)
{
	char ref[OBJECT_REF_MAX];
	int rc = KUBE_ABSENT;

	if (dns1123_subdomain(id))
		rc = kube_get(c->kube, &dpu_volume_kind, c->namespace, id, d, ret_object, err);
	object_ref(c, &dpu_volume_kind, id, ref);
	if (rc == KUBE_ABSENT)
		return err_set(err, ERR_NOT_FOUND, "volume not found: there is no %s", ref);
	if (rc < 0 || dpu_volume_decode(*ret_object, ret, err))
		return err_wrap(err, "%s", ref);
	return 0;
}

int volume_read_cached(const struct controller *c, const char *id, struct deadline d,
                       struct json **ret_object, struct err *err)
{
	char ref[OBJECT_REF_MAX];
	int rc;

	if (!dns1123_subdomain(id))
		return KUBE_ABSENT;
	rc = kube_get_cached(c->kube, &dpu_volume_kind, c->namespace, id, d, ret_object, err);
	return rc < 0 ? err_wrap(err, "%s", object_ref(c, &dpu_volume_kind, id, ref)) : rc;
}

int volume_refuse_unbound(const struct controller *c, const char *id, struct err *err)
{
	char ref[OBJECT_REF_MAX];

	return err_set(err, ERR_NOT_FOUND, "volume not found: %s is still being created",
	               object_ref(c, &dpu_volume_kind, id, ref));
}
