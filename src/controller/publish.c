/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching.
 *
 * Everything that can be refused is refused before the attachment is made: unknown volume, wrong
 * access type, unknown node, a single-node volume that is attached elsewhere, a full node. From
 * then on the sidecar must assume that the volume may be attached, so no later error is final.
 * Detaching is in unpublish.c.
 */
#include "controller/publish.h"

#include <inttypes.h>

#include "common/kill_point.h"
#include "dpf/dpu_volume.h"
#include "controller/attachments.h"
#include "controller/await.h"
#include "controller/readiness.h"
#include "controller/names.h"
#include "controller/nodes.h"
#include "dpf/attachment_context.h"
#include "controller/attachment_index.h"
#include "controller/publish_volume.h"

#define PUBLISH_GOAL "timeout occurred while waiting for volume attachment"
#define REMOVAL_GOAL "timeout occurred while removing an attachment that came too late"

/* DPF may take longer; an attachment that is not to be there is not left for longer. */
#define DPF_MS 200

/* ---- where it is attached already ---- */

static int check_attached_elsewhere(const struct attach_request *r,
                                    const struct attachment_scan *scan, struct err *err)
{
	if (access_mode_is_multi_node(r->cap.mode) || !scan->n_elsewhere)
		return 0;
	return err_set(
		err, ERR_PRECONDITION,
		"volume %s is attached to node %s (DPUVolumeAttachment %s); %s allows one node "
		"at a time",
		r->volume, scan->elsewhere, scan->elsewhere_name, access_mode_name(r->cap.mode));
}

/* limit: what it takes. fresh: that is read anew. */
static bool node_is_full(struct controller *c, const struct attach_request *r,
                         const struct attachment_scan *scan, bool fresh, struct deadline d,
                         int64_t *limit)
{
	*limit = scan->on_node ? node_limit(c, r->node, fresh, d) : 0;
	return *limit && scan->on_node >= (uint64_t)*limit;
}

/*
 * Refuses a full node whose limit is known. CSINode's count is of VFs and hot-plugged functions
 * together; when only those of one kind are used up, DPF's message in the wait says it.
 */
static int check_full(struct controller *c, const struct attach_request *r,
                      struct attachment_scan *scan, struct deadline d, struct err *err)
{
	int64_t limit;

	if (scan->here)
		return 0;
	/* What is remembered may be behind the truth: what is read now refuses. */
	if (scan->by_index && !node_is_full(c, r, scan, false, d, &limit))
		return 0;
	if (attachments_count(c, d, scan, err))
		return err_wrap(err, "counting the attachments of node %s", r->node);
	if (!node_is_full(c, r, scan, true, d, &limit))
		return 0;
	return err_set(err, ERR_EXHAUSTED,
	               "node %s is full: %zu volumes are attached to it, and it takes %" PRId64
	               " (CSINode %s); detach a volume, or let the pod run on another node",
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
	/* Where there is one on this node already, their age decides: attach_conflict_check(). */
	if (!(scan.here && scan.by_index) && check_attached_elsewhere(r, &scan, err))
		return -1;
	return check_full(c, r, &scan, d, err);
}

/* ---- two drivers that attach one volume to two nodes at the same time ---- */

/*
 * The watch delivers the attachments of a namespace to every client in one order, by creation.
 * Once our own has come, every older one is known: the index has it. So no second request is
 * needed, and of two drivers that attach at the same time the one that was first goes on.
 *
 * DPF's first change of ours comes after its creation, mostly soon. So that event is waited for
 * first: the one of the creation has come by then, and one wake-up is enough for both.
 *
 * A watch that does not deliver ours is not waited for: lists are read, which have no order. Then
 * any other attachment counts, and perhaps neither driver goes on until the callers retry.
  */

/* Searches for an older attachment; scan->n_elsewhere is 0 when there is none. */
static int scan_conflicts(const struct controller *c, const struct json *object, bool made,
                          struct await *a, struct attachment_scan *scan, struct err *err)
{
	struct dpu_attachment_key ours = dpu_attachment_key(object);
	/* While all are read anew, that is no fault of the watch. */
	int rc = attachment_index_ready(c->attachments, a->d, err);

	if (rc < 0)
		return -1;
	if (rc == 0 && made)
		await_event(a, object, DPF_MS);
	scan->older_only = true;
	scan->than = attachment_index_await(c->attachments, ours.volume, ours.node, ours.uid, a->d);
	return attachments_scan(c, a->d, scan, err);
}

/* Removes what this call has made. */
static int withdraw(const struct controller *c, const struct json *object, struct await *a,
                    struct err *err)
{
	struct dpu_attachment_key ours = dpu_attachment_key(object);

