/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives faults from the conditions of a DPUVolume and its DPUVolumeAttachments, by the same rules
 * as waiting calls (readiness.h). A volume that DPF has unbound is inaccessible from all nodes. For
 * other conditions it is unknown whether I/O still works, so the volume is degraded.
 */
#include "controller/volume_health.h"

#include "common/limits.h"
#include "common/str.h"
#include "controller/attachments.h"
#include "controller/readiness.h"
#include "controller/volume_provenance.h"
#include "controller/volume_read.h"
#include "dpf/conditions.h"

#define MESSAGE_MAX LIMIT_HEALTH_MESSAGE
#define COUNT_MAX 40 /* bytes of "; and 99999 more of 99999 nodes", and of a cut character */

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
		str_add(&message, "is being deleted, which ends when its last attachment is "
		                  "removed");
		add_fault(h, VOLUME_IS_DEGRADED, "BeingDeleted", message.ptr, arena);
	} else if (!dpu_volume_is_bound(&v)) {
		add_fault(h, VOLUME_IS_INACCESSIBLE, "VolumeNotBound", message.ptr, arena);
	} else if (!condition_holds_or_absent(object, CONDITION_READY)) {
		add_fault(h, VOLUME_IS_DEGRADED, "VolumeNotReady", message.ptr, arena);
	}
}

/* A message with one clause per node; clauses that do not fit are only counted. */
struct node_clauses {
	struct str text;
	size_t n, shown;
};

struct health_scan {
	const struct controller *c;
	const char *volume;
	enum emulation kind;
	struct node_clauses not_ready, failed;
	bool attached; /* to at least one node */
};

static void clause_add(struct node_clauses *l, const char *node, const char *ref, const char *why)
{
	struct str clause AUTO(str_clear) = STR_INIT(MESSAGE_MAX - COUNT_MAX - 2);

	str_addf(&clause, "node %s: %s ", node, ref);
	str_add_shown(&clause, why);
	if (l->shown == l->n && l->text.len + 2 + clause.len <= MESSAGE_MAX - COUNT_MAX) {
		str_addf(&l->text, "%s%s", l->n ? "; " : "", clause.ptr);
		l->shown++;
	}
	l->n++;
}

static const char *clauses_end(struct node_clauses *l)
{
	if (l->shown < l->n)
		str_addf(&l->text, "; and %zu more of %zu nodes", l->n - l->shown, l->n);
	return l->text.ptr;
}

static int health_of_attachment(void *arg, const struct json *item, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(MESSAGE_MAX);
	struct health_scan *l = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	char ref[OBJECT_REF_MAX];
	struct err failed = ERR_INIT;
	struct dpu_attachment a;

	(void)err;
	if (!str_eq(key.volume, l->volume))
		return 0;
	l->attached |= key.attached;
	if (key.deleting || attachment_readiness(item, l->kind, &a, &why, &failed) == 0)
		return 0;
	if (key.attached || failed.code)
		clause_add(key.attached ? &l->not_ready : &l->failed, key.node,
		           object_ref(l->c, &dpu_attachment_kind, key.name, ref),
		           why.len ? why.ptr : failed.msg);
	return 0;
}

static int health_of_attachments(struct health_scan *l, struct deadline d, struct arena *arena,
                                 struct volume_health *h, struct err *err)
{
	if (attachments_each(l->c, l->volume, health_of_attachment, l, d, err))
		return err_wrap(err, "reading the attachments of volume %s", l->volume);
	add_fault(h, VOLUME_IS_DEGRADED, "AttachmentNotReady", clauses_end(&l->not_ready), arena);
	add_fault(h, VOLUME_IS_DEGRADED, "AttachmentFailed", clauses_end(&l->failed), arena);
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
	l.not_ready.text = (struct str)STR_INIT(MESSAGE_MAX);
	l.failed.text = (struct str)STR_INIT(MESSAGE_MAX);
	health_of_volume(object, ref, arena, ret);
	rc = health_of_attachments(&l, d, arena, ret, err);
	str_clear(&l.not_ready.text);
	str_clear(&l.failed.text);
	if (rc || dpu_volume_was_bound(&v) || l.attached)
		return rc;
	return volume_refuse_unbound(c, id, err);
}
