/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a volume's filesystem to the size that its device already has. OUT_OF_RANGE: the device has
 * not grown. For raw block there is no filesystem to grow, and the size of a share is determined by
 * its server. Never shrinks a filesystem; a repeated expansion changes nothing.
 */
#include "node/stage/expand.h"

#include <fcntl.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "node/disk/crypt.h"
#include "node/disk/fs_fault.h"
#include "node/disk/grow.h"
#include "node/target/located.h"
#include "volume/context_keys.h"

static int check_range(const struct expand_request *r, const struct device *dev, struct err *err)
{
	char want[64], have[64];

	if (r->required > device_capacity(dev))
		return err_set(err, ERR_RANGE,
		               "%s requested, but its device %s has %s: the backend has not "
		               "grown it",
		               str_bytes(r->required, want), dev->path,
		               str_bytes(device_capacity(dev), have));
	if (r->limit && device_capacity(dev) > r->limit)
		return err_set(err, ERR_RANGE, "at most %s requested, but its device %s has %s",
		               str_bytes(r->limit, want), dev->path,
		               str_bytes(device_capacity(dev), have));
	return 0;
}

static int check_type(const struct expand_request *r, const struct located *l, struct err *err)
{
	bool block = l->mountpoint.kind == MOUNTPOINT_BLOCK;

	if (!r->cap || (r->cap->type == ACCESS_BLOCK) == block)
		return 0;
	return err_set(err, ERR_INVALID, "VolumeCapability is for %s, but %s shows %s",
	               access_type_name(r->cap->type), l->mountpoint.path,
	               block ? "raw block" : "a filesystem");
}

/*
 * Returns a read-write mount of the filesystem, which the tools need to grow it, or NULL. A mount
 * whose filesystem the kernel has made read-only is returned as well: no later stage would grow it,
 * so the call must report the fault.
 */
static const struct mount *find_writable_mount(const struct located *l)
{
	const struct mount *m = NULL;

	while ((m = mount_of(&l->table, l->mountpoint.m->devno, "/", m)))
		if (!m->read_only || mount_turned_read_only(m))
			return m;
	return NULL;
}

static int expand_grow(struct node *n, const struct expand_request *r, struct deadline d,
                       const struct located *l, struct err *err)
{
	const struct mount *m = find_writable_mount(l);

	if (!m) /* the filesystem will grow at the next read-write stage */
		return 0;
	if (fs_fault_probe(n, &l->table, &l->mountpoint, GUARD_WRITE, err))
		return err_wrap(err, "it cannot grow");
	return grow_filesystem(n, r->volume_id, m->fs_type, l->dev.path, m->target, d, err);
}

/* Bytes of the disk that a grown container may leave unused: its header, and a part of a sector. */
#define CONTAINER_SLACK (CRYPT_HEADER_BYTES + 1024 * 1024)

/* Grows the container of an encrypted volume to its disk. */
static int expand_container(struct node *n, const struct expand_request *r, struct deadline d,
                            struct device *dev, struct err *err)
{
	const struct volume_params params = { .encryption = ENCRYPTION_LUKS2 };
	struct crypt_request c = {
		.node = n, .volume_id = r->volume_id, .params = &params, .keys = r->keys
	};
	struct device disk;
	int fd AUTO(fd) = -1;

	if (!dev->lower || dev->size + CONTAINER_SLACK >= dev->lower_size)
		return 0;
	if (!r->keys)
		return err_set(err, ERR_PRECONDITION,
		               "its LUKS2 container cannot grow without the passphrase: the secret "
		               "of the call has no " SECRET_PASSPHRASE "; next: set "
		               "csi.storage.k8s.io/node-expand-secret-name and -namespace in the "
		               "StorageClass (for this volume: spec.csi.nodeExpandSecretRef of the "
		               "PersistentVolume)");
	if (device_by_number(&n->o.world, dev->lower, &disk, err) ||
	    device_open(&disk, O_RDONLY, &fd, NULL, err))
		return err->code ? -1 : err_set(err, ERR_UNAVAILABLE, "its disk no longer exists");
	c.disk = &disk;
	c.fd = fd;
	if (crypt_resize(&c, d, err))
		return -1;
	kill_point("expand: container grown");
	return device_by_number(&n->o.world, dev->devno, dev, err)
	               ? err->code ? -1 : err_set(err, ERR_UNAVAILABLE, "its container was closed")
	               : 0;
}

static int expand(struct node *n, const struct expand_request *r, struct deadline d,
                  struct located *l, struct err *err)
{
	if (locate(n, r->volume_id, r->path, l, err) || check_type(r, l, err))
		return -1;
	if (l->mountpoint.kind == MOUNTPOINT_SHARE)
		return 0;
	if (located_open(l, err) || check_range(r, &l->dev, err) ||
	    expand_container(n, r, d, &l->dev, err))
		return -1;
	if (l->mountpoint.kind == MOUNTPOINT_BLOCK)
		return 0;
	kill_point("expand: device is large enough");
	return expand_grow(n, r, d, l, err);
}

int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err)
{
	struct located l AUTO(located_clear) = LOCATED_INIT;

	if (expand(n, r, deadline_reserve(d, 1000, 5), &l, err))
		return err_wrap(err, "expand volume %s", r->volume_id);
	kill_point("expand: done, not answered");
	*ret_bytes = device_capacity(&l.dev);
	return 0;
}
