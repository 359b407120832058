/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a DPUVolume.
 *
 * To create a volume, the driver watches the name, sends the POST, and checks each state until the
 * volume is bound. If an object of that name already exists, it is read and compared instead.
 * Before an error that the sidecar treats as final ("nothing happened"), the object is removed, or
 * the error becomes ABORTED (volume_undo.c). Owns nothing beyond a call; waits hold no lock except
 * the caller's volume key.
 */
#include "controller/volume.h"

#include "common/kill_point.h"
#include "volume/context_keys.h"
#include "common/thread.h"
#include "controller/attachments.h"
#include "controller/await.h"
#include "controller/readiness.h"
#include "controller/names.h"
#include "controller/volume_provenance.h"
#include "controller/volume_read.h"
#include "controller/volume_undo.h"

#define CREATE_GOAL "timeout occurred while waiting for volume creation"
#define DELETE_GOAL "timeout occurred while waiting for volume deletion"
#define POST_TRIES 3 /* for objects that are deleted between this call's POST and GET */

static int bound_readiness(void *arg, const struct json *object, struct str *why, struct err *err)
{
	return volume_readiness(object, arg, why, err);
}

static int check_capacity(const struct dpu_volume *v, const struct volume_request *r,
                          struct await *a, struct err *err)
{
	char have[64], bound[64];
	bool small = v->capacity < r->required;

	if (provenance_capacity_fits(v, r->required, r->limit))
		return 0;
	return await_fail(a, err, ERR_RANGE, "CapacityRange: ", "was created with %s, %s %s",
	                  str_bytes((uint64_t)v->capacity, have),
	                  small ? "less than required_bytes" : "more than limit_bytes",
	                  str_bytes((uint64_t)(small ? r->required : r->limit), bound));
}

/* ---- create ---- */

/*
 * Returns true if no client has received the volume yet. Only external-provisioner sends pv/name,
 * and it repeats the call only while no PersistentVolume has that name. So whatever earlier calls
 * have answered, no pod could use the volume, and the volume holds no data. Its size proves
 * nothing, because it may have grown since it was returned.
 */
static bool nobody_has_it(const struct dpu_volume *v, const struct volume_request *r)
{
	return str_eq(kvs_get(&r->parameters, PARAM_PV_NAME), r->name) &&
	       str_eq(provenance_get(v, ANNOTATION_PV_NAME), r->name);
}

/*
 * Refuses a volume that was created for exactly this request, but was given a different size after
 * the call that created it had timed out.
 */
static int refuse_size(const struct dpu_volume *v, const struct volume_request *r, const char *ref,
                       const char *why, enum provenance_owner owner, struct err *err)
{
	/* A final code, so volume_undo() removes the volume. */
	if (owner == PROVENANCE_OWN && nobody_has_it(v, r))
		return err_set(err, ERR_RANGE, "CapacityRange: %s: %s", ref, why);
	return err_set(err, ERR_ABORTED,
	               "%s was created for this request, but %s. Another client may have "
	               "received it: delete it if it is not in use",
	               ref, why);
}

/*
 * Returns true if the object was created for exactly this request, and admission has changed it. No
 * caller has received such an object, because this driver refuses it in every call. A size that
 * differs proves this only until the volume is bound, because a volume that was returned may have
 * grown.
 */
static bool is_unfit(const struct dpu_volume *v, const struct volume_request *r, bool made,
                     bool size_only, enum provenance_owner owner)
{
	if (made)
		return true;
	return owner == PROVENANCE_OWN && provenance_is_of_request(v, r) &&
	       (!dpu_volume_was_bound(v) || (!size_only && nobody_has_it(v, r)));
}

/* Sets a final code, so the object is removed. */
static int refuse_unfit(struct creation *cr, struct await *a, const struct dpu_volume *v,
                        const char *why, struct err *err)
{
	cr->unfit = xstrdup(v->uid);
	return await_fail(a, err, ERR_PRECONDITION, "",
	                  "differs from the request: %s; does an admission policy or webhook "
	                  "change DPUVolumes?",
	                  why);
}

