/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches volumes.
 *
 * All refusals come before the attachment is created: unknown volume, wrong access type, unknown
 * node, a single-node volume that is attached elsewhere, a full node, a node without a DPU. After
 * that the sidecar must assume that the volume may be attached, so no later error is final.
 * Detaching is in unpublish.c.
 */
#include "controller/publish.h"

#include <inttypes.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "dpf/core_volume.h"
#include "dpf/dpu_node.h"
#include "dpf/dpu_volume.h"
#include "controller/attachments.h"
#include "controller/await.h"
#include "controller/event_recorder.h"
#include "controller/readiness.h"
#include "controller/names.h"
#include "controller/nodes.h"
#include "dpf/attachment_context.h"
#include "controller/attachment_index.h"
#include "controller/publish_volume.h"

#define PUBLISH_GOAL "timeout occurred while waiting for volume attachment"
#define REMOVAL_GOAL "timeout occurred while removing an unwanted attachment"

/*
 * The time to wait for DPF's first change. DPF may take longer, but an attachment that has to be
 * withdrawn should not exist for longer.
 */
#define DPF_MS 200

/* ---- where the volume is already attached ---- */

/*
 * Kubernetes attaches a volume to a second node when it considers the volume detached from the
 * first one, so the older attachment may be orphaned. The Event says how to check that.
 */
static void warn_attached_elsewhere(struct controller *c, const struct attach_request *r,
                                    const struct err *err)
{
	char *text AUTO(free) = xasprintf(
		"%s, and node %s needs the volume. If no VolumeAttachment of the volume names "
		"the first node, the attachment is orphaned: run \"snap-csi-plugin inspect "
		"volume %s\" in the controller's pod before you delete the DPUVolumeAttachment",
		err->msg, r->node, r->volume);

	event_warn(c->events, &persistent_volume_kind, r->volume, "AttachedToOtherNode", text);
}

static int check_attached_elsewhere(struct controller *c, const struct attach_request *r,
                                    const struct attachment_scan *scan, struct err *err)
{
	if (access_mode_is_multi_node(r->cap.mode) || !scan->n_elsewhere)
		return 0;
	err_set(err, ERR_PRECONDITION,
	        "volume %s is attached to node %s (DPUVolumeAttachment %s); %s allows one node "
	        "at a time",
	        r->volume, scan->elsewhere, scan->elsewhere_name, access_mode_name(r->cap.mode));
	warn_attached_elsewhere(c, r, err);
	return -1;
}

/* *limit is the number of volumes that the node accepts. `fresh`: re-reads it. */
static bool node_is_full(struct controller *c, const struct attach_request *r,
                         const struct attachment_scan *scan, bool fresh, struct deadline d,
                         int64_t *limit)
{
	*limit = scan->on_node ? node_limit(c, r->node, fresh, d) : 0;
	return *limit && scan->on_node >= (uint64_t)*limit;
}

/*
 * Refuses a full node whose limit is known. CSINode's count covers VFs and hot-plugged functions
 * together; if only functions of one kind are exhausted, DPF's message reports it during the wait.
 */
static int check_full(struct controller *c, const struct attach_request *r,
                      struct attachment_scan *scan, struct deadline d, struct err *err)
{
	int64_t limit;

	if (scan->here)
		return 0;
	/* The cached values may be stale, so they are re-read before a refusal. */
	if (scan->by_index && !node_is_full(c, r, scan, false, d, &limit))
		return 0;
	if (attachments_count(c, d, scan, err))
		return err_wrap(err, "counting the attachments of node %s", r->node);
	if (!node_is_full(c, r, scan, true, d, &limit))
		return 0;
	return err_set(err, ERR_EXHAUSTED,
	               "node %s is full: %zu volumes are attached to it, and its limit is %" PRId64
	               " (CSINode %s); detach a volume, or run the pod on another node",
	               r->node, scan->on_node, limit, r->node);
}