	if (await_deleted(a, object, REMOVAL_GOAL, err))
		return -1;
	attachment_gone(c, ours.volume, ours.node, ours.uid);
	return 0;
}

/* Ours may be there: no error is final that does not name another attachment. */
static int open_error(struct err *err)
{
	return code_is_open(err->code) ? -1 : err_recode(err, ERR_UNAVAILABLE);
}

/*
 * For a volume that allows one node at a time, behind our POST and before it is handed out: is
 * there an older attachment to another node? `object` is ours; made: this call has made it.
 *
 * 0: no. FAILED_PRECONDITION naming the other: yes; what this call has made is gone again, what was
 * there before is left. Other codes: that could not be learnt, or ours is still there.
 */
static int attach_conflict_check(const struct controller *c, const struct attach_request *r,
                                 const struct json *object, bool made, struct await *a,
                                 struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = r->volume,
		                                                    .node = r->node };

	if (!c->attachments || access_mode_is_multi_node(r->cap.mode))
		return 0;
	if (scan_conflicts(c, object, made, a, &scan, err)) {
		open_error(err);
		return err_wrap(err, "looking for other attachments of volume %s", r->volume);
	}
	if (!scan.n_elsewhere)
		return 0;
	if (made && withdraw(c, object, a, err))
		return open_error(err);
	return err_set(
		err, ERR_PRECONDITION,
		"volume %s was attached to node %s (DPUVolumeAttachment %s) at the same time, "
		"by another driver or by hand; %s allows one node at a time%s",
		r->volume, scan.elsewhere, scan.elsewhere_name, access_mode_name(r->cap.mode),
		made ? "" : "; detach it from one of the two");
}

/* ---- the attachment ---- */

static int check_found_attachment(const struct json *found, const struct attach_request *r,
                                  const struct volume_params *p, const char *ref, struct err *err)
{
	struct dpu_attachment a;

	if (dpu_attachment_decode(found, &a, err))
		return err_wrap(err, "%s", ref);
	if (!str_eq(a.key.node, r->node) || !str_eq(a.key.volume, r->volume) ||
	    !str_eq(a.function_type, p->pf ? "pf" : "vf") || a.hotplug != p->hotplug)
		return err_set(
			err, ERR_EXISTS,
			"DPUVolumeAttachment already exist but contains different parameters: "
			"%s is volume %s on node %s by %s%s",
			ref, a.key.volume, a.key.node, a.hotplug ? "hot-plugged " : "",
			a.function_type);
	if (a.key.deleting)
		return err_set(err, ERR_ABORTED, "%s is being deleted; retry when it is gone", ref);
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
	*ret = TAKE(got);
	return 0;
}

/* An attachment that is waited for. */
struct attaching {
	enum emulation kind;      /* of its volume */
	struct dpu_attachment is; /* its newest state */
};

static int attached_readiness(void *arg, const struct json *object, struct str *why,
                              struct err *err)
{
	struct attaching *a = arg;

	return attachment_readiness(object, a->kind, &a->is, why, err);
}

/*
 * The attachment exists and may still succeed, so whatever went wrong gets a code that the sidecar
 * retries.
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

	*ret = (struct attaching) { .kind = p->emulation, .is = { .message = "" } };
	if (await_open(c, &dpu_attachment_kind, name, d, a, err) ||
	    obtain_attachment(c, r, p, a, &object, &made, err))
		return -1;
	if (!object_uid(object, a->ref, err))
		return recode_after_create(err, &ret->is);
	if (attach_conflict_check(c, r, object, made, a, err))
		return -1;
	if (await_ready(a, TAKE(object), PUBLISH_GOAL, attached_readiness, ret, err))
		return recode_after_create(err, &ret->is);
	return 0;
}

int volume_attach(struct controller *c, const struct attach_request *r, struct deadline d,
                  struct arena *arena, struct kvs *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct await a AUTO(await_close) = { .c = c };
	char name[OBJECT_NAME_MAX + 1];
	struct attaching attachment;
	struct volume_params p;
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (publish_volume(c, r, d, &object, &v, &p, err) || check_attachable(c, r, d, err))
		return -1;
	if (!attachment_object_name(r->node, r->volume, name))
		return err_set(err, ERR_INVALID,
		               "NodeId: \"%s\" cannot be part of an object's name", r->node);
	if (attach_and_wait(c, r, &p, name, d, &a, &attachment, err))
		return -1;
	/* An attachment that is answered is listed, even when its event has not come yet. */
	attachment_there(c, a.last);
	kill_point("attach: done, not answered");
	*ret = attachment_publish_context(&attachment.is, attachment.kind, v.capacity, arena);
	return 0;
}
