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
#include "volume/context_keys.h"
#include "dpf/conditions.h"
#include "dpf/dpu_volume.h"
#include "controller/attachments.h"
#include "controller/await.h"
#include "controller/names.h"
#include "controller/nodes.h"
#include "controller/publish_context.h"
#include "controller/publish_rival.h"
#include "controller/record.h"

#define PUBLISH_GOAL "timeout occurred while waiting for volume attachment"

/* ---- the request and its volume ---- */

/* Parses the function keys of the volume context; the node parses those for mkfs. */
static int read_function(const struct kvs *context, bool block, struct volume_params *ret,
                         struct err *err)
{
	struct kv kept[2];
	struct kvs map = { kept, 0 };

	for (size_t i = 0; i < context->n; i++)
		if (str_eq(context->v[i].key, PARAM_FUNCTION_TYPE) ||
		    str_eq(context->v[i].key, PARAM_HOTPLUG_FUNCTION))
			if (map.n < ARRAY_LEN(kept))
				kept[map.n++] = context->v[i];
	if (volume_params_parse(&map, block ? EMULATION_NVME : EMULATION_VIRTIOFS, NULL, ret, err))
		return err_wrap(err, "invalid function type config");
	return 0;
}

static int find_volume(const struct controller *c, const char *id, struct deadline d,
                       struct json **ret, struct dpu_volume *v, struct err *err)
{
	char ref[OBJECT_REF_MAX];
	int rc = dns1123_subdomain(id)
	                 ? kube_get(c->kube, &dpu_volume_kind, c->namespace, id, d, ret, err)
	                 : KUBE_ABSENT;

	object_ref(c, &dpu_volume_kind, id, ref);
	if (rc == KUBE_ABSENT)
		return err_set(err, ERR_NOT_FOUND, "volume not found: there is no %s", ref);
	if (rc < 0 || dpu_volume_decode(*ret, v, err))
		return err_wrap(err, "%s", ref);
	return 0;
}

static int check_volume(const struct dpu_volume *v, const struct attach_request *r, struct err *err)
{
	char have[64];

	if (v->deleting)
		return err_set(err, ERR_ABORTED, "volume %s is being deleted", v->name);
	if (!v->block)
		return err_set(
			err, ERR_UNIMPLEMENTED,
			"volume %s is a virtio-fs filesystem (volumeMode Filesystem), which is "
			"not supported by this version of the driver",
			v->name);
	if (record_check_type(v, r->cap.type, err))
		return -1;
	if (!record_allows(v, &r->cap))
		return err_set(
			err, ERR_INVALID,
			"VolumeCapability.AccessMode: volume %s has %s, which does not allow %s",
			v->name, dpu_access_modes_text(v->access_modes, have),
			access_mode_name(r->cap.mode));
	return 0;
}

/* ---- where it is attached already ---- */

static int check_elsewhere(const struct attach_request *r, const struct attachment_scan *scan,
                           struct err *err)
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
static bool is_full(struct controller *c, const struct attach_request *r,
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
	if (scan->by_index && !is_full(c, r, scan, false, d, &limit))
		return 0;
	if (attachments_count(c, d, scan, err))
		return err_wrap(err, "counting the attachments of node %s", r->node);
	if (!is_full(c, r, scan, true, d, &limit))
		return 0;
	return err_set(err, ERR_EXHAUSTED,
	               "node %s is full: %zu volumes are attached to it, and it takes %" PRId64
	               " (CSINode %s); detach a volume, or let the pod run on another node",
	               r->node, scan->on_node, limit, r->node);
}

static int look_around(struct controller *c, const struct attach_request *r, struct deadline d,
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
	/* Where there is one on this node already, their age decides (publish_rival.h). */
	if (!(scan.here && scan.by_index) && check_elsewhere(r, &scan, err))
		return -1;
	return check_full(c, r, &scan, d, err);
}

/* ---- the attachment ---- */

static int check_found(const struct json *found, const struct attach_request *r,
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

static int obtain(struct controller *c, const struct attach_request *r,
                  const struct volume_params *p, struct await *a, struct json **ret, bool *made,
                  struct err *err)
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
		if (rc == 0 && check_found(got, r, p, a->ref, err))
			return -1;
	}
	if (rc < 0)
		return err_wrap(err, "%s", a->ref);
	attachment_there(c, got);
	*ret = TAKE(got);
	return 0;
}

/* Is it attached, with all that a node needs? `missing` says what is not there. */
static bool is_attached(const struct json *object, const struct dpu_attachment *a,
                        struct str *missing)
{
	return a->attached && attachment_is_complete(a, missing) &&
	       condition_holds_or_absent(object, CONDITION_DPU_ATTACHED);
}

static int judge_attached(void *arg, const struct json *object, struct str *why, struct err *err)
{
	struct dpu_attachment *a = arg;
	struct str missing AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);
	bool attached;

	if (dpu_attachment_decode(object, a, err))
		return -1;
	if (a->key.deleting)
		return err_set(err, ERR_ABORTED, "is being deleted; retry when it is gone");
	attached = is_attached(object, a, &missing);
	/* The Go plugin does not look at Ready, and older versions of DPF do not have it. */
	if (attached && condition_holds_or_absent(object, CONDITION_READY))
		return 0;
	if (why) {
		str_add(why, attached ? "is attached, but not ready" : "is not attached");
		state_describe(object, missing.ptr, why);
	}
	return await_failed(object, err) ? -1 : AWAIT_NOT_YET;
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

static int attach(struct controller *c, const struct attach_request *r,
                  const struct volume_params *p, const char *name, struct deadline d,
                  struct await *a, struct dpu_attachment *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	bool made = false;

	*ret = (struct dpu_attachment) { .message = "" };
	if (await_open(c, &dpu_attachment_kind, name, d, a, err) ||
	    obtain(c, r, p, a, &object, &made, err))
		return -1;
	if (!object_uid(object, a->ref, err))
		return recode_after_create(err, ret);
	if (rival_check(c, r, object, made, a, err))
		return -1;
	if (await_ready(a, TAKE(object), PUBLISH_GOAL, judge_attached, ret, err))
		return recode_after_create(err, ret);
	return 0;
}

int volume_attach(struct controller *c, const struct attach_request *r, struct deadline d,
                  struct arena *arena, struct kvs *ret, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	struct await a AUTO(await_close) = { .c = c };
	char name[OBJECT_NAME_MAX + 1];
	struct dpu_attachment attachment;
	struct volume_params p;
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (find_volume(c, r->volume, d, &object, &v, err) || check_volume(&v, r, err) ||
	    read_function(&r->volume_context, v.block, &p, err) || look_around(c, r, d, err))
		return -1;
	if (!attachment_object_name(r->node, r->volume, name))
		return err_set(err, ERR_INVALID,
		               "NodeId: \"%s\" cannot be part of an object's name", r->node);
	if (attach(c, r, &p, name, d, &a, &attachment, err))
		return -1;
	kill_point("attach: done, not answered");
	*ret = publish_context(&attachment, v.capacity, arena);
	return 0;
}
