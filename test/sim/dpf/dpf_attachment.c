/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPUVolumeAttachment, one step per call:
 *
 *   add the finalizer
 *   set the conditions to Unknown
 *   find DPUVolume, DPUNode and DPU: Reconciled, ControllerAttached
 *   wait for the attach delay; take a function, show the namespace, fill in status.dpu: DPUAttached
 *
 * dpuAttached stays true once it was. status.dpu is what the function is now, changed as faults
 * say. Deletion hides the namespace, frees the function and removes the finalizer.
 */
#include "test/sim/dpf/dpf_attachment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "test/sim/dpf/conditions.h"
#include "test/sim/dpf/placement.h"
#include "test/sim/dpf/step.h"
#include "test/sim/kinds/object.h"

#define FINALIZER "storage.dpu.nvidia.com/dpuvolumeattachment"
#define PREFERRED "storage.nvidia.com/preferred-dpu"
#define RETRY_MS 200

static const char *const types[] = { "DPUVolumeAttachmentReconciled", "ControllerAttached",
	                             "DPUAttached", NULL };

/*
 * A node needs one DPU, or several of which exactly one is preferred. NULL: it has that; else a
 * malloc'ed text.
 */
static char *why_no_dpu(struct dpf *d, const char *ns, const char *node)
{
	struct store_page page AUTO(store_page_clear) = { 0 };
	struct store_query query = { .res = RES(DPUS), .ns = ns };
	size_t n = 0, preferred = 0;

	store_list(d->sim->store, &query, &page);
	for (size_t i = 0; i < page.n; i++) {
		struct json *dpu AUTO(json_free) = version_parse(page.v[i]);

		if (!str_eq(json_str(dpu, "spec.dpuNodeName"), node))
			continue;
		n++;
		preferred += object_annotation(dpu, PREFERRED) != NULL;
	}
	if (n == 0)
		return xasprintf("no DPU found for DPUNode %s/%s", ns, node);
	if (n > 1 && preferred != 1)
		return xasprintf(
			"DPUNode %s/%s has %zu DPUs and %zu of them have the annotation " PREFERRED
			"; exactly one must",
			ns, node, n, preferred);
	return NULL;
}

/* NULL: the attachment can go on; else a malloc'ed text. */
static char *why_not_reconciled(struct dpf *d, const struct object_version *v, const struct json *o)
{
	const char *volume = object_text(o, "spec.dpuVolumeName"),
		   *node = object_text(o, "spec.dpuNodeName");
	struct object_version *vv AUTO(version_unref) =
		store_get(d->sim->store, RES(VOLUMES), v->ns, volume);
	struct json *vo AUTO(json_free) = vv ? version_parse(vv) : NULL;
	struct object_version *nv AUTO(version_unref) =
		store_get(d->sim->store, RES(DPUNODES), v->ns, node);

	if (!vo)
		return xasprintf("DPUVolume %s/%s not found", v->ns, volume);
	if (!conditions_true(vo, "Bound"))
		return xasprintf("DPUVolume %s/%s is not ready", v->ns, volume);
	if (!nv)
		return xasprintf("DPUNode %s/%s not found", v->ns, node);
	return why_no_dpu(d, v->ns, node);
}

static void attach_controller(struct dpf *d, struct json *o)
{
	struct json *status = json_sub(o, "status");

	json_set_bool(status, "controllerAttached", true);
	for (size_t i = 0; i < d->options->attachment_metadata.n; i++) {
		const char *pair = d->options->attachment_metadata.v[i];
		const char *equals = strchr(pair, '=');
		char *key AUTO(free) = xstrndup(pair, (size_t)(equals - pair));

		json_set_str(json_sub(status, "attachmentMetadata"), key, equals + 1);
	}
	conditions_set(o, "ControllerAttached", "True", REASON_SUCCESS, "");
	json_remove(status, "message");
}

static int64_t not_attached(struct dpf *d, struct object_version *v, struct json *o,
                            const char *reason, const char *why)
{
	char *message AUTO(free) = xasprintf("DPUAttach not ready: %s", why);

	conditions_set(o, "DPUAttached", "False", reason, message);
	json_set_str(json_sub(o, "status"), "message", message);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static bool held_by_fault(struct dpf *d, struct object_version *v, struct json *o)
{
	const char *volume = object_text(o, "spec.dpuVolumeName");
	struct dpf_fault fault;

	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_FAILURE, v->name, volume, &fault))
		not_attached(d, v, o, REASON_FAILURE,
		             *fault.text ? fault.text : "the controller of the function failed");
	else if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_NEVER_READY, v->name, volume, &fault))
		not_attached(d, v, o, REASON_PENDING,
		             *fault.text ? fault.text : "waiting for the device on the DPU");
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

/* The earlier of two times to look again, in milliseconds. */
static int64_t sooner(int64_t a, int64_t b)
{
	if (a == RECONCILE_IDLE || b == RECONCILE_IDLE)
		return a == RECONCILE_IDLE ? b : a;
	return a < b ? a : b;
}

/* Another address for a while. Returns when to look again. */
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
 * Changes the status as faults say: parts are missing, late or wrong. Returns when to look again.
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