static int check_attachable(struct controller *c, const struct attach_request *r, struct deadline d,
                            struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = {
		.volume = r->volume,
		.node = r->node,
		.anywhere = access_mode_is_multi_node(r->cap.mode),
	};

	if (node_check(c, r->node, d, err))
		return -1;
	if (attachments_scan(c, d, &scan, err))
		return err_wrap(err, "listing the attachments of volume %s", r->volume);
	/*
	 * If the volume is already attached to this node, the age of the attachments decides:
	 * attach_conflict_check().
	 */
	if (!(scan.here && scan.by_index) && check_attached_elsewhere(c, r, &scan, err))
		return -1;
	if (check_full(c, r, &scan, d, err))
		return -1;
	return scan.here ? 0 : node_check_dpu(c, r->node, d, err);
}

/* ---- two drivers that attach one volume to two nodes at the same time ---- */

/*
 * The watch delivers the attachments of a namespace to every client in one order, by creation. Once
 * this call's own attachment has arrived, the index has every older one. So no second request is
 * needed, and of two drivers that attach at the same time the first one succeeds.
 *
 * DPF's first change of the attachment follows its creation, usually soon. The call waits for that
 * event first: the event of the creation has then also arrived, so one wake-up suffices for both.
 *
 * If the watch does not deliver the attachment, lists are read instead, which have no order. Then
 * any other attachment counts as a conflict, and both drivers may fail until their callers retry.
 */

/* Sets scan->than to the sequence number of this driver's attachment, or to ATTACHMENT_UNSEEN. */
static int await_seq(const struct controller *c, const struct json *object, bool made,
                     struct await *a, struct attachment_scan *scan, struct err *err)
{
	struct dpu_attachment_key ours = dpu_attachment_key(object);
	int rc;

	scan->than = ATTACHMENT_UNSEEN;
	if (!c->attachments)
		return 0;
	/* If all attachments are being re-read, the watch is not at fault. */
	rc = attachment_index_ready(c->attachments, a->d, err);
	if (rc < 0)
		return -1;
	if (rc == 0 && made)
		await_event(a, object, DPF_MS);
	scan->than = attachment_index_await(c->attachments, ours.volume, ours.node, ours.uid, a->d);
	return 0;
}

/*
 * Searches for attachments of the volume to other nodes that are older than `object`, this driver's
 * attachment; `made` is set if this call has created it. scan->n_elsewhere is 0 if all are newer.
 */
static int scan_older(const struct controller *c, const struct json *object, bool made,
                      struct await *a, struct attachment_scan *scan, struct err *err)
{
	scan->older_only = true;
	if (await_seq(c, object, made, a, scan, err) || attachments_scan(c, a->d, scan, err)) {
		/*
		 * This driver's attachment may exist, so an error that does not name another
		 * attachment must not be final.
		 */
		open_error(err);
		return err_wrap(err, "looking for other attachments of volume %s", scan->volume);
	}
	return 0;
}

/*
 * Deletes the attachment that this call has created, and waits until it is deleted. Returns -1 with
 * a code that is not final if the attachment may still exist.
 */
static int withdraw_attachment(const struct controller *c, const struct json *object,
                               struct await *a, struct err *err)
{
	struct dpu_attachment_key ours = dpu_attachment_key(object);

	if (await_deleted(a, object, REMOVAL_GOAL, err))
		return open_error(err);
	attachment_gone(c, ours.volume, ours.node, ours.uid);
	return 0;
}

/*
 * Checks, after this driver's POST and before the answer, that a volume that allows one node at a
 * time has no older attachment to another node. `object` is this driver's attachment; `made` is set
 * if this call has created it.
 *
 * Returns 0 if there is no older attachment. FAILED_PRECONDITION names the older one; if this call
 * has created `object`, it was deleted, otherwise it stays. Other codes: the check failed, or
 * `object` still exists.
 */
static int attach_conflict_check(const struct controller *c, const struct attach_request *r,
                                 const struct json *object, bool made, struct await *a,
                                 struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = r->volume,
		                                                    .node = r->node };

	if (!c->attachments || access_mode_is_multi_node(r->cap.mode))
		return 0;
	if (scan_older(c, object, made, a, &scan, err))
		return -1;
	if (!scan.n_elsewhere)
		return 0;
	if (made && withdraw_attachment(c, object, a, err))
		return -1;
	return err_set(
		err, ERR_PRECONDITION,
		"volume %s was attached to node %s (DPUVolumeAttachment %s) at the same time, "
		"by another driver or by hand; %s allows one node at a time%s",
		r->volume, scan.elsewhere, scan.elsewhere_name, access_mode_name(r->cap.mode),
		made ? "" : "; detach it from one of the two");
}

