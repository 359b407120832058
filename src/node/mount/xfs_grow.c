/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows an xfs by its ioctls; the kernel rounds the size down to a usable one. Owns two descriptors
 * during a call.
 */
#include "node/mount/xfs_grow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "common/cleanup.h"

/*
 * The two requests, in the form that every kernel with xfs supports. Defined here because
 * xfs/xfs_fs.h is in a separate package.
 */
struct xfs_geometry {
	uint32_t block_bytes, rt_extent, ag_blocks, ags, log_blocks, sector_bytes, inode_bytes;
	uint32_t inode_percent;
	uint64_t blocks, rt_blocks, rt_extents, log_start;
	uint8_t uuid[16];
	uint32_t stripe_unit, stripe_width, version, flags, log_sector, rt_sector, dir_block;
};

struct xfs_growth {
	uint64_t blocks;
	uint32_t inode_percent;
};

#define XFS_GET_GEOMETRY _IOR('X', 100, struct xfs_geometry)
#define XFS_GROW_DATA _IOW('X', 110, struct xfs_growth)

static int xfs_device_bytes(const char *device, uint64_t *ret, struct err *err)
{
	int fd AUTO(fd) = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, ret) < 0)
		return err_sys(err, errno, "read the size of %s", device);
	return 0;
}

int xfs_grow(const char *device, const char *mounted_at, struct err *err)
{
	int fd AUTO(fd) = open(mounted_at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct xfs_geometry has = { .block_bytes = 0 };
	struct xfs_growth want;
	struct statfs type;
	uint64_t bytes;

	if (fd < 0 || fstatfs(fd, &type) < 0)
		return err_sys(err, errno, "open the xfs at %s", mounted_at);
	if (type.f_type != XFS_SUPER_MAGIC)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s: a filesystem other than xfs is mounted (magic 0x%lx)",
		               mounted_at, (unsigned long)type.f_type);
	if (xfs_device_bytes(device, &bytes, err))
		return -1;
	if (ioctl(fd, XFS_GET_GEOMETRY, &has) < 0)
		return err_sys(err, errno, "read the size of the xfs at %s", mounted_at);
	want = (struct xfs_growth) { bytes / has.block_bytes, has.inode_percent };
	if (want.blocks > has.blocks && ioctl(fd, XFS_GROW_DATA, &want) < 0)
		return err_sys(err, errno, "grow the xfs at %s from %ju to %ju blocks of %u bytes",
		               mounted_at, (uintmax_t)has.blocks, (uintmax_t)want.blocks,
		               has.block_bytes);
	return 0;
}
