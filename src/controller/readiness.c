/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the readiness of one state of an object. Does not wait and sends no request. */
#include "controller/readiness.h"

#include "dpf/attachment_context.h"
#include "dpf/conditions.h"

static void why_not_bound(const struct json *object, const struct dpu_volume *v, struct str *why)
{
	if (dpu_volume_is_bound(v) && !v->capacity)
		str_add(why, "is bound, but volume capacity is 0 "
		             "(status.state.volumeInfo.capacity.storage)");
	else if (dpu_volume_is_bound(v))
		str_add(why, "is bound, but not ready");
	else
		str_addf(why, "is not bound (phase %s)", *v->phase ? v->phase : "not set");
	state_describe(object, "", why);
}

int volume_readiness(const struct json *object, struct dpu_volume *ret, struct str *why,
                     struct err *err)
{
	struct err unreadable = ERR_INIT;
	int rc = dpu_volume_decode(object, ret, &unreadable);

	if (ret->deleting)
		return err_set(err, ERR_ABORTED, "is being deleted; retry after its deletion");
	if (rc)
		return err_set(err, unreadable.code, "%s", unreadable.msg);
	if (dpu_volume_is_bound(ret) && ret->capacity &&
	    condition_holds_or_absent(object, CONDITION_READY))
		return 0;
	if (why)
		why_not_bound(object, ret, why);
	return await_failed(object, err) ? -1 : AWAIT_NOT_YET;
}

/*
 * Returns true if the volume is attached, with all fields that a node needs. If not, `missing`
 * names the missing fields.
 */
static bool is_attached(const struct json *object, const struct dpu_attachment *a,
                        enum emulation kind, struct str *missing)
{
	return a->attached && attachment_is_complete(a, kind, missing) &&
	       condition_holds_or_absent(object, CONDITION_DPU_ATTACHED) &&
	       !attachment_is_stale(object, a, missing);
}

int attachment_readiness(const struct json *object, enum emulation kind, struct dpu_attachment *ret,
                         struct str *why, struct err *err)
{
	struct str missing AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	struct err unreadable = ERR_INIT;
	bool attached;
	int rc = dpu_attachment_decode(object, ret, &unreadable);

	if (ret->key.deleting)
		return err_set(err, ERR_ABORTED, "is being deleted; retry after its deletion");
	if (rc)
		return err_set(err, unreadable.code, "%s", unreadable.msg);
	attached = is_attached(object, ret, kind, &missing);
	/* The Go plugin ignores Ready, and older versions of DPF do not have it. */
	if (attached && condition_holds_or_absent(object, CONDITION_READY))
		return 0;
	if (why) {
		str_add(why, attached ? "is attached, but not ready" : "is not attached");
		state_describe(object, missing.ptr, why);
	}
	return await_failed(object, err) ? -1 : AWAIT_NOT_YET;
}
