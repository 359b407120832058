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

int64_t dpf_vendor(struct dpf *d, struct object_version *v, struct json *o)
{
	if (object_is_deleting(o)) {
		object_drop_finalizer(o, VENDOR_FINALIZER);
		step_put(d, v, o);
		return RECONCILE_IDLE;
	}
	if (step_claim(d, v, o, VENDOR_FINALIZER))
		return RECONCILE_IDLE;
	for (const char *const *type = vendor_conditions; *type; type++)
		conditions_set(o, *type, "True", REASON_SUCCESS, "");
	step_finish(d, v, o, vendor_conditions);
	return RECONCILE_IDLE;
}

/*
 * Why the policy is not valid: its first vendor that is missing or not ready. Malloc'ed; NULL: it
 * is valid.
 */
static char *why_not_valid(struct dpf *d, const struct object_version *v, const struct json *policy)
{
	json_foreach (item, json_at(policy, "spec.dpuStorageVendors")) {
		const char *name = json_text(item) ? json_text(item) : "";
		struct object_version *vendor AUTO(version_unref) =
			store_get(d->sim->store, RES(VENDORS), v->ns, name);
		struct json *o AUTO(json_free) = vendor ? version_parse(vendor) : NULL;

		if (!o)
			return xasprintf("DPUStorageVendor %s/%s not found", v->ns, name);
		if (!conditions_true(o, "Ready"))
			return xasprintf("DPUStorageVendor %s/%s is not ready", v->ns, name);
	}
	return NULL;
}

int64_t dpf_policy(struct dpf *d, struct object_version *v, struct json *o)
{
	char *why AUTO(free) = NULL;

	if (object_is_deleting(o)) {
		object_drop_finalizer(o, POLICY_FINALIZER);
		step_put(d, v, o);
		return RECONCILE_IDLE;
	}
	if (step_claim(d, v, o, POLICY_FINALIZER))
		return RECONCILE_IDLE;
	why = why_not_valid(d, v, o);
	conditions_set(o, "DPUStoragePolicyReconciled", "True", REASON_SUCCESS, "");
	conditions_set(o, "Valid", why ? "False" : "True", why ? REASON_PENDING : REASON_SUCCESS,
	               why ? why : "");
	step_finish(d, v, o, policy_conditions);
	return RECONCILE_IDLE;
}
