/* SPDX-License-Identifier: Apache-2.0 */
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
#include "controller/attach_conflict.h"

#include "controller/attachment_index.h"
#include "controller/attachments.h"
#include "dpf/dpu_attachment.h"

#define REMOVAL_GOAL "timeout occurred while removing an attachment that came too late"

/* DPF may take longer; an attachment that is not to be there is not left for longer. */
#define DPF_MS 200

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

int attach_conflict_check(const struct controller *c, const struct attach_request *r,
                          const struct json *object, bool made, struct await *a, struct err *err)
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
