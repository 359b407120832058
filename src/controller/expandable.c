/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the schema of DPUVolumes once per process. Concurrent callers each read the schema, without
 * a lock; this is three small requests when the sidecars start. Owns nothing; the result is in
 * struct controller.
 */
#include "controller/expandable.h"

#include "common/log.h"
#include "dpf/dpu_volume.h"
#include "dpf/dpu_volume_schema.h"

/* The values of c->expands. */
enum { NOT_KNOWN, YES, NO };

static int learn_expandable(struct controller *c, struct deadline d, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct json *schema AUTO(json_free) = NULL;
	int before = NOT_KNOWN, now;

	d = deadline_clamp(deadline_reserve(d, 1000, 5), EXPANDABLE_MS);
	if (kube_schema(c->kube, &dpu_volume_kind, d, &schema, err))
		return -1;
	now = dpu_volume_may_grow(schema, &why) ? YES : NO;
	if (!atomic_compare_exchange_strong(&c->expands, &before, now))
		return before;
	if (now == YES)
		log_event(LOG_INFO, "volumes can be expanded: the CRD lets spec.resources change",
		          NULL);
	else
		log_event(LOG_INFO, "volumes cannot be expanded", "reason", why.ptr, NULL);
	return now;
}

int controller_expandable(struct controller *c, struct deadline d, struct err *err)
{
	int known = atomic_load(&c->expands);

	if (known == NOT_KNOWN)
		known = learn_expandable(c, d, err);
	if (known < 0)
		return -1;
	return known == YES ? 0 : EXPANDABLE_NOT;
}

bool controller_expands(struct controller *c, struct deadline d)
{
	struct err err = ERR_INIT;
	int rc = controller_expandable(c, d, &err);

	if (rc < 0)
		log_event(LOG_WARNING,
		          "could not determine whether volumes can be expanded, so expansion is "
		          "not offered; a sidecar that needs it reads the capabilities again "
		          "after its restart",
		          "error", err.msg, NULL);
	return rc == 0;
}
