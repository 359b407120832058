/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A final code says that nothing happened: external-provisioner forgets the volume, and a DPUVolume
 * that stays is a leak. Only an object is deleted that has our label and was made for this name, is
 * not attached, and was never returned to a caller: CreateVolume never deletes a volume that could
 * hold data. One that stays makes the code open. It is deleted only in the very state that was
 * read: another driver, which has taken over while this one was stopped, may have returned the
 * volume in between.
 */
#include "controller/volume_undo.h"

#include "common/kill_point.h"
#include "common/mem.h"
#include "controller/attachments.h"
#include "controller/volume_provenance.h"

/* The answer when the first error, a final one, would be untrue: open, so the sidecar retries. */
static int refuse_undo(const struct await *a, const char *state, const char *reason,
                       struct err *err)
{
	err_clear(err);
	return err_set(err, ERR_ABORTED, "%s %s because %s", a->ref, state, reason);
}

static int refuse_unknown_undo(struct err *err, const struct err *second)
{
	struct err first = *err;

	err_clear(err);
	return err_set(err, ERR_UNAVAILABLE, "%s (whether it is left could not be learnt: %s)",
	               first.msg, second->msg);
}

/*
 * A call that succeeds has returned or will return a bound volume, whatever DPF says of it since:
 * one that has a size was bound. Except one that became bound during this call, or that nobody has
 * got (volume.c), and whose size its own request does not allow.
 */
static bool may_be_in_use(const struct dpu_volume *v, bool was_bound, const struct err *first)
{
	bool wrong = v->capacity && !provenance_capacity_fits(v, v->requested, v->limit);

	return was_bound || (dpu_volume_was_bound(v) && !(first->code == ERR_RANGE && wrong));
}

#define TRIES 3 /* for a volume whose status DPF is just writing */

/* AWAIT_CHANGED: it was not removed, and is to be read again. */
static int remove_left(const struct controller *c, const struct json *left, struct await *a,
                       const char *reason, struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = a->name };
	struct err second = ERR_INIT;
	int rc;

	if (attachments_scan(c, a->d, &scan, &second))
		return refuse_unknown_undo(err, &second);
	if (scan.n_elsewhere)
		return err_recode(err, ERR_UNAVAILABLE);
	rc = await_deleted_as_is(a, left, "removal", &second);
	if (rc == 0)
		kill_point("undo create: volume removed");
	if (rc >= 0)
		return rc ? AWAIT_CHANGED : -1;
	if (code_is_open(second.code) || json_at(a->last, "metadata.deletionTimestamp"))
		return refuse_undo(a, "is being removed", reason, err);
	return refuse_undo(a, "was to be removed, which is refused,", reason, err);
}

/* One attempt. -1: *err is the answer. AWAIT_CHANGED: another attempt. */
static int undo_once(const struct controller *c, const char *name, bool was_bound, struct await *a,
                     const char *reason, struct err *err)
{
	struct json *left AUTO(json_free) = NULL;
	struct err second = ERR_INIT;
	enum provenance_owner owner;
	struct dpu_volume v;
	int rc;

	rc = kube_get(c->kube, a->kind, c->namespace, a->name, a->d, &left, &second);
	/* PRECONDITION: the kind is not served; without its group there is no object of it. */
	if (rc < 0 && second.code == ERR_PRECONDITION) {
		struct err ignored = ERR_INIT;

		if (kube_find_group(c->kube, a->kind, a->d, &ignored) == 0)
			return -1;
	}
	if (rc == KUBE_ABSENT)
		return -1;
	if (rc < 0 || dpu_volume_decode(left, &v, &second))
		return refuse_unknown_undo(err, &second);
	owner = provenance_owner(c, &v, name);
	if (owner == PROVENANCE_OTHER)
		return -1;
	/* The Go plugin may have begun it for this request: it is left, so the end is open. */
	if (owner == PROVENANCE_UNMARKED || may_be_in_use(&v, was_bound, err))
		return err_recode(err, ERR_UNAVAILABLE);
	return remove_left(c, left, a, reason, err);
}

int volume_undo(const struct controller *c, const char *name, bool was_bound, struct await *a,
                struct err *err)
{
	char *reason AUTO(free) = TAKE(a->reason);
	struct err second = ERR_INIT;
	int rc = AWAIT_CHANGED;

	if (code_is_open(err->code) || err->code == ERR_EXISTS)
		return -1;
	if (!reason)
		reason = xstrdup(err->msg);
	for (int i = 0; i < TRIES && rc == AWAIT_CHANGED; i++)
		rc = undo_once(c, name, was_bound, a, reason, err);
	if (rc == AWAIT_CHANGED)
		return refuse_undo(a, "is to be removed, but changes all the time,", reason, err);
	/* Where another's object has the name, none of ours comes. */
	if (code_is_open(err->code) || err->code == ERR_EXISTS || await_settled(a, &second) == 0)
		return -1;
	return refuse_unknown_undo(err, &second);
}
