/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detaching: the attachment is found by its derived name, not through the volume, which may be gone while its
 * attachment still holds a function of a DPU.  Attachments with names of other makers are theirs.
 */
#include "controller/publish.h"

#include "common/dpf/dpu_attachment.h"
#include "controller/await.h"
#include "controller/names.h"

#define UNPUBLISH_GOAL "timeout occurred while waiting for volume attachment deletion"

static int detach(const struct controller *c, const char *volume, const char *node,
                  struct deadline d, struct err *err)
{
	AUTO(json_free) struct json *object = NULL;
	struct await a AUTO(await_close) = { .c = c };
	char name[OBJECT_NAME_MAX + 1];
	struct dpu_attachment_key key;
	int rc;

	if (!attachment_object_name(node, volume, name))
		return 0;
	if (await_open(c, &dpu_attachment_kind, name, d, &a, err))
		return -1;
	rc = kube_get(c->kube, &dpu_attachment_kind, c->namespace, name, d, &object, err);
	if (rc)
		return rc < 0 ? err_wrap(err, "%s", a.ref) : 0;
	key = dpu_attachment_key(object);
	/* "a-b" on "c" and "b-c" on "a" share a name: this one is the other. */
	if (!str_eq(key.volume, volume) || !str_eq(key.node, node))
		return 0;
	return await_deleted(&a, object, UNPUBLISH_GOAL, err);
}

struct collect {
	const char *volume;
	struct strs *nodes;
};

static int collect_node(void *arg, const struct json *item, struct err *err)
{
	const struct collect *into = arg;
	struct dpu_attachment_key key = dpu_attachment_key(item);
	char name[OBJECT_NAME_MAX + 1];

	(void)err;
	if (str_eq(key.volume, into->volume) &&
	    attachment_object_name(key.node, key.volume, name) && str_eq(name, key.name))
		strs_add(into->nodes, key.node);
	return 0;
}

static int detach_everywhere(const struct controller *c, const char *volume, struct deadline d,
                             struct err *err)
{
	struct strs nodes AUTO(strs_clear) = STRS_INIT;
	struct collect into = { volume, &nodes };

	if (kube_list(c->kube, &dpu_attachment_kind, c->namespace, NULL, collect_node, &into, d,
	              err))
		return err_wrap(err, "where is volume %s attached?", volume);
	for (size_t i = 0; i < nodes.n; i++)
		if (detach(c, volume, nodes.v[i], d, err))
			return -1;
	return 0;
}

int unpublish_volume(const struct controller *c, const char *volume, const char *node,
                     struct deadline d, struct err *err)
{
	d = controller_deadline(c, d);
	if (str_empty(node))
		return detach_everywhere(c, volume, d, err);
	return detach(c, volume, node, d, err);
}
