/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a volume: sends one PATCH of the requested size, then waits for the storage.
 *
 * The PATCH carries the resourceVersion of the checked state, so that it never reduces a larger
 * size which another client has requested in between. It may be repeated even if its answer was
 * lost: if the first PATCH was executed, the next one gets a conflict, and the size is re-read.
 * After the PATCH no code is final. Owns nothing beyond a call.
 */
#include "controller/expand.h"

#include "common/kill_point.h"
#include "controller/await.h"
#include "controller/expandable.h"
#include "controller/volume_provenance.h"
#include "volume/context_keys.h"
#include "dpf/conditions.h"

#define EXPAND_GOAL "timeout occurred while waiting for volume expansion"
#define TRIES 5 /* after a conflict: DPF may be writing the status at the same time */

/* ---- what can be refused at once ---- */

static int check_growth_range(const struct volume_growth *r, struct err *err)
{
	char a[64], b[64];

	if (r->required < 0 || r->limit < 0)
		return err_set(err, ERR_INVALID, "CapacityRange: %s is negative",
		               r->required < 0 ? "required_bytes" : "limit_bytes");
	if (!r->required && !r->limit)
		return err_set(err, ERR_INVALID,
		               "CapacityRange: neither required_bytes nor limit_bytes is given");
	if (r->limit && r->required > r->limit)
		return err_set(err, ERR_RANGE,
		               "CapacityRange: required_bytes %s is more than limit_bytes %s",
		               str_bytes((uint64_t)r->required, a),
		               str_bytes((uint64_t)r->limit, b));
	return 0;
}

static int check_offered(struct controller *c, struct deadline d, struct err *err)
{
	int rc = controller_expandable(c, d, err);

	if (rc < 0)
		return err_recode(err, ERR_UNAVAILABLE);
	return rc == EXPANDABLE_NOT
	               ? err_set(err, ERR_UNIMPLEMENTED,
	                         "volumes cannot be expanded: DPF's CRD does not let spec.resources "
	                         "of a DPUVolume change")
	               : 0;
}

/* The error message follows the object's name. */
static int check_growth_limit(const struct dpu_volume *v, const struct volume_growth *r,
                              struct err *err)
{
	int64_t have = v->capacity > v->requested ? v->capacity : v->requested;
	char is[64], most[64];

	if (!r->limit || have <= r->limit)
		return 0;
	return err_set(err, ERR_RANGE, "%s %s, more than limit_bytes %s",
	               have == v->capacity ? "has" : "is to get", str_bytes((uint64_t)have, is),
	               str_bytes((uint64_t)r->limit, most));
}

static int check_growing_volume(const struct dpu_volume *v, const struct volume_growth *r,
                                struct err *err)
{
	if (v->deleting)
		return err_set(err, ERR_ABORTED, "volume %s is being deleted", v->name);
	if (r->cap && (volume_cap_check(r->cap, provenance_emulation(v), "VolumeCapability", err) ||
	               provenance_check_type(v, r->cap->type, err)))
		return -1;
	return check_growth_limit(v, r, err) ? err_wrap(err, "CapacityRange: volume %s", v->name)
	                                     : 0;
}

/* ---- asking ---- */

static struct json *growth_patch(const struct json *object, const struct dpu_volume *v,
                                 const struct volume_growth *r)
{
	struct json *patch = json_object();

	json_set_str(json_sub(patch, "metadata"), "resourceVersion",
	             json_str(object, "metadata.resourceVersion"));
	/* Raises the limit of an earlier request if it is too small for this one. */
	dpu_volume_set_size(patch, r->required,
	                    !v->limit || v->limit >= r->required ? 0
	                    : r->limit                           ? r->limit
	                                                         : r->required);
	return patch;
}

/*
 * Reads the volume and requests the size, unless the size was requested before. *ret is the newest
 * state.
 */
static int request_growth(const struct volume_growth *r, struct await *a, struct json **ret,
                          struct err *err)
{
	const struct controller *c = a->c;
	struct dpu_volume v;