/*
 * Checks whether the object can be the volume of this request. `made`: the object is the answer to
 * this call's POST, which admission may have changed.
 */
static int check_volume(const struct controller *c, const struct json *found,
                        const struct volume_request *r, bool made, struct creation *cr,
                        struct await *a, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX / 2);
	enum provenance_owner owner;
	enum provenance_size size;
	struct dpu_volume v;
	bool fits;

	if (dpu_volume_decode(found, &v, err))
		return err_wrap(err, "%s", a->ref);
	owner = provenance_owner(c, &v, r->name);
	if (owner == PROVENANCE_OTHER && !made)
		return err_set(err, ERR_EXISTS, "%s already exists for another volume, \"%s\"",
		               a->ref, provenance_get(&v, ANNOTATION_NAME));
	if (v.deleting)
		return err_set(err, ERR_ABORTED, "%s is being deleted; retry after its deletion",
		               a->ref);
	fits = provenance_fits(&v, r, &why);
	size = fits ? provenance_size(&v, r, &why) : PROVENANCE_SIZE_OTHER;
	if (size == PROVENANCE_SIZE_OTHER && is_unfit(&v, r, made, fits, owner))
		return refuse_unfit(cr, a, &v, why.ptr, err);
	if (size == PROVENANCE_SIZE_OTHER)
		return err_set(err, ERR_EXISTS,
		               "volume already exist but with different parameters: %s: %s", a->ref,
		               why.ptr);
	return size == PROVENANCE_SIZE_FITS ? 0 : refuse_size(&v, r, a->ref, why.ptr, owner, err);
}

/* Creates the object of this request, or reads the existing object of that name. */
static int obtain_volume(const struct controller *c, const struct volume_request *r,
                         struct creation *cr, struct await *a, struct json **ret, struct err *err)
{
	struct json *object AUTO(json_free) = provenance_encode(c, a->name, r);

	for (int i = 0; i < POST_TRIES; i++) {
		struct json *got AUTO(json_free) = NULL;
		int rc = await_create(a, object, &got, err);
		bool made = rc == 0;

		kill_point("create: POST answered");
		if (rc == KUBE_EXISTS) {
			rc = await_find(a, &got, err);
			if (rc == KUBE_ABSENT)
				continue;
		}
		if (rc < 0)
			return await_wrap(a, err);
		if (check_volume(c, got, r, made, cr, a, err))
			return -1;
		*ret = TAKE(got);
		return 0;
	}
	return err_set(err, ERR_ABORTED,
	               "%s is repeatedly created and deleted; check whether "
	               "another client creates it",
	               a->ref);
}

/*
 * Returns true if a caller may have received the volume, because it is or was bound: DPF may reset
 * the phase, while the data stay. Also returns true for an unreadable state, which may belong to
 * such a volume.
 */
static bool was_bound_before(const struct json *object)
{
	struct err unreadable = ERR_INIT;
	struct dpu_volume v;

	return dpu_volume_decode(object, &v, &unreadable) || dpu_volume_was_bound(&v);
}

static int create_and_wait(const struct controller *c, const struct volume_request *r,
                           struct creation *cr, struct await *a, struct dpu_volume *v,
                           struct err *err)
{
	struct json *object AUTO(json_free) = NULL;

	if (obtain_volume(c, r, cr, a, &object, err) || !object_uid(object, a->ref, err))
		return -1;
	cr->was_bound = was_bound_before(object);
	if (await_ready(a, TAKE(object), CREATE_GOAL, bound_readiness, v, err))
		return -1;
	if (check_capacity(v, r, a, err) == 0)
		return 0;
	cr->was_bound &= !nobody_has_it(v, r);
	return -1;
}

