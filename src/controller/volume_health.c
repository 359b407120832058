/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults out of the conditions of a DPUVolume and its DPUVolumeAttachments, by the rules that calls
 * wait by (readiness.h). A volume that DPF has unbound is accessible from nowhere; whether data
 * flow through one with another condition nobody says, so it is degraded.
 */
#include "controller/volume_health.h"

#include "common/str.h"
#include "controller/attachments.h"
#include "controller/readiness.h"
#include "controller/volume_provenance.h"
#include "controller/volume_read.h"
#include "dpf/conditions.h"

#define MESSAGE_MAX 2000

static void add_fault(struct volume_health *h, enum volume_fault_status status, const char *reason,
                      const char *message, struct arena *arena)
{
	if (!*message)
		return;
	h->v[h->n++] = (struct volume_fault) { .status = status,
		                               .reason = reason,
		                               .message = arena_strdup(arena, message) };
}

static void health_of_volume(const struct json *object, const char *ref, struct arena *arena,
                             struct volume_health *h)
{
	struct str message AUTO(str_clear) = STR_INIT(MESSAGE_MAX);
	struct err ignored = ERR_INIT;
	struct dpu_volume v;

	str_addf(&message, "%s ", ref);
	if (volume_readiness(object, &v, &message, &ignored) == 0)
		return;
	if (v.deleting) {
		str_add(&message, "is being deleted, and goes when nothing is attached any more");
		add_fault(h, VOLUME_IS_DEGRADED, "BeingDeleted", message.ptr, arena);
	} else if (!dpu_volume_is_bound(&v)) {
		add_fault(h, VOLUME_IS_INACCESSIBLE, "VolumeNotBound", message.ptr, arena);
	} else if (!condition_holds_or_absent(object, CONDITION_READY)) {
		add_fault(h, VOLUME_IS_DEGRADED, "VolumeNotReady", message.ptr, arena);
	}
}

struct health_scan {
	const struct controller *c;
	const char *volume;
	enum emulation kind;
	struct str not_ready, failed; /* one clause for each such attachment */
	bool attached;                /* to any node */
};

static int health_of_attachment(void *arg, const struct json *item, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(MESSAGE_MAX);
	struct health_scan *l = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	char ref[OBJECT_REF_MAX];
	struct err failed = ERR_INIT;
	struct dpu_attachment a;
	struct str *out;

	(void)err;
	if (!str_eq(key.volume, l->volume))
		return 0;
	l->attached |= key.attached;
	if (key.deleting || attachment_readiness(item, l->kind, &a, &why, &failed) == 0)
		return 0;
	out = key.attached ? &l->not_ready : &l->failed;
	if (key.attached || failed.code)
		str_addf(out, "%snode %s: %s %s", out->len ? "; " : "", key.node,
		         object_ref(l->c, &dpu_attachment_kind, key.name, ref),
		         why.len ? why.ptr : failed.msg);
	return 0;
}

static int health_of_attachments(struct health_scan *l, struct deadline d, struct arena *arena,
                                 struct volume_health *h, struct err *err)
{
	if (attachments_each(l->c, l->volume, health_of_attachment, l, d, err))
		return err_wrap(err, "reading the attachments of volume %s", l->volume);
	add_fault(h, VOLUME_IS_DEGRADED, "AttachmentNotReady", l->not_ready.ptr, arena);
	add_fault(h, VOLUME_IS_DEGRADED, "AttachmentFailed", l->failed.ptr, arena);
	return 0;
}

int volume_health(const struct controller *c, const char *id, struct deadline d,
                  struct arena *arena, struct volume_health *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct health_scan l = { .c = c, .volume = id };
	char ref[OBJECT_REF_MAX];
	struct dpu_volume v;
	int rc;

	*ret = (struct volume_health) { .n = 0 };
	d = controller_deadline(c, d);
	if (volume_read(c, id, d, &object, &v, err))
		return -1;
	object_ref(c, &dpu_volume_kind, id, ref);
	l.kind = provenance_emulation(&v);
	l.not_ready = (struct str)STR_INIT(MESSAGE_MAX);
	l.failed = (struct str)STR_INIT(MESSAGE_MAX);
	health_of_volume(object, ref, arena, ret);
	rc = health_of_attachments(&l, d, arena, ret, err);
	str_clear(&l.not_ready);
	str_clear(&l.failed);
	if (rc || dpu_volume_was_bound(&v) || l.attached)
		return rc;
	return volume_refuse_unbound(c, id, err);
}
