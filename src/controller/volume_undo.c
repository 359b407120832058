/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Nothing happened" must be true when it is said: a final code makes external-provisioner forget
 * the volume, and a DPUVolume that stays is a leak nobody looks for. What may be deleted is only an
 * object that carries our label and this very name, that nothing is attached to, and that was never
 * handed out: CreateVolume never deletes a volume that could hold data.
 */
#include "controller/volume_undo.h"

#include <string.h>

#include "controller/attachments.h"
#include "controller/record.h"

/*
 * Adds a text with "it" for the object that the sentence has named already. "object: why" becomes
 * "why".
 */
static void add_without(struct str *out, const char *ref, const char *text)
{
	const char *at = strstr(text, ref);
	const char *rest = at ? at + strlen(ref) : text;

	if (at == text && str_has_prefix(rest, ": ")) {
		rest += 2;
	} else if (at) {
		str_addn(out, text, (size_t)(at - text));
		str_add(out, "it");
	}
	str_add(out, rest);
}

/* The answer when the first error cannot be given: open, so that the sidecar comes back. */
static int instead(struct err *err, const char *ref, const char *state)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	add_without(&why, ref, err->msg);
	err_clear(err);
	return err_set(err, ERR_ABORTED, "%s %s because %s", ref, state, why.ptr);
}

static int instead_of_unknown(struct err *err, const char *ref, const struct err *second)
{
	struct err first = *err;

	err_clear(err);
	return err_set(err, ERR_UNAVAILABLE, "%s (whether %s is left could not be learnt: %s)",
	               first.msg, strstr(first.msg, ref) ? "it" : ref, second->msg);
}

/*
 * A volume that is bound was or will be handed out by a call that succeeds, unless this very call
 * saw it made with a size that it cannot answer.
 */
static bool may_be_in_use(const struct dpu_volume *v, bool was_bound, const struct err *first)
{
	return was_bound || (dpu_volume_is_bound(v) && first->code != ERR_RANGE);
}

static int remove_left(const struct controller *c, const struct json *left, struct await *a,
                       struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = a->name };
	struct err second = ERR_INIT;

	if (attachments_scan(c, a->d, &scan, &second))
		return instead_of_unknown(err, a->ref, &second);
	if (scan.n_elsewhere)
		return -1;
	if (await_deleted(a, left, "removal", &second) == 0)
		return -1;
	if (code_is_open(second.code) || json_at(a->last, "metadata.deletionTimestamp"))
		return instead(err, a->ref, "is being removed");
	return instead(err, a->ref, "was to be removed, which is refused,");
}

int volume_undo(const struct controller *c, const char *name, bool was_bound, struct await *a,
                struct err *err)
{
	struct json *left AUTO(json_free) = NULL;
	struct err second = ERR_INIT;
	struct dpu_volume v;
	int rc;

	if (code_is_open(err->code) || err->code == ERR_EXISTS)
		return -1;
	rc = kube_get(c->kube, a->kind, c->namespace, a->name, a->d, &left, &second);
	/* Not served at all: nothing of the kind can be there. */
	if (rc == 1 || (rc < 0 && second.code == ERR_PRECONDITION))
		return -1;
	if (rc < 0 || dpu_volume_decode(left, &v, &second))
		return instead_of_unknown(err, a->ref, &second);
	if (record_owner(c, &v, name) != RECORD_OWN)
		return -1;
	if (may_be_in_use(&v, was_bound, err))
		return err_recode(err, ERR_UNAVAILABLE);
	return remove_left(c, left, a, err);
}
