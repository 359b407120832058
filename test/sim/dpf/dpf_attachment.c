/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUVolumeAttachment, one step per call. Watchers see each step, in up to three writes
 * (step_finish()):
 *
 *   add the finalizer, set the conditions to Unknown
 *   find DPUVolume, DPUNode and DPU: Reconciled; ask the vendor: ControllerAttached is False
 *   ControllerAttached; ask the DPU: DPUAttached is False
 *   wait for the attach delay; take a function, show the namespace, fill in status.dpu: DPUAttached
 *
 * Initially neither the vendor nor the DPU gives a reason for not being ready. dpuAttached, once
 * true, stays true. status.dpu shows the current function, changed as faults require. Deletion
 * needs the DPU, hides the namespace, frees the function and removes the finalizer.
 */
#include "test/sim/dpf/dpf_attachment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/dpf_cluster.h"
#include "test/sim/dpf/placement.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"

#define FINALIZER "storage.dpu.nvidia.com/dpuvolumeattachment"
#define RETRY_MS 200

static const char *const types[] = { "DPUVolumeAttachmentReconciled", "ControllerAttached",
	                             "DPUAttached", NULL };

static int64_t pending(struct dpf *d, struct object_version *v, struct json *o, const char *reason,
                       const char *message)
{
	conditions_set(o, "DPUVolumeAttachmentReconciled", "False", reason, message);
	step_finish(d, v, o, types);
	return str_eq(reason, REASON_ERROR) ? RECONCILE_ERROR : RECONCILE_IDLE;
}

/*
 * The DPU of the attachment. NULL: it has to wait; *reason and *why (malloc'ed) say why. A new
 * root.
 */
static struct json *find_dpu(struct dpf *d, const struct object_version *v, const struct json *o,
                             const char **reason, char **why)
{
	const char *volume = object_text(o, "spec.dpuVolumeName"),
		   *node = object_text(o, "spec.dpuNodeName");
	struct object_version *vv AUTO(version_unref) =
		store_get(d->sim->store, RES(VOLUMES), v->ns, volume);
	struct json *vo AUTO(json_free) = vv ? version_parse(vv) : NULL;
	struct object_version *nv AUTO(version_unref) =
		store_get(d->sim->store, RES(DPUNODES), v->ns, node);
	struct json *dpu AUTO(json_free) = NULL;

	*reason = REASON_PENDING;
	if (!vo)
		*why = xasprintf("DPUVolume %s not found", volume);
	else if (!conditions_true(vo, "Bound"))
		*why = xasprintf("DPUVolume %s/%s is not ready", v->ns, volume);
	else if (!nv)
		*why = xasprintf("DPUNode %s/%s not found", v->ns, node);
	if (*why)
		return NULL;
	dpu = cluster_find_dpu(d, v->ns, node, why);
	if (!dpu) {
		*reason = REASON_ERROR;
	} else if (!conditions_true(dpu, "Ready")) {
		*why = xasprintf("DPU %s is not ready", object_name(dpu));
		return NULL;
	}
	return TAKE(dpu);
}

static void set_message(struct json *o, const char *message)
{
	if (*message)
		json_set_str(json_sub(o, "status"), "message", message);
	else
		json_remove(json_sub(o, "status"), "message");
}

/* False: the request was only now sent to the vendor, which has not answered yet. */
static bool attach_controller(struct dpf *d, struct json *o)
{
	struct json *status = json_sub(o, "status");
	bool old = options_old_dpf(d->options);

	if (str_eq(conditions_status(o, "ControllerAttached"), "Unknown")) {
		const char *message = old ? "volume is not attached by the controller yet"
		                          : "ControllerAttach not ready: ";

		if (old) {
			json_set_bool(status, "controllerAttached", false);
			json_set_bool(status, "dpuAttached", false);
		} else {
			set_message(o, message);
		}
		conditions_set(o, "ControllerAttached", "False", REASON_PENDING, message);
		return false;
	}
	json_set_bool(status, "controllerAttached", true);
	for (size_t i = 0; i < d->options->attachment_metadata.n; i++) {
		const char *pair = d->options->attachment_metadata.v[i];
		const char *equals = strchr(pair, '=');
		char *key AUTO(free) = xstrndup(pair, (size_t)(equals - pair));

		json_set_str(json_sub(status, "attachmentMetadata"), key, equals + 1);
	}
	conditions_set(o, "ControllerAttached", "True", REASON_SUCCESS, "");
	return true;
}