FRAME_OF_ITS_OWN static const char *object_name(const char *volume, struct arena *arena)
{
	char name[OBJECT_NAME_MAX + 1];

	volume_object_name(volume, name);
	return arena_strdup(arena, name);
}

int volume_create(const struct controller *c, const struct volume_request *r, struct deadline d,
                  struct arena *arena, struct created_volume *ret, struct err *err)
{
	const char *name = object_name(r->name, arena);
	struct await a AUTO(await_close) = { .c = c };
	struct creation cr AUTO(creation_clear) = { .was_bound = false };
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (await_open(c, &dpu_volume_kind, name, d, &a, err))
		return err_recode(err, ERR_UNAVAILABLE);
	if (create_and_wait(c, r, &cr, &a, &v, err))
		return volume_undo(c, r->name, &cr, &a, err);
	kill_point("create: done, not answered");
	*ret = (struct created_volume) {
		.id = name,
		.capacity = v.capacity,
		.context = provenance_context(&v, &r->parameters, arena),
	};
	return 0;
}

/* ---- delete ---- */

static int check_detached(const struct controller *c, const char *id, struct deadline d,
                          struct err *err)
{
	struct attachment_scan scan AUTO(attachment_scan_clear) = { .volume = id };
	char more[40] = "";

	if (attachments_scan(c, d, &scan, err))
		return err_wrap(err, "listing the attachments of volume %s", id);
	if (!scan.n_elsewhere)
		return 0;
	if (scan.n_elsewhere > 1)
		snprintf(more, sizeof(more), " and %zu more", scan.n_elsewhere - 1);
	return err_set(err, ERR_PRECONDITION,
	               "volume %s is attached to node %s (DPUVolumeAttachment %s/%s%s)", id,
	               scan.elsewhere, c->namespace, scan.elsewhere_name, more);
}

/*
 * An additional return value: nothing was done, because only a read from etcd shows the current
 * state.
 */
enum { NOT_PROVEN = 1 };

/*
 * Deletes the volume. The precondition is the UID in the API server's cache, so a replaced volume
 * is not deleted. So a normal delete reads nothing from etcd. After a refusal no other uid is
 * deleted, because an earlier DELETE may have had no answer, and the new volume may have been
 * returned to a caller.
 */
static int delete_cached(const struct controller *c, struct await *a, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	const char *uid;
	int rc = volume_read_cached(c, a->name, a->d, &object, err);

	if (rc < 0)
		return -1;
	if (rc == KUBE_ABSENT || json_at(object, "metadata.deletionTimestamp"))
		return NOT_PROVEN;
	uid = object_uid(object, a->ref, err);
	if (!uid || check_detached(c, a->name, a->d, err))
		return -1;
	rc = await_deleted_uid(a, uid, DELETE_GOAL, err);
	return rc == AWAIT_CHANGED ? await_refuse_replaced(a, err) : rc;
}

static int delete_read(const struct controller *c, struct await *a, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;
	int rc = kube_get(c->kube, a->kind, c->namespace, a->name, a->d, &object, err);

	if (rc < 0)
		return err_wrap(err, "%s", a->ref);
	if (rc == KUBE_ABSENT)
		return 0;
	if (check_detached(c, a->name, a->d, err))
		return -1;
	return await_deleted(a, object, DELETE_GOAL, err);
}

int volume_delete(const struct controller *c, const char *id, struct deadline d, struct err *err)
{
	struct await a AUTO(await_close) = { .c = c };
	int rc;

	/* The id is not a valid object name. */
	if (!dns1123_subdomain(id))
		return 0;
	if (await_open(c, &dpu_volume_kind, id, controller_deadline(c, d), &a, err))
		return -1;
	rc = delete_cached(c, &a, err);
	if (rc == NOT_PROVEN)
		rc = delete_read(c, &a, err);
	if (rc || await_settled(&a, err))
		return -1;
	kill_point("delete: done, not answered");
	return 0;
}
