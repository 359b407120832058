/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUVolume, one step per call. Watchers see each step, in up to three writes (step_finish()):
 *
 *   add the finalizer, set the conditions to Unknown, phase Pending
 *   choose a vendor, fill in status.state
 *   Scheduled: the claim is created in the DPU cluster
 *   wait for the bind delay; fill in volumeInfo: phase Bound, Ready
 *   with --growing-volumes, when more is requested: the same delay, then the new capacity
 *
 * Only Events contain the vendor's answer to the claim. Deletion waits until no attachment names
 * the volume, removes the objects of the DPU cluster one after the other, then the storage and the
 * finalizer.
 */
#include "test/sim/dpf/dpf_volume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "test/sim/base/sim.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/dpf_cluster.h"
#include "test/sim/dpf/dpf_event.h"
#include "test/sim/dpf/placement.h"
#include "test/sim/dpf/references.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"
#include "test/sim/kinds/quantity.h"

#define FINALIZER "storage.dpu.nvidia.com/dpuvolume"
#define RETRY_MS 500

static const char *const types[] = { "DPUVolumeReconciled", "Scheduled", "Bound", NULL };

static int64_t pending(struct dpf *d, struct object_version *v, struct json *o, const char *message)
{
	conditions_set(o, "DPUVolumeReconciled", "False", REASON_PENDING, message);
	if (options_old_dpf(d->options))
		conditions_set(o, "Scheduled", "False", REASON_PENDING,
		               "volume is not scheduled yet");
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static size_t count_volumes(struct dpf *d, const char *ns, const char *vendor)
{
	size_t n = 0;

	for (const struct backing *b = d->backings; b; b = b->next)
		n += str_eq(b->ns, ns) && str_eq(b->vendor, vendor);
	return n;
}

/* NumberVolumes: the vendor with the fewest volumes; of several, the first by name. Random: any. */
static const char *choose_vendor(struct dpf *d, const char *ns, const struct json *policy)
{
	const struct json *vendors = json_at(policy, "spec.dpuStorageVendors");
	bool any = str_eq(json_str(policy, "spec.selectionAlgorithm"), "Random");
	size_t n = json_count(vendors), fewest = SIZE_MAX, i = 0;
	size_t pick = n ? (size_t)random() % n : 0;
	const char *best = NULL;

	json_foreach (item, vendors) {
		const char *name = json_text(item);
		size_t volumes = any ? 0 : count_volumes(d, ns, name);

		if (any ? i++ == pick
		        : volumes < fewest || (volumes == fewest && strcmp(name, best) < 0)) {
			best = name;
			fewest = volumes;
		}
	}
	return best;
}

/* The parameters of the policy, overridden by those of the volume. */
static void merge_parameters(struct dpf *d, struct json *state, const struct json *policy,
                             const struct json *o)
{
	struct json *merged = json_object();

	json_foreach (item, json_at(policy, "spec.parameters"))
		json_set(merged, json_name(item), json_copy(item));
	json_foreach (item, json_at(o, "spec.parameters"))
		json_set(merged, json_name(item), json_copy(item));
	if (json_count(merged) || options_old_dpf(d->options))
		json_set(state, "parameters", merged);
	else
		json_free(merged);
}

static int64_t schedule(struct dpf *d, struct object_version *v, struct json *o)
{
	const char *name = json_str(o, "spec.dpuStoragePolicyName");
	struct object_version *pv AUTO(version_unref) =
		store_get(d->sim->store, RES(POLICIES), v->ns, name ? name : "");
	struct json *policy AUTO(json_free) = pv ? version_parse(pv) : NULL;
	struct object_version *vv AUTO(version_unref) = NULL;
	struct json *vendor AUTO(json_free) = NULL;
	struct json *state;
	const char *chosen;
	char *driver AUTO(free) = NULL;

	if (!policy || !conditions_true(policy, "Ready")) {
		char *message AUTO(free) =
			xasprintf("DPUStoragePolicy %s/%s %s", v->ns, name ? name : "",
		                  policy ? "is not ready" : "not found");

		return pending(d, v, o, message);
	}
	chosen = choose_vendor(d, v->ns, policy);
	vv = chosen ? store_get(d->sim->store, RES(VENDORS), v->ns, chosen) : NULL;
	if (!vv)
		return pending(d, v, o, "no DPUStorageVendor of the policy is there");
	vendor = version_parse(vv);
	state = json_sub(json_sub(o, "status"), "state");
	json_set_str(json_sub(state, "dpuCluster"), "name", DPU_CLUSTER);
	json_set_str(json_sub(state, "dpuCluster"), "namespace", v->ns);
	json_set_str(state, "selectedDPUStorageVendorName", chosen);
	json_set_str(state, "storageVendorPluginName", json_str(vendor, "spec.pluginName"));
	json_set_str(state, "storageClassName", json_str(vendor, "spec.storageClassName"));
	driver = xasprintf("%s.csi.example.com", json_str(vendor, "spec.pluginName"));
	json_set_str(state, "csiDriverName", driver);
	merge_parameters(d, state, policy, o);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

/* The requested size, rounded up to --capacity-unit. */
static uint64_t asked_for(struct dpf *d, const struct json *o)
{
	const struct json *wanted = json_at(o, "spec.resources.requests.storage");
	uint64_t unit = d->options->capacity_unit, bytes = 0;
	struct err err = ERR_INIT;
	int64_t number = 0;

	if (json_text(wanted) && quantity_parse(json_text(wanted), &bytes, &err))
		bytes = 0; /* the validation accepts any size; this one is too large */
	else if (!json_text(wanted) && json_get_i64(wanted, "", &number, &err) == 0)
		bytes = (uint64_t)number;
	return (bytes + unit - 1) / unit * unit;
}

/* The same, or a fault's size. */
static uint64_t capacity_of(struct dpf *d, const struct object_version *v, const struct json *o)
{
	uint64_t bytes = asked_for(d, o);
	struct dpf_fault fault;
	struct err err = ERR_INIT;

	if (faults_dpf(d->sim->faults, FAULT_VOLUME_CAPACITY, v->name, NULL, &fault) &&
	    quantity_parse(fault.value, &bytes, &err))
		log_msg(LOG_WARNING, "fault volume-capacity: %s", err.msg);
	return bytes;
}

static void set_info(struct json *o, const struct backing *b)
{
	struct json *state = json_sub(json_sub(o, "status"), "state");
	struct json *info = json_sub(state, "volumeInfo");
	struct json *claim = json_sub(state, "persistentVolumeClaimRef");
	char bytes[24];
	char *pvc AUTO(free) = NULL;
	char *pv AUTO(free) = NULL;

	snprintf(bytes, sizeof(bytes), "%" PRIu64, (uint64_t)b->bytes);
	pvc = xasprintf("%s-pvc", b->volume);
	pv = xasprintf("pvc-%s", b->uuid);
	json_set_str(claim, "name", pvc);
	json_set_str(claim, "namespace", b->ns);
	json_set_str(info, "volumeName", pv);
	json_set_str(json_sub(info, "capacity"), "storage", bytes);
	if (json_at(o, "spec.accessModes"))
		json_set(info, "accessModes", json_copy(json_at(o, "spec.accessModes")));
	json_set_str(info, "volumeMode", json_str(o, "spec.volumeMode"));
	json_set_str(json_sub(info, "volumeAttributes"),
	             "storage.kubernetes.io/csiProvisionerIdentity", "1-snap-sim");
}

/* Records the Events of a claim that the vendor refuses, in the external provisioner's words. */
static void tell_of_failure(struct dpf *d, const struct object_version *v, const struct json *o,
                            const char *why)
{
	char *begins AUTO(free) =
		xasprintf("External provisioner is provisioning volume for claim \"%s/%s-pvc\"",
	                  v->ns, v->name);
	char *failed AUTO(free) =
		xasprintf("failed to provision volume with StorageClass \"%s\": %s",
	                  object_text(o, "status.state.storageClassName"), why);

	event_of_claim(d, v, "Normal", "Provisioning", begins);
	event_of_claim(d, v, "Warning", "ProvisioningFailed", failed);
}

/* True: a fault prevents the volume from being bound. */
static bool held_by_fault(struct dpf *d, struct object_version *v, struct json *o)
{
	bool old = options_old_dpf(d->options);
	struct dpf_fault fault;

	if (faults_dpf(d->sim->faults, FAULT_VOLUME_FAILURE, v->name, NULL, &fault)) {
		if (str_eq(fault.value, REASON_FAILURE))
			conditions_set(o, "Bound", "False", REASON_FAILURE,
			               *fault.text ? fault.text : "vendor full");
		else if (!old)
			tell_of_failure(
				d, v, o,
				*fault.text
					? fault.text
					: "rpc error: code = ResourceExhausted desc = no space left on lvstore");
	} else if (faults_dpf(d->sim->faults, FAULT_VOLUME_NEVER_BOUND, v->name, NULL, &fault)) {
		if (old)
			conditions_set(o, "Bound", "False", REASON_PENDING,
			               *fault.text ? fault.text : "volume is not bound yet");
	} else {
		return false;
	}
	step_finish(d, v, o, types);
	return true;
}

/* A larger size was requested after it was bound. 0: it has grown. */
static int64_t grow(struct dpf *d, struct object_version *v, struct json *o, uint64_t bytes)
{
	struct err err = ERR_INIT;
	char stage[40];
	int64_t wait;

	if (held_by_fault(d, v, o))
		return RECONCILE_IDLE;
	snprintf(stage, sizeof(stage), "grow %" PRIu64, bytes);
	wait = step_delay_left(d, v->uid, stage, d->options->bind_delay_ms);
	if (wait)
		return wait;
	if (backing_resize(d, v->name, bytes, &err)) {
		log_msg(LOG_WARNING, "DPUVolume %s/%s: %s", v->ns, v->name, err.msg);
		return RETRY_MS;
	}
	sim_log("DPUVolume %s/%s has grown to %" PRIu64 " bytes", v->ns, v->name, bytes);
	return 0;
}

static int64_t bind(struct dpf *d, struct object_version *v, struct json *o)
{
	struct backing *b = backing_find(d, v->ns, v->name);
	int64_t wait;

	if (b && d->options->growing_volumes && asked_for(d, o) > b->bytes) {
		wait = grow(d, v, o, asked_for(d, o));
		if (wait)
			return wait;
	}

	if (!b) {
		if (held_by_fault(d, v, o))
			return RECONCILE_IDLE;
		wait = step_delay_left(d, v->uid, "bind", d->options->bind_delay_ms);
		if (wait)
			return wait;
		b = backing_new(d, o, capacity_of(d, v, o));
		sim_log("DPUVolume %s/%s is bound: %" PRIu64 " bytes at %s", v->ns, v->name,
		        (uint64_t)b->bytes, b->vendor);
	}
	set_info(o, b);
	json_set_str(json_sub(o, "status"), "phase", "Bound");
	conditions_set(o, "Bound", "True", REASON_SUCCESS, "");
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static int64_t hold(struct dpf *d, struct object_version *v, struct json *o, const char *message)
{
	conditions_set(o, "DPUVolumeReconciled", "False", REASON_DELETION, message);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

/* Names the next object in the DPU cluster: the Volume, the claim, its PersistentVolume. */
static int64_t hold_for(struct dpf *d, struct object_version *v, struct json *o, unsigned removal,
                        const struct backing *b)
{
	char *text AUTO(free) = NULL;

	if (options_old_dpf(d->options))
		text = xstrdup("Volume is deleting");
	else if (removal == 3)
		text = xasprintf("DPUCluster %s/" DPU_CLUSTER
		                 ": PersistentVolume /pvc-%s is not removed yet",
		                 v->ns, b->uuid);
	else
		text = xasprintf("DPUCluster %s/" DPU_CLUSTER ": %s %s/%s%s is %s", v->ns,
		                 removal ? "PersistentVolumeClaim" : "Volume", v->ns, v->name,
		                 removal ? "-pvc" : "",
		                 removal == 2 ? "not removed yet" : "marked for removal");
	return hold(d, v, o, text);
}

static int64_t delete (struct dpf *d, struct object_version *v, struct json *o)
{
	struct backing *b = backing_find(d, v->ns, v->name);
	struct err err = ERR_INIT;
	int64_t wait;

	if (references_has_volume(d, v->ns, v->name))
		return hold(d, v, o, "volume is attached");
	if (cluster_any_unreachable(d)) {
		step_finish(d, v, o, types);
		return CLUSTER_RETRY_MS;
	}
	if (faults_dpf(d->sim->faults, FAULT_VOLUME_STUCK, v->name, NULL, NULL))
		return hold_for(d, v, o, 2, b);
	wait = step_delay_left(d, v->uid, "delete", d->options->delete_delay_ms);
	if (b && b->removal <= 3) {
		hold_for(d, v, o, b->removal++, b);
		return 0;
	}
	if (wait)
		return wait;
	if (b && backing_remove(d, b, &err)) {
		hold(d, v, o, err.msg);
		return RETRY_MS;
	}
	object_drop_finalizer(o, FINALIZER);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static int64_t provision(struct dpf *d, struct object_version *v, struct json *o)
{
	bool old = options_old_dpf(d->options), begins = !conditions_true(o, "Scheduled");
	struct dpf_fault fault;

	conditions_set(o, "Scheduled", "True", REASON_SUCCESS, "");
	if (cluster_any_unreachable(d)) {
		step_finish(d, v, o, types);
		return CLUSTER_RETRY_MS;
	}
	if (faults_dpf(d->sim->faults, FAULT_VOLUME_ERROR, v->name, NULL, &fault)) {
		conditions_set(o, "DPUVolumeReconciled", "False", REASON_ERROR,
		               *fault.text ? fault.text
		                           : "persistentvolumeclaims is forbidden: exceeded quota");
		step_finish(d, v, o, types);
		return RECONCILE_ERROR;
	}
	conditions_set(o, "DPUVolumeReconciled", "True", REASON_SUCCESS, "");
	if (!begins)
		return bind(d, v, o);
	if (old)
		conditions_set(o, "Bound", "False", REASON_PENDING, "volume is not bound yet");
	step_finish(d, v, o, types);
	return 0;
}

int64_t dpf_volume(struct dpf *d, struct object_version *v, struct json *o)
{
	struct json *status = json_sub(o, "status");

	conditions_ensure(o, types);
	json_sub(status, "state");
	if (!json_str(status, "phase"))
		json_set_str(status, "phase", "Pending");
	if (object_is_deleting(o))
		return object_has_finalizer(o, FINALIZER) ? delete (d, v, o) : RECONCILE_IDLE;
	if (step_claim(d, v, o, FINALIZER, types))
		return RECONCILE_IDLE;
	if (!json_str(o, "status.state.selectedDPUStorageVendorName"))
		return schedule(d, v, o);
	return provision(d, v, o);
}

void dpf_volume_gone(struct dpf *d, const char *ns, const char *name)
{
	struct backing *b = backing_find(d, ns, name);
	struct err err = ERR_INIT;

	/* b still exists only if a client has removed the finalizer by hand. */
	if (b && backing_remove(d, b, &err))
		log_msg(LOG_WARNING, "storage of DPUVolume %s/%s: %s", ns, name, err.msg);
}