static int64_t not_attached(struct dpf *d, struct object_version *v, struct json *o,
                            const char *reason, const char *why)
{
	bool old = options_old_dpf(d->options);
	char *message AUTO(free) =
		old ? xasprintf("volume is not attached to dpu%s%s", *why ? ", reason: " : "", why)
		    : xasprintf("DPUAttach not ready: %s", why);

	conditions_set(o, "DPUAttached", "False", reason, message);
	set_message(o, old ? why : message);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static bool held_by_fault(struct dpf *d, struct object_version *v, struct json *o)
{
	const char *volume = object_text(o, "spec.dpuVolumeName");
	struct dpf_fault fault;

	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_FAILURE, v->name, volume, &fault))
		not_attached(d, v, o,
		             str_eq(fault.value, REASON_FAILURE) ? REASON_FAILURE : REASON_PENDING,
		             *fault.text ? fault.text : "the controller of the function failed");
	else if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_NEVER_READY, v->name, volume, &fault))
		not_attached(d, v, o, REASON_PENDING, fault.text);
	else
		return false;
	return true;
}

/* Removes the member at `path` below `from`. */
static void remove_path(struct json *from, const char *path)
{
	const char *dot = strrchr(path, '.');
	char *parent AUTO(free) = dot ? xstrndup(path, (size_t)(dot - path)) : NULL;
	struct json *object = parent ? json_at_mut(from, parent) : from;

	if (json_is_object(object))
		json_remove(object, dot ? dot + 1 : path);
}

static void set_attributes(struct dpf *d, const struct object_version *v, struct json *dpu,
                           const struct placement *p)
{
	bool block = p->nsid;
	struct json *attrs = json_sub(dpu, block ? "nvmeAttrs" : "virtioFSAttrs");
	uint32_t nsid = p->nsid;
	const char *uuid = p->uuid;

	if (!block) {
		bool wrong = faults_dpf(d->sim->faults, FAULT_WRONG_TAG, v->name, p->volume, NULL);

		json_set_str(attrs, "filesystemTag", wrong ? "another-devices-tag" : p->tag);
		return;
	}
	if (faults_dpf(d->sim->faults, FAULT_WRONG_NSID, v->name, p->volume, NULL))
		nsid += 1000;
	if (faults_dpf(d->sim->faults, FAULT_WRONG_UUID, v->name, p->volume, NULL))
		uuid = "00000000-dead-4bad-8bad-000000000000";
	json_set_int(attrs, "namespaceID", nsid);
	json_set_str(attrs, "namespaceUUID", uuid);
}

/* The earlier of two times of the next check, in milliseconds. */
static int64_t sooner(int64_t a, int64_t b)
{
	if (a == RECONCILE_IDLE || b == RECONCILE_IDLE)
		return a == RECONCILE_IDLE ? b : a;
	return a < b ? a : b;
}

/* Shows another address for some time. Returns the time of the next check. */
static int64_t spoil_address(struct dpf *d, const struct object_version *v, struct json *status,
                             const struct placement *p, enum fault_kind kind)
{
	const char *zero = d->options->short_pci ? "00:00.0" : "0000:00:00.0";
	struct dpf_fault fault;
	int64_t left;

	if (!faults_dpf(d->sim->faults, kind, v->name, p->volume, &fault))
		return RECONCILE_IDLE;
	left = step_delay_left(d, v->uid, fault_kind_names[kind], fault.ms ? fault.ms : 1000);
	if (!left)
		return RECONCILE_IDLE;
	if (json_at(status, "dpu"))
		json_set_str(json_sub(status, "dpu"), "pciAddress",
		             kind == FAULT_PCI_ZERO_FIRST ? zero : fault.value);
	return left;
}

/*
 * Changes the status as faults require: parts are missing, late or wrong. Returns the time of the
 * next check.
 */
