/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a volume's filesystem to the size that its device already has. A device that has not grown
 * is OUT_OF_RANGE. Raw block has nothing to grow here, and a share is as large as its server says.
 * Never shrinks; a repeated expansion changes nothing.
 */
#include "node/node.h"

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "node/located.h"
#include "node/mount/mkfs.h"

static int check_range(const struct expand_request *r, const struct device *dev, struct err *err)
{
	char want[64], have[64];

	if (r->required > dev->size)
		return err_set(err, ERR_RANGE,
		               "%s asked for, but its device %s has %s: "
		               "the backend has not grown it",
		               str_bytes(r->required, want), dev->path, str_bytes(dev->size, have));
	if (r->limit && dev->size > r->limit)
		return err_set(err, ERR_RANGE, "at most %s asked for, but its device %s has %s",
		               str_bytes(r->limit, want), dev->path, str_bytes(dev->size, have));
	return 0;
}

static int check_type(const struct expand_request *r, const struct located *l, struct err *err)
{
	bool block = l->place.kind == PLACE_BLOCK;

	if (!r->cap || (r->cap->type == ACCESS_BLOCK) == block)
		return 0;
	return err_set(err, ERR_INVALID, "VolumeCapability says %s, but %s shows %s",
	               access_type_name(r->cap->type), l->place.path,
	               block ? "raw block" : "a filesystem");
}

/*
 * *ret: a read-write mount of the filesystem, through which the tools can grow it; NULL when this
 * node has none. A read-write mount whose filesystem the kernel made read-only after an error is
 * neither: nothing would grow, and no later stage is due that would do it.
 */
static int find_writable_mount(const struct located *l, const struct mount **ret, struct err *err)
{
	const struct mount *m = NULL;

	*ret = NULL;
	while ((m = mount_of(&l->table, l->place.m->devno, "/", m))) {
		if (mount_turned_read_only(m))
			return err_set(
				err, ERR_PRECONDITION,
				"the %s at %s was made read-only by the kernel after an error (see "
				"the node's kernel log) and cannot grow: delete the pods that use "
				"it, so that it is checked, mounted again and grown by their "
				"successors",
				m->fs_type, m->target);
		if (!m->read_only && !*ret)
			*ret = m;
	}
	return 0;
}

static int expand(struct node *n, const struct expand_request *r, struct deadline d,
                  struct located *l, struct err *err)
{
	const struct mount *m;

	if (locate(n, r->volume_id, r->path, l, err) || check_type(r, l, err))
		return -1;
	if (l->place.kind == PLACE_SHARE)
		return 0;
	if (located_open(l, err) || check_range(r, &l->dev, err))
		return -1;
	if (l->place.kind == PLACE_BLOCK)
		return 0;
	kill_point("expand: device is large enough");
	if (find_writable_mount(l, &m, err))
		return -1;
	/* Without a read-write mount it grows at the next read-write stage. */
	return m ? fs_grow(m->fs_type, l->dev.path, m->target, d, err) : 0;
}

int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err)
{
	struct located l AUTO(located_clear) = LOCATED_INIT;

	if (expand(n, r, deadline_reserve(d, 1000, 5), &l, err))
		return err_wrap(err, "expand volume %s", r->volume_id);
	kill_point("expand: done, not answered");
	*ret_bytes = l.dev.size;
	return 0;
}
