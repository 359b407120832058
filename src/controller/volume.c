/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a DPUVolume.
 *
 * Create: watch the name, POST, check each state until the volume is bound. When the POST finds an
 * object of that name, it is read and compared instead. Before an error that the sidecar takes as
 * final ("nothing happened") the object is removed, or the error becomes ABORTED: volume_undo.c.
 * Owns nothing beyond a call; waits hold no lock but the caller's volume key.
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
#define POST_TRIES 3 /* for objects that are deleted between our POST and our GET */

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
	return await_fail(a, err, ERR_RANGE, "CapacityRange: ", "was made with %s, %s %s",
	                  str_bytes((uint64_t)v->capacity, have),
	                  small ? "less than required_bytes" : "more than limit_bytes",
	                  str_bytes((uint64_t)(small ? r->required : r->limit), bound));
}

/* ---- create ---- */

/*
 * Has nobody got the volume yet? external-provisioner, which alone sends pv/name, calls again only
 * while there is no PersistentVolume of that name. So whatever earlier calls have answered, no pod
 * could use the volume, and it holds no data. Its size alone proves nothing: it may have grown
 * since it was handed out.
 */
static bool nobody_has_it(const struct dpu_volume *v, const struct volume_request *r)
{
	return str_eq(kvs_get(&r->parameters, PARAM_PV_NAME), r->name) &&
	       str_eq(provenance_get(v, ANNOTATION_PV_NAME), r->name);
}

/* The volume of this very request got another size, after the call that made it had given up. */
static int refuse_size(const struct dpu_volume *v, const struct volume_request *r, const char *ref,
                       const char *why, enum provenance_owner owner, struct err *err)
{
	/* Final, so it is removed: volume_undo(). */
	if (owner == PROVENANCE_OWN && nobody_has_it(v, r))
		return err_set(err, ERR_RANGE, "CapacityRange: %s: %s", ref, why);
	return err_set(err, ERR_ABORTED,
	               "%s was made for this request, but %s. Whether somebody has got it is not "
	               "known: delete it if nobody uses it",
	               ref, why);
}

/* Can the object that exists already be the volume of this request? */
static int check_found_volume(const struct controller *c, const struct json *found,
                              const struct volume_request *r, const char *ref, struct err *err)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX / 2);
	enum provenance_owner owner;
	enum provenance_size size;
	struct dpu_volume v;

	if (dpu_volume_decode(found, &v, err))
		return err_wrap(err, "%s", ref);
	owner = provenance_owner(c, &v, r->name);
	if (owner == PROVENANCE_OTHER)
		return err_set(err, ERR_EXISTS, "%s already exists for another volume, \"%s\"", ref,
		               provenance_get(&v, ANNOTATION_NAME));
	if (v.deleting)
		return err_set(err, ERR_ABORTED, "%s is being deleted; retry when it is gone", ref);
	size = provenance_fits(&v, r, &why) ? provenance_size(&v, r, &why) : PROVENANCE_SIZE_OTHER;
	if (size == PROVENANCE_SIZE_OTHER)
		return err_set(err, ERR_EXISTS,
		               "volume already exist but with different parameters: %s: %s", ref,
		               why.ptr);
	return size == PROVENANCE_SIZE_FITS ? 0 : refuse_size(&v, r, ref, why.ptr, owner, err);
}

/* Creates the object of this request, or reads the one that exists. */
static int obtain_volume(const struct controller *c, const struct volume_request *r,
                         struct await *a, struct json **ret, struct err *err)
{
	struct json *object AUTO(json_free) = provenance_encode(c, a->name, r);

	for (int i = 0; i < POST_TRIES; i++) {
		struct json *got AUTO(json_free) = NULL;
		int rc = await_create(a, object, &got, err);

		kill_point("create: POST answered");
		if (rc == KUBE_EXISTS) {
			rc = await_find(a, &got, err);
			if (rc == KUBE_ABSENT)
				continue;
			if (rc == 0 && check_found_volume(c, got, r, a->ref, err))
				return -1;
		}
		if (rc < 0)
			return await_wrap(a, err);
		*ret = TAKE(got);
		return 0;
	}
	return err_set(err, ERR_ABORTED, "%s comes and goes; is somebody else making it?", a->ref);
}

/*
 * Some caller may have got a volume that is bound, or was: DPF may take the phase back, and its
 * data stay. What cannot be read may be such a one.
 */
static bool was_bound_before(const struct json *object)
{
	struct err unreadable = ERR_INIT;
	struct dpu_volume v;

	return dpu_volume_decode(object, &v, &unreadable) || dpu_volume_was_bound(&v);
}

static int create_and_wait(const struct controller *c, const struct volume_request *r,
                           struct await *a, struct dpu_volume *v, bool *was_bound, struct err *err)
{
	struct json *object AUTO(json_free) = NULL;

	if (obtain_volume(c, r, a, &object, err) || !object_uid(object, a->ref, err))
		return -1;
	*was_bound = was_bound_before(object);
	if (await_ready(a, TAKE(object), CREATE_GOAL, bound_readiness, v, err))
		return -1;
	if (check_capacity(v, r, a, err) == 0)
		return 0;
	*was_bound &= !nobody_has_it(v, r);
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
	bool was_bound = false;
	struct dpu_volume v;

	d = controller_deadline(c, d);
	if (await_open(c, &dpu_volume_kind, name, d, &a, err))
		return err_recode(err, ERR_UNAVAILABLE);
	if (create_and_wait(c, r, &a, &v, &was_bound, err))
		return volume_undo(c, r->name, was_bound, &a, err);
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

/* Besides 0 and -1: nothing was done, and only a read from etcd shows what there is. */
enum { NOT_PROVEN = 1 };

/*
 * The DELETE names the uid that the API server's cache has shown, and is refused when the volume is
 * another one by now. So the usual delete costs etcd no read. One that is refused deletes nothing
 * else: a DELETE before it may have had no answer, and the new volume may have been handed out.
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

	/* No object can have such a name. */
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