static int64_t spoil(struct dpf *d, const struct object_version *v, struct json *status,
                     const struct placement *p)
{
	int64_t again = RECONCILE_IDLE;
	struct dpf_fault fault;

	for (size_t i = 0;
	     faults_dpf_nth(d->sim->faults, FAULT_LATE, i, v->name, p->volume, &fault); i++) {
		char *stage AUTO(free) = xasprintf("late %s", fault.value);
		int64_t left = step_delay_left(d, v->uid, stage, fault.ms);

		if (!left)
			continue;
		remove_path(status, fault.value);
		again = sooner(again, left);
	}
	for (size_t i = 0;
	     faults_dpf_nth(d->sim->faults, FAULT_MISSING, i, v->name, p->volume, &fault); i++)
		remove_path(status, fault.value);
	again = sooner(again, spoil_address(d, v, status, p, FAULT_PCI_OTHER_FIRST));
	again = sooner(again, spoil_address(d, v, status, p, FAULT_PCI_ZERO_FIRST));
	return again;
}

/*
 * Changes the conditions of an attached attachment, as faults require. Returns the time of the next
 * check.
 */
static int64_t spoil_ready(struct dpf *d, const struct object_version *v, struct json *o,
                           const struct placement *p)
{
	int64_t left = RECONCILE_IDLE;
	struct dpf_fault fault;

	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_NO_READY, v->name, p->volume, NULL)) {
		conditions_remove(o, "Ready");
		return RECONCILE_IDLE;
	}
	if (!faults_dpf(d->sim->faults, FAULT_ATTACHMENT_UNREADY, v->name, p->volume, &fault))
		return RECONCILE_IDLE;
	if (fault.ms)
		left = step_delay_left(d, v->uid, "ready", fault.ms);
	if (!left)
		return RECONCILE_IDLE;
	conditions_set(o, "DPUVolumeAttachmentReconciled", "False", REASON_PENDING,
	               *fault.text ? fault.text : "the DPU is not ready");
	conditions_summarize(o, types);
	return left;
}

static int64_t publish(struct dpf *d, struct object_version *v, struct json *o, struct placement *p)
{
	struct json *status = json_sub(o, "status");
	struct json *dpu = json_object();
	char pci[16], vuid[32];
	int64_t again;

	placement_pci(d, p, pci);
	placement_vuid(p, vuid);
	json_set_str(dpu, "pciAddress", pci);
	json_set_str(dpu, "funcVUID", vuid);
	json_set_str(dpu, "deviceName", p->name);
	set_attributes(d, v, dpu, p);
	json_set(status, "dpu", dpu);
	again = spoil(d, v, status, p);
	json_set_bool(status, "dpuAttached", true);
	json_remove(status, "message");
	conditions_set(o, "DPUAttached", "True", REASON_SUCCESS, "");
	conditions_summarize(o, types);
	again = sooner(again, spoil_ready(d, v, o, p));
	step_store(d, v, o);
	return again;
}

/* For how many more milliseconds a fault hides the device, although the status names it. */
static int64_t device_delay(struct dpf *d, const struct object_version *v,
                            const struct placement *p)
{
	struct dpf_fault fault;

	if (p->device || !faults_dpf(d->sim->faults, FAULT_DEVICE_LATE, v->name, p->volume, &fault))
		return 0;
	return step_delay_left(d, v->uid, "device", fault.ms);
}

/* The DPU has lost the device, and attaches it to another function, if one is free, later. */
static int64_t move(struct dpf *d, struct object_version *v, struct json *o, struct placement *p)
{
	struct err err = ERR_INIT;

	if (!p->moves && placement_hide(d, p, &err)) {
		log_msg(LOG_WARNING, "DPUVolumeAttachment %s/%s: %s", v->ns, v->name, err.msg);
		return RETRY_MS;
	}
	if (!p->moves)
		placement_move(d, p);
	return not_attached(d, v, o, REASON_PENDING, "");
}

