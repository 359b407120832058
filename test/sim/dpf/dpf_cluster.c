/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUs are ready at once, until a fault says otherwise. A DPU whose Ready has a foreign reason is
 * left unchanged: a client acts as its controller.
 */
#include "test/sim/dpf/dpf_cluster.h"

#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"

#define PREFERRED "storage.nvidia.com/preferred-dpu"
#define REASON_NOT_READY "NotReady"

static const char *ready_reason(const struct json *dpu)
{
	json_foreach (item, json_at(dpu, "status.conditions"))
		if (str_eq(json_str(item, "type"), "Ready"))
			return json_str(item, "reason");
	return NULL;
}

int64_t dpf_dpu(struct dpf *d, struct object_version *v, struct json *o)
{
	const char *reason = ready_reason(o);
	struct dpf_fault fault;

	if (!json_at(o, "spec.cluster")) {
		json_set_str(json_sub(json_sub(o, "spec"), "cluster"), "name", DPU_CLUSTER);
		json_set_str(json_sub(json_sub(o, "spec"), "cluster"), "namespace", v->ns);
	}
	if (object_is_deleting(o)) {
		conditions_set(o, "Ready", "False", REASON_NOT_READY, "");
		json_set_str(json_sub(o, "status"), "phase", "Deleting");
	} else if (faults_dpf(d->sim->faults, FAULT_DPU_NOT_READY, v->name,
	                      object_text(o, "spec.dpuNodeName"), &fault)) {
		conditions_set(o, "Ready", "False", REASON_NOT_READY, fault.text);
	} else if (!reason || str_eq(reason, REASON_SUCCESS) || str_eq(reason, REASON_NOT_READY)) {
		conditions_set(o, "Ready", "True", REASON_SUCCESS, "");
		json_set_str(json_sub(o, "status"), "phase", "Ready");
	}
	step_store(d, v, o);
	return RECONCILE_IDLE;
}

bool cluster_is_unreachable(struct dpf *d, const char *name)
{
	return faults_dpf(d->sim->faults, FAULT_CLUSTER_UNREACHABLE, name, NULL, NULL);
}

bool cluster_any_unreachable(struct dpf *d)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = RES(DPUCLUSTERS) };

	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++)
		if (cluster_is_unreachable(d, page.v[i]->name))
			return true;
	return false;
}

struct json *cluster_find_dpu(struct dpf *d, const char *ns, const char *node, char **why)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = RES(DPUS), .ns = ns };
	struct json *first AUTO(json_free) = NULL;
	struct json *preferred AUTO(json_free) = NULL;
	size_t n = 0, n_preferred = 0;

	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++) {
		struct json *dpu AUTO(json_free) = version_parse(page.v[i]);

		if (!str_eq(json_str(dpu, "spec.dpuNodeName"), node))
			continue;
		if (object_annotation(dpu, PREFERRED) && !n_preferred++)
			preferred = json_copy(dpu);
		if (!n++)
			first = TAKE(dpu);
	}
	if (n == 1)
		return TAKE(first);
	if (n_preferred == 1)
		return TAKE(preferred);
	*why = n == 0 ? xasprintf("no DPU found for DPUNode %s", node)
	       : !n_preferred
	               ? xstrdup("multiple DPUs provided but none has " PREFERRED " annotation")
	               : xstrdup("multiple DPUs have " PREFERRED " annotation");
	return NULL;
}