/* Changes the condition Ready of what is attached, as faults say. Returns when to look again. */
static int64_t spoil_ready(struct dpf *d, const struct object_version *v, struct json *o,
                           const struct placement *p)
{
	int64_t left = RECONCILE_IDLE;
	struct dpf_fault fault;

	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_NO_READY, v->name, p->volume, NULL))
		conditions_remove(o, "Ready");
	if (!faults_dpf(d->sim->faults, FAULT_ATTACHMENT_UNREADY, v->name, p->volume, &fault))
		return RECONCILE_IDLE;
	if (fault.ms)
		left = step_delay_left(d, v->uid, "ready", fault.ms);
	if (left)
		conditions_set(o, "Ready", "False", REASON_PENDING,
		               *fault.text ? fault.text : "the DPU is not ready");
	return left ? left : RECONCILE_IDLE;
}

static int64_t publish(struct dpf *d, struct object_version *v, struct json *o, struct placement *p)
{
	struct json *status = json_sub(o, "status");
	struct json *dpu = json_object();
	char pci[16], vuid[32], device[48];
	int64_t again;

	placement_pci(d, p, pci);
	placement_vuid(p, vuid);
	placement_device_name(p, device);
	json_set_str(dpu, "pciAddress", pci);
	json_set_str(dpu, "funcVUID", vuid);
	json_set_str(dpu, "deviceName", device);
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

/* For how many milliseconds more a fault keeps the device away, although the status names it. */
static int64_t device_delay(struct dpf *d, const struct object_version *v,
                            const struct placement *p)
{
	struct dpf_fault fault;

	if (p->device || !faults_dpf(d->sim->faults, FAULT_DEVICE_LATE, v->name, p->volume, &fault))
		return 0;
	return step_delay_left(d, v->uid, "device", fault.ms);
}

static int64_t attach(struct dpf *d, struct object_version *v, struct json *o)
{
	struct placement *p = placement_find(d, v->ns, v->name);
	struct backing *b = backing_find(d, v->ns, object_text(o, "spec.dpuVolumeName"));
	struct err err = ERR_INIT;
	int64_t wait, again;

	if (!p) {
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
	wait = device_delay(d, v, p);
	if (!wait && placement_show(d, p, &err)) {
		placement_give_back(d, p);
		not_attached(d, v, o, REASON_PENDING, err.msg);
		return RETRY_MS;
	}
	again = publish(d, v, o, p);
	return sooner(again, wait ? wait : RECONCILE_IDLE);
}

static int64_t hold(struct dpf *d, struct object_version *v, struct json *o, const char *message)
{
	conditions_set(o, "DPUVolumeAttachmentReconciled", "False", REASON_DELETION, message);
	step_finish(d, v, o, types);
	return RECONCILE_IDLE;
}

static int64_t detach(struct dpf *d, struct object_version *v, struct json *o)
{
	struct placement *p = placement_find(d, v->ns, v->name);
	struct err err = ERR_INIT;
	int64_t wait;

	if (faults_dpf(d->sim->faults, FAULT_ATTACHMENT_STUCK, v->name,
	               object_text(o, "spec.dpuVolumeName"), NULL))
		return hold(d, v, o, "waiting for the DPU to detach the volume");
	wait = step_delay_left(d, v->uid, "detach", d->options->detach_delay_ms);
	if (wait) {
		hold(d, v, o, "waiting for the DPU to detach the volume");
		return wait;
	}
	if (p && placement_hide(d, p, &err)) {
		hold(d, v, o, err.msg);
		return RETRY_MS;
	}
	if (p)
		placement_release(d, p);
	object_drop_finalizer(o, FINALIZER);
	step_put(d, v, o);
	return RECONCILE_IDLE;
}

int64_t dpf_attachment(struct dpf *d, struct object_version *v, struct json *o)
{
	char *why AUTO(free) = NULL;
	struct json *status;

	if (object_is_deleting(o))
		return object_has_finalizer(o, FINALIZER) ? detach(d, v, o) : RECONCILE_IDLE;
	if (step_claim(d, v, o, FINALIZER))
		return RECONCILE_IDLE;
	status = json_sub(o, "status");
	if (conditions_init(o, types)) {
		json_set_bool(status, "controllerAttached", false);
		json_set_bool(status, "dpuAttached", false);
		step_finish(d, v, o, types);
		return RECONCILE_IDLE;
	}
	why = why_not_reconciled(d, v, o);
	if (why) {
		conditions_set(o, "DPUVolumeAttachmentReconciled", "False", REASON_PENDING, why);
		json_set_str(status, "message", why);
		step_finish(d, v, o, types);
		return RECONCILE_IDLE;
	}
	if (!conditions_true(o, "ControllerAttached") ||
	    !conditions_true(o, "DPUVolumeAttachmentReconciled")) {
		conditions_set(o, "DPUVolumeAttachmentReconciled", "True", REASON_SUCCESS, "");
		attach_controller(d, o);
		step_finish(d, v, o, types);
		return RECONCILE_IDLE;
	}
	return attach(d, v, o);
}

void dpf_attachment_gone(struct dpf *d, const char *ns, const char *name)
{
	struct placement *p = placement_find(d, ns, name);
	struct err err = ERR_INIT;

	/* p is only there when a client has removed the finalizer by hand. */
	if (!p)
		return;
	if (placement_hide(d, p, &err))
		log_msg(LOG_WARNING, "DPUVolumeAttachment %s/%s: %s", ns, name, err.msg);
	placement_release(d, p);
}