	for (int i = 0; i < TRIES; i++) {
		struct json *object AUTO(json_free) = NULL, *patch AUTO(json_free) = NULL;
		int rc = kube_get(c->kube, a->kind, c->namespace, a->name, a->d, &object, err);

		if (rc == KUBE_ABSENT)
			break;
		if (rc < 0 || dpu_volume_decode(object, &v, err))
			return await_wrap(a, err);
		if (check_growing_volume(&v, r, err))
			return -1;
		if (v.requested < r->required) {
			/*
			 * Without a resourceVersion, a PATCH could reduce a size that another
			 * client has raised.
			 */
			if (str_empty(json_str(object, "metadata.resourceVersion")))
				return err_set(err, ERR_UNAVAILABLE,
				               "%s: metadata.resourceVersion is missing", a->ref);
			patch = growth_patch(object, &v, r);
			json_free(TAKE(object));
			rc = kube_patch(c->kube, a->kind, c->namespace, a->name, patch, a->d,
			                &object, err);
			kill_point("expand volume: PATCH answered");
		}
		if (rc == KUBE_ABSENT)
			break;
		if (rc == 0) {
			*ret = TAKE(object);
			return 0;
		}
		/* The checked state no longer exists, so the PATCH can never be executed. */
		if (err->code != ERR_ABORTED || i == TRIES - 1)
			return await_wrap(a, err);
		err_clear(err);
	}
	if (await_settled(a, err))
		return -1;
	return err_set(err, ERR_NOT_FOUND, "volume not found: there is no %s", a->ref);
}

/* Refuses, because an earlier call's PATCH that had no answer may still be executed. */
static int refuse_unproven(const struct await *a, struct err *err)
{
	if (code_is_open(err->code) ||
	    !kube_may_change(a->c->kube, a->kind, a->c->namespace, a->name))
		return -1;
	IGNORE_RESULT(err_recode(err, ERR_UNAVAILABLE));
	return err_wrap(err, KUBE_PERHAPS_DONE);
}

/* ---- waiting ---- */

struct growth_wait {
	const struct volume_growth *r;
	struct dpu_volume v;
};

static int grown_readiness(void *arg, const struct json *object, struct str *why, struct err *err)
{
	struct growth_wait *w = arg;
	char have[64], want[64];

	if (dpu_volume_decode(object, &w->v, err))
		return -1;
	if (w->v.deleting)
		return err_set(err, ERR_ABORTED, "is being deleted");
	if (w->v.capacity && w->v.capacity >= w->r->required)
		return 0;
	if (why) {
		str_addf(why, "has %s, expected %s (status.state.volumeInfo.capacity.storage)",
		         str_bytes((uint64_t)w->v.capacity, have),
		         str_bytes((uint64_t)w->r->required, want));
		state_describe(object, "", why);
	}
	return await_failed(object, err) ? -1 : AWAIT_NOT_YET;
}

static int wait_grown(const struct volume_growth *r, struct await *a, struct json *object,
                      struct dpu_volume *ret, struct err *err)
{
	struct growth_wait w = { .r = r };

	if (!object_uid(object, a->ref, err)) {
		json_free(object);
		return -1;
	}
	if (await_ready(a, object, EXPAND_GOAL, grown_readiness, &w, err))
		return code_is_open(err->code) ? -1 : err_recode(err, ERR_UNAVAILABLE);
	*ret = w.v;
	if (check_growth_limit(&w.v, r, err))
		return err_wrap(err, "CapacityRange: volume %s", a->name);
	return 0;
}

/* ---- the call ---- */

/* A share's size is set by its server, and a raw block volume has no filesystem to grow. */
static bool node_grows(const struct dpu_volume *v, const struct volume_growth *r)
{
	const char *type = provenance_get(v, ANNOTATION_ACCESS_TYPE);

	if (provenance_emulation(v) == EMULATION_VIRTIOFS)
		return false;
	if (r->cap)
		return r->cap->type == ACCESS_MOUNT;
	return !str_eq(type, access_type_name(ACCESS_BLOCK));
}

int volume_expand(struct controller *c, const struct volume_growth *r, struct deadline d,
                  struct grown_volume *ret, struct err *err)
{
	struct await a AUTO(await_close) = { .c = c };
	struct json *object = NULL;
	struct dpu_volume v;

	if (check_offered(c, d, err) || check_growth_range(r, err))
		return -1;
	d = controller_deadline(c, d);
	/* Not a valid object name. */
	if (!dns1123_subdomain(r->volume))
		return err_set(err, ERR_NOT_FOUND, "volume not found: there is no DPUVolume %s/%s",
		               c->namespace, r->volume);
	if (await_open(c, &dpu_volume_kind, r->volume, d, &a, err))
		return err_recode(err, ERR_UNAVAILABLE);
	if (request_growth(r, &a, &object, err))
		return refuse_unproven(&a, err);
	if (wait_grown(r, &a, object, &v, err))
		return -1;
	kill_point("expand volume: done, not answered");
	*ret = (struct grown_volume) { .capacity = v.capacity, .node_grows = node_grows(&v, r) };
	return 0;
}
