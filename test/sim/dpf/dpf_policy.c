/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUStorageVendor and DPUStoragePolicy: a vendor is ready at once, a policy when all of its
 * vendors are.
 */
#include "test/sim/dpf/dpf_policy.h"

#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"

#define VENDOR_FINALIZER "storage.dpu.nvidia.com/dpustoragevendor"
#define POLICY_FINALIZER "storage.dpu.nvidia.com/dpustoragepolicy"

static const char *const vendor_conditions[] = { "DPUStorageVendorReconciled", "Valid", NULL };
static const char *const policy_conditions[] = { "DPUStoragePolicyReconciled", "Valid", NULL };

static int64_t end(struct dpf *d, struct object_version *v, struct json *o, const char *finalizer,
                   const char *const *types)
{
	object_drop_finalizer(o, finalizer);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

int64_t dpf_vendor(struct dpf *d, struct object_version *v, struct json *o)
{
	struct json *cluster;

	conditions_ensure(o, vendor_conditions);
	if (object_is_deleting(o))
		return end(d, v, o, VENDOR_FINALIZER, vendor_conditions);
	if (step_claim(d, v, o, VENDOR_FINALIZER, vendor_conditions))
		return RECONCILE_IDLE;
	if (!json_at(o, "status.dpuClusters") && !options_old_dpf(d->options)) {
		json_set(json_sub(o, "status"), "dpuClusters", json_array());
		cluster = json_object();
		json_set_str(cluster, "name", DPU_CLUSTER);
		json_set_str(cluster, "namespace", v->ns);
		json_append(json_at_mut(o, "status.dpuClusters"), cluster);
	}
	for (const char *const *type = vendor_conditions; *type; type++)
		conditions_set(o, *type, "True", REASON_SUCCESS, "");
	step_finish(d, v, o, vendor_conditions);
	return RECONCILE_IDLE;
}

/* A line for each vendor of the policy that is missing or invalid; malloc'ed. NULL: all are valid. */
static char *why_not_valid(struct dpf *d, const struct object_version *v, const struct json *policy)
{
	struct str text AUTO(str_clear) = STR_INIT(65536);

	json_foreach (item, json_at(policy, "spec.dpuStorageVendors")) {
		const char *name = json_text(item) ? json_text(item) : "";
		struct object_version *vendor AUTO(version_unref) =
			store_get(d->sim->store, RES(VENDORS), v->ns, name);
		struct json *o AUTO(json_free) = vendor ? version_parse(vendor) : NULL;

		if (!o || !conditions_true(o, "Ready"))
			str_addf(&text, "\n* DPUStorageVendor %s/%s: %s", v->ns, name,
			         o ? "vendor is invalid" : "not found");
	}
	return text.len ? xasprintf("DPUStoragePolicy is not valid:%s", text.ptr) : NULL;
}

int64_t dpf_policy(struct dpf *d, struct object_version *v, struct json *o)
{
	char *why AUTO(free) = NULL;

	conditions_ensure(o, policy_conditions);
	if (object_is_deleting(o))
		return end(d, v, o, POLICY_FINALIZER, policy_conditions);
	if (step_claim(d, v, o, POLICY_FINALIZER, policy_conditions))
		return RECONCILE_IDLE;
	why = why_not_valid(d, v, o);
	conditions_set(o, "DPUStoragePolicyReconciled", "True", REASON_SUCCESS, "");
	conditions_set(o, "Valid", why ? "False" : "True", why ? REASON_ERROR : REASON_SUCCESS,
	               why ? why : "");
	step_finish(d, v, o, policy_conditions);
	return RECONCILE_IDLE;
}
