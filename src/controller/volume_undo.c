/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A final code means that nothing happened: external-provisioner forgets the volume, and a
 * DPUVolume that remains is leaked. An object is deleted only if it has the driver's label and was
 * created for this name, is not attached, and was never returned to a caller, so that CreateVolume
 * never deletes a volume that could hold data. If the object stays, the code is not final. The
 * object is deleted only in exactly the state that was read, because another driver, which has
 * taken over while this one was stopped, may have returned the volume in between. A volume that
 * does not fit the request (creation.unfit) is deleted in any state, because no driver returns it.
 */
#include "controller/volume_undo.h"

#include "common/kill_point.h"
#include "common/mem.h"
#include "controller/attachments.h"
#include "controller/volume_provenance.h"

/*
 * Replaces a final error by ABORTED, so that the sidecar retries. A final code would claim that
 * nothing is left, but the object may still exist.
 */
static int refuse_undo(const struct await *a, const char *reason, const char *outcome,
                       struct err *err)
{
	err_clear(err);
	return err_set(err, ERR_ABORTED, "%s %s because %s%s", a->ref,
	               *outcome ? "should be removed" : "is being removed", reason, outcome);
}

static int refuse_unknown_undo(struct err *err, const struct err *second)
{
	struct err first = *err;

	err_clear(err);
	return err_set(err, ERR_UNAVAILABLE,
	               "%s (could not determine whether it still exists: "
	               "%s)",
	               first.msg, second->msg);
}

/*
 * Returns true if a caller may use the volume. A successful call returns a bound volume, so a
 * volume that is or was bound may be in use, even if DPF reports a different phase later; a volume
 * that has a size was bound. There are two exceptions: a volume that became bound during this call,
 * or that no client has received (volume.c), if the volume's own request does not allow its size.
 */
static bool may_be_in_use(const struct dpu_volume *v, const struct creation *cr,
                          const struct err *first)
{
	bool wrong = v->capacity && !provenance_capacity_fits(v, v->requested, v->limit);

	return cr->was_bound || (dpu_volume_was_bound(v) && !(first->code == ERR_RANGE && wrong));
}

#define TRIES 3 /* after a conflict: DPF may be writing the status at the same time */

/* Returns AWAIT_CHANGED if the object was not removed, and has to be re-read. */
static int remove_left(const struct controller *c, const struct json *left, bool unfit,
                       struct await *a, const char *reason, struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = a->name };
	struct err second = ERR_INIT;
	int rc;

	if (attachments_scan(c, a->d, &scan, &second))
		return refuse_unknown_undo(err, &second);
	if (scan.n_elsewhere)
		return err_recode(err, ERR_UNAVAILABLE);
	rc = unfit ? await_deleted(a, left, "removal", &second)
	           : await_deleted_as_is(a, left, "removal", &second);
	if (rc == 0)
		kill_point("undo create: volume removed");
	if (rc >= 0)
		return rc ? AWAIT_CHANGED : -1;
	if (code_is_open(second.code) || json_at(a->last, "metadata.deletionTimestamp"))
		return refuse_undo(a, reason, "", err);
	return refuse_undo(a, reason, "; the removal was refused", err);
}

/*
 * Makes one attempt. Returns -1 with the error to answer in *err, or AWAIT_CHANGED if another
 * attempt is needed.
 */
static int undo_once(const struct controller *c, const char *name, const struct creation *cr,
                     struct await *a, const char *reason, struct err *err)
{
	struct json *left AUTO(json_free) = NULL;
	struct err second = ERR_INIT;
	enum provenance_owner owner;
	struct dpu_volume v;
	int rc;

	rc = kube_get(c->kube, a->kind, c->namespace, a->name, a->d, &left, &second);
	/*
	 * PRECONDITION: the kind is not served. If its API group is not served either, no object of
	 * the kind exists.
	 */
	if (rc < 0 && second.code == ERR_PRECONDITION) {
		struct err ignored = ERR_INIT;

		if (kube_find_group(c->kube, a->kind, a->d, &ignored) == 0)
			return -1;
	}
	if (rc == KUBE_ABSENT)
		return -1;
	if (rc < 0 || dpu_volume_decode(left, &v, &second))
		return refuse_unknown_undo(err, &second);
	if (cr->unfit && str_eq(v.uid, cr->unfit))
		return remove_left(c, left, true, a, reason, err);
	owner = provenance_owner(c, &v, name);
	if (owner == PROVENANCE_OTHER)
		return -1;
	/*
	 * The Go plugin may have created the object for this request, so it stays, and the code is
	 * not final.
	 */
	if (owner == PROVENANCE_UNMARKED || may_be_in_use(&v, cr, err))
		return err_recode(err, ERR_UNAVAILABLE);
	return remove_left(c, left, false, a, reason, err);
}

int volume_undo(const struct controller *c, const char *name, const struct creation *cr,
                struct await *a, struct err *err)
{
	char *reason AUTO(free) = TAKE(a->reason);
	struct err second = ERR_INIT;
	int rc = AWAIT_CHANGED;

	if (code_is_open(err->code) || err->code == ERR_EXISTS)
		return -1;
	if (!reason)
		reason = xstrdup(err->msg);
	for (int i = 0; i < TRIES && rc == AWAIT_CHANGED; i++)
		rc = undo_once(c, name, cr, a, reason, err);
	if (rc == AWAIT_CHANGED)
		return refuse_undo(a, reason, "; it changed at each attempt", err);
	/*
	 * If another creator's object has the name, no object of this driver can appear under it.
	 */
	if (code_is_open(err->code) || err->code == ERR_EXISTS || await_settled(a, &second) == 0)
		return -1;
	return refuse_unknown_undo(err, &second);
}