/* ---- which of several nodes creates the container ---- */

/*
 * If two nodes created the container (LUKS2) of an encrypted volume at the same time, each would use
 * a key of its own, and the data of one of them would be lost. So of several nodes that may write,
 * only the node with the oldest attachment may create the container. While that attachment exists,
 * no other attachment is the oldest. Once it is deleted, DPF has detached the node. If the order is
 * unknown, no node may create the container. Nothing is stored: a node that is attached again has
 * the newest attachment.
 */
static bool needs_format_node(const struct attach_request *r, const struct volume_params *p)
{
	return p->encryption && access_mode_is_multi_node(r->cap.mode) &&
	       !access_mode_is_reader_only(r->cap.mode);
}

/* Finds this node, or a node with an older attachment; *ret is its name, malloc'ed. */
static int find_format_node(const struct controller *c, const struct attach_request *r,
                            const struct json *object, bool made, struct await *a, char **ret,
                            struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = r->volume,
		                                                    .node = r->node };

	if (scan_older(c, object, made, a, &scan, err))
		return -1;
	*ret = scan.n_elsewhere ? TAKE(scan.elsewhere) : xstrdup(r->node);
	return 0;
}

/* ---- the attachment ---- */

static bool attachment_fits(const struct dpu_attachment *a, const struct attach_request *r,
                            const struct volume_params *p)
{
	return str_eq(a->key.node, r->node) && str_eq(a->key.volume, r->volume) &&
	       str_eq(a->function_type, p->pf ? "pf" : "vf") && a->hotplug == p->hotplug;
}

/*
 * Checks the answer to the POST: admission may have changed the attachment, and DPF then executes
 * the changed one.
 */
static int check_made_attachment(const struct controller *c, const struct json *made,
                                 const struct attach_request *r, const struct volume_params *p,
                                 struct await *await, struct err *err)
{
	struct dpu_attachment a;

	if (dpu_attachment_decode(made, &a, err))
		return err_wrap(err, "%s", await->ref);
	if (attachment_fits(&a, r, p))
		return 0;
	if (withdraw_attachment(c, made, await, err))
		return -1;
	return err_set(err, ERR_PRECONDITION,
	               "%s differs from the request: it is volume %s on node %s by %s%s, requested "
	               "volume %s on node %s by %s%s; does an admission policy or webhook change "
	               "DPUVolumeAttachments?",
	               await->ref, a.key.volume, a.key.node, a.hotplug ? "hot-plugged " : "",
	               a.function_type, r->volume, r->node, p->hotplug ? "hot-plugged " : "",
	               p->pf ? "pf" : "vf");
}

static int check_found_attachment(const struct json *found, const struct attach_request *r,
                                  const struct volume_params *p, const char *ref, struct err *err)
{
	struct dpu_attachment a;

	if (dpu_attachment_decode(found, &a, err))
		return err_wrap(err, "%s", ref);
	if (!attachment_fits(&a, r, p))
		return err_set(
			err, ERR_EXISTS,
			"DPUVolumeAttachment already exist but contains different parameters: "
			"%s is volume %s on node %s by %s%s",
			ref, a.key.volume, a.key.node, a.hotplug ? "hot-plugged " : "",
			a.function_type);
	if (a.key.deleting)
		return err_set(err, ERR_ABORTED, "%s is being deleted; retry after its deletion",
		               ref);
	return 0;
}