static int64_t attach(struct dpf *d, struct object_version *v, struct json *o)
{
	struct placement *p = placement_find(d, v->ns, v->name);
	struct backing *b = backing_find(d, v->ns, object_text(o, "spec.dpuVolumeName"));
	struct err err = ERR_INIT;
	int64_t wait, again;

	if (!p) {
		if (str_eq(conditions_status(o, "DPUAttached"), "Unknown"))
			return not_attached(d, v, o, REASON_PENDING, "");
		if (held_by_fault(d, v, o))
			return RECONCILE_IDLE;
		wait = step_delay_left(d, v->uid, "attach", d->options->attach_delay_ms);
		if (wait)
			return wait;
		if (!b)
			return not_attached(d, v, o, REASON_PENDING, "the volume has no storage");
		if (placement_take(d, o, b, &p, &err))
			return not_attached(d, v, o, REASON_PENDING, err.msg);
	}
	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_MOVES, v->name, p->volume, NULL))
		return move(d, v, o, p);
	p->moves = false;
	wait = device_delay(d, v, p);
	if (!wait && placement_show(d, p, &err)) {
		placement_give_back(d, p);
		not_attached(d, v, o, REASON_PENDING, err.msg);
		return RETRY_MS;
	}
	again = publish(d, v, o, p);
	return sooner(again, wait ? wait : RECONCILE_IDLE);
}

static int64_t hold(struct dpf *d, struct object_version *v, struct json *o, const char *what)
{
	char *message AUTO(free) =
		options_old_dpf(d->options)
			? xstrdup("VolumeAttachment is deleting")
			: xasprintf("DPUCluster %s/" DPU_CLUSTER ": VolumeAttachment %s/%s %s",
	                            v->ns, v->ns, v->name, what);

	return pending(d, v, o, REASON_DELETION, message);
}

static int64_t detach(struct dpf *d, struct object_version *v, struct json *o)
{
	const char *node = object_text(o, "spec.dpuNodeName");
	struct placement *p = placement_find(d, v->ns, v->name);
	struct object_version *nv AUTO(version_unref) =
		store_get(d->sim->store, RES(DPUNODES), v->ns, node);
	struct json *dpu AUTO(json_free) = NULL;
	char *why AUTO(free) = NULL;
	struct err err = ERR_INIT;
	int64_t wait;

	dpu = nv ? cluster_find_dpu(d, v->ns, node, &why) : NULL;
	if (why)
		return pending(d, v, o, REASON_ERROR, why);
	if (cluster_any_unreachable(d)) {
		step_finish(d, v, o, types);
		return CLUSTER_RETRY_MS;
	}
	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_STUCK, v->name,
	               object_text(o, "spec.dpuVolumeName"), NULL))
		return hold(d, v, o, "is not removed yet");
	wait = step_delay_left(d, v->uid, "detach", d->options->detach_delay_ms);
	if (p && p->removal <= 1) {
		hold(d, v, o, p->removal++ ? "is not removed yet" : "is marked for removal");
		return 0;
	}
	if (wait)
		return wait;
	if (p && placement_hide(d, p, &err)) {
		log_msg(LOG_WARNING, "DPUVolumeAttachment %s/%s: %s", v->ns, v->name, err.msg);
		return RETRY_MS;
	}
	if (p)
		placement_release(d, p);
	object_drop_finalizer(o, FINALIZER);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

int64_t dpf_attachment(struct dpf *d, struct object_version *v, struct json *o)
{
	struct json *dpu AUTO(json_free) = NULL;
	const char *reason;
	char *why AUTO(free) = NULL;

	conditions_ensure(o, types);
	if (object_is_deleting(o))
		return object_has_finalizer(o, FINALIZER) ? detach(d, v, o) : RECONCILE_IDLE;
	if (step_claim(d, v, o, FINALIZER, types))
		return RECONCILE_IDLE;
	dpu = find_dpu(d, v, o, &reason, &why);
	if (!dpu)
		return pending(d, v, o, reason, why);
	if (cluster_is_unreachable(d, DPU_CLUSTER) ||
	    cluster_is_unreachable(d, object_text(dpu, "spec.cluster.name"))) {
		step_finish(d, v, o, types);
		return CLUSTER_RETRY_MS;
	}
	conditions_set(o, "DPUVolumeAttachmentReconciled", "True", REASON_SUCCESS, "");
	if (attach_controller(d, o))
		return attach(d, v, o);
	step_finish(d, v, o, types);
	return 0;
}

void dpf_attachment_gone(struct dpf *d, const char *ns, const char *name)
{
	struct placement *p = placement_find(d, ns, name);
	struct err err = ERR_INIT;

	/* p still exists only if a client has removed the finalizer by hand. */
	if (!p)
		return;
	if (placement_hide(d, p, &err))
		log_msg(LOG_WARNING, "DPUVolumeAttachment %s/%s: %s", ns, name, err.msg);
	placement_release(d, p);
}
