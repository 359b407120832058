/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detaches volumes. The attachment is found by its derived name, not through the volume, which may
 * be deleted while its attachment still holds a function of a DPU. Attachments with other names are
 * left to their creators.
 *
 * A name does not prove to which volume and node an attachment belongs. If the index has the
 * attachment's uid, the DELETE is sufficient, because the API server refuses it if the object of
 * that name now has a different uid. If the index does not have the uid, the attachment is read.
 */
#include "controller/publish.h"

#include "dpf/dpu_attachment.h"
#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/mem.h"
#include "controller/attachments.h"
#include "controller/await.h"
#include "controller/names.h"

#define UNPUBLISH_GOAL "timeout occurred while waiting for volume attachment deletion"

/* An additional return value: the index does not have the uid; nothing was done. */
enum { NOT_KNOWN = 1 };

/*
 * Deletes the attachment whose uid the index has. If the object of that name has a different uid,
 * the attachment was deleted, perhaps by the first DELETE of this call, if that had no answer. A
 * newer attachment may serve a pod, so only a later call may detach it.
 */
static int detach_known(const char *volume, const char *node, struct await *a, struct err *err)
{
	char uid[ATTACHMENT_UID_MAX + 1];
	int rc;

	if (!attachments_know_uid(a->c, volume, node, uid))
		return NOT_KNOWN;
	rc = await_deleted_uid(a, uid, UNPUBLISH_GOAL, err);
	if (rc < 0)
		return -1;
	attachment_gone(a->c, volume, node, uid);
	return rc == AWAIT_CHANGED ? await_refuse_replaced(a, err) : await_settled(a, err);
}

static int detach_read(const char *volume, const char *node, struct await *a, struct err *err)
{
	const struct controller *c = a->c;
	struct json *object AUTO(json_free) = NULL;
	struct dpu_attachment_key key;
	int rc = kube_get(c->kube, &dpu_attachment_kind, c->namespace, a->name, a->d, &object, err);

	if (rc < 0)
		return err_wrap(err, "%s", a->ref);
	if (rc == KUBE_ABSENT)
		return await_settled(a, err);
	key = dpu_attachment_key(object);
	/*
	 * Volume "b-c" on node "a" and volume "c" on node "a-b" share a name; this attachment
	 * belongs to the other pair.
	 */
	if (!str_eq(key.volume, volume) || !str_eq(key.node, node))
		return 0;
	if (await_deleted(a, object, UNPUBLISH_GOAL, err))
		return -1;
	attachment_gone(c, key.volume, key.node, key.uid);
	return await_settled(a, err);
}

static int detach_from_node(const struct controller *c, const char *volume, const char *node,
                            struct deadline d, struct err *err)
{
	struct await a AUTO(await_close) = { .c = c };
	char name[OBJECT_NAME_MAX + 1];
	int rc;

	if (!attachment_object_name(node, volume, name))
		return 0;
	if (await_open(c, &dpu_attachment_kind, name, d, &a, err))
		return -1;
	rc = detach_known(volume, node, &a, err);
	return rc == NOT_KNOWN ? detach_read(volume, node, &a, err) : rc;
}

/* ---- from all nodes ---- */

struct detachment {
	struct json *object;
	const char *name, *node, *uid; /* of the object */
	struct await a;
};

struct detachments {
	const char *volume;
	struct detachment *v;
	size_t n;
};

static void detachments_clear(struct detachments *all)
{
	for (size_t i = 0; i < all->n; i++) {
		await_close(&all->v[i].a);
		json_free(all->v[i].object);
	}
	free(all->v);
}
DEFINE_AUTO_VALUE(struct detachments, detachments_clear);

static bool has_detachment(const struct detachments *all, const char *uid)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->v[i].uid, uid))
			return true;
	return false;
}

static int collect_detachment(void *arg, const struct json *item, struct err *err)
{
	struct detachments *all = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	char name[OBJECT_NAME_MAX + 1];
	struct json *object;

	if (!str_eq(key.volume, all->volume) ||
	    !attachment_object_name(key.node, key.volume, name) || !str_eq(name, key.name) ||
	    has_detachment(all, key.uid))
		return 0;
	if (!object_uid(item, key.name, err))
		return -1;
	object = json_copy(item);
	key = dpu_attachment_key(object);
	all->v = xrealloc(all->v, (all->n + 1) * sizeof(*all->v));
	all->v[all->n++] = (struct detachment) {
		.object = object, .name = key.name, .node = key.node, .uid = key.uid
	};
	return 0;
}

/*
 * Sends the DELETE even if the attachment is already being deleted. It may have been removed before
 * its events were watched, and then only the DELETE's answer shows that.
 */
static int begin_detachment(const struct controller *c, struct detachment *one, struct deadline d,
                            struct err *err)
{
	int rc;

	if (await_open(c, &dpu_attachment_kind, one->name, d, &one->a, err))
		return -1;
	kube_wait_expect(one->a.wait, one->uid);
	rc = kube_delete(c->kube, &dpu_attachment_kind, c->namespace, one->name, one->uid, d, err);
	kill_point("detach: one DELETE answered");
	if (rc < 0)
		return err_wrap(err, "%s", one->a.ref);
	if (rc == KUBE_REPLACED)
		return await_refuse_replaced(&one->a, err);
	if (rc == KUBE_ABSENT)
		await_close(&one->a);
	return 0;
}

/* Continues after an error, so that the other attachments are deleted. Returns the first error. */
static int begin_detachments(const struct controller *c, struct detachments *all, struct deadline d,
                             struct err *err)
{
	for (size_t i = 0; i < all->n; i++) {
		struct err another = ERR_INIT;

		IGNORE_RESULT(begin_detachment(c, &all->v[i], d, err->code ? &another : err));
	}
	return err->code ? -1 : 0;
}

/* All DELETEs are sent before the first wait, so that the DPUs detach at the same time. */
static int detach_everywhere(const struct controller *c, const char *volume, struct deadline d,
                             struct err *err)
{
	struct detachments all AUTO(detachments_clear) = { .volume = volume };

	if (attachments_each(c, volume, collect_detachment, &all, d, err))
		return err_wrap(err, "listing the attachments of volume %s", volume);
	if (begin_detachments(c, &all, d, err))
		return -1;
	for (size_t i = 0; i < all.n; i++) {
		if (all.v[i].a.wait && await_gone(&all.v[i].a, all.v[i].uid, UNPUBLISH_GOAL, err))
			return -1;
		attachment_gone(c, volume, all.v[i].node, all.v[i].uid);
	}
	return 0;
}

int volume_detach(const struct controller *c, const char *volume, const char *node,
                  struct deadline d, struct err *err)
{
	d = controller_deadline(c, d);
	if (str_empty(node) ? detach_everywhere(c, volume, d, err)
	                    : detach_from_node(c, volume, node, d, err))
		return -1;
	kill_point("detach: done, not answered");
	return 0;
}