static int obtain_attachment(struct controller *c, const struct attach_request *r,
                             const struct volume_params *p, struct await *a, struct json **ret,
                             bool *made, struct err *err)
{
	struct json *object AUTO(json_free) =
		dpu_attachment_encode(a->name, r->node, r->volume, p->pf, p->hotplug);
	struct json *got AUTO(json_free) = NULL;
	int rc;

	attachment_label(c, object, r->node, r->volume);
	rc = await_create(a, object, &got, err);
	kill_point("attach: POST answered");
	*made = rc == 0;
	if (rc == KUBE_EXISTS) {
		rc = await_find(a, &got, err);
		if (rc == KUBE_ABSENT)
			return err_set(err, ERR_ABORTED, "%s was just deleted; retry", a->ref);
		if (rc == 0 && check_found_attachment(got, r, p, a->ref, err))
			return -1;
	}
	if (rc < 0)
		return err_wrap(err, "%s", a->ref);
	attachment_there(c, got);
	if (*made && check_made_attachment(c, got, r, p, a, err))
		return -1;
	*ret = TAKE(got);
	return 0;
}

/* The attachment for which the call waits. */
struct attaching {
	enum emulation kind;      /* kind of the volume */
	struct dpu_attachment is; /* the attachment's newest state */
	char *format_node;        /* owned; find_format_node() */
};

static void attaching_clear(struct attaching *a)
{
	free(a->format_node);
}
DEFINE_AUTO_VALUE(struct attaching, attaching_clear);

static int attached_readiness(void *arg, const struct json *object, struct str *why,
                              struct err *err)
{
	struct attaching *a = arg;

	return attachment_readiness(object, a->kind, &a->is, why, err);
}

/*
 * Gives every error a code that the sidecar retries, because the attachment exists and may still
 * succeed.
 */
static int recode_after_create(struct err *err, const struct dpu_attachment *a)
{
	if (err->code == ERR_DEADLINE && speaks_of_exhaustion(a->message))
		return err_recode(err, ERR_EXHAUSTED);
	if (!code_is_open(err->code) && err->code != ERR_EXHAUSTED)
		return err_recode(err, ERR_UNAVAILABLE);
	return -1;
}

static int attach_and_wait(struct controller *c, const struct attach_request *r,
                           const struct volume_params *p, const char *name, struct deadline d,
                           struct await *a, struct attaching *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	bool made = false;

	if (await_open(c, &dpu_attachment_kind, name, d, a, err) ||
	    obtain_attachment(c, r, p, a, &object, &made, err))
		return -1;
	if (!object_uid(object, a->ref, err))
		return recode_after_create(err, &ret->is);
	if (attach_conflict_check(c, r, object, made, a, err))
		return -1;
	if (needs_format_node(r, p) &&
	    find_format_node(c, r, object, made, a, &ret->format_node, err))
		return -1;
	if (await_ready(a, TAKE(object), PUBLISH_GOAL, attached_readiness, ret, err))
		return recode_after_create(err, &ret->is);
	return 0;
}

/* Writes an Event if the node has no free function. Returns -1. */
static int attach_failed(struct controller *c, const struct attach_request *r,
                         const struct err *err)
{
	if (err->code == ERR_EXHAUSTED)
		event_warn(c->events, &core_node_kind, r->node, "NoFreeFunction", err->msg);
	return -1;
}

int volume_attach(struct controller *c, const struct attach_request *r, struct deadline d,
                  struct arena *arena, struct kvs *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct await a AUTO(await_close) = { .c = c };
	char name[OBJECT_NAME_MAX + 1];
	struct attaching attachment AUTO(attaching_clear) = { .is = { .message = "" } };
	struct volume_params p;
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (publish_volume(c, r, d, &object, &v, &p, err))
		return -1;
	if (check_attachable(c, r, d, err))
		return attach_failed(c, r, err);
	if (!attachment_object_name(r->node, r->volume, name))
		return err_set(err, ERR_INVALID,
		               "NodeId: \"%s\" cannot be part of an object's name", r->node);
	attachment.kind = p.emulation;
	if (attach_and_wait(c, r, &p, name, d, &a, &attachment, err))
		return attach_failed(c, r, err);
	/*
	 * An attachment that was returned has to be listed by later calls, even if its event has
	 * not arrived yet.
	 */
	attachment_there(c, a.last);
	kill_point("attach: done, not answered");
	return attachment_publish_context(&attachment.is, attachment.kind, v.capacity,
	                                  attachment.format_node, arena, ret, err);
}
