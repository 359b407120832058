/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the usage of a volume. mountinfo determines the kind of volume at the path. A filesystem is
 * probed through the guard; for a block device its size is read. A path without a mount is never
 * probed, because the result would describe the host's own disk. The probe uses the staging path,
 * because a probe keeps its mount busy and kubelet may unpublish the target at the same time.
 */
#include "node/stage/stats.h"

#include "common/cleanup.h"
#include "node/target/guard.h"
#include "node/target/located.h"
#include "node/target/usage.h"

static int filesystem_stats(struct node *n, const struct located *l, struct volume_stats *ret,
                            struct err *err)
{
	const char *path = mountpoint_probe_path(&l->table, &l->mountpoint);
	struct usage bytes, inodes;
	struct statvfs fs;

	if (guard_statvfs(n->guard, l->mountpoint.disk, path, &fs, err))
		return -1;
	bytes = usage_bytes(&fs);
	inodes = usage_inodes(&fs);
	ret->total_bytes = bytes.total;
	ret->available_bytes = bytes.available;
	ret->used_bytes = bytes.used;
	ret->total_inodes = inodes.total;
	ret->free_inodes = inodes.available;
	ret->used_inodes = inodes.used;
	return 0;
}

int node_stats(struct node *n, const char *volume_id, const char *path, struct volume_stats *ret,
               struct err *err)
{
	struct located l AUTO(located_clear) = LOCATED_INIT;
	struct volume_stats stats = { 0 };
	int rc = locate(n, volume_id, path, &l, err);

	if (!rc && l.mountpoint.kind == MOUNTPOINT_BLOCK) {
		stats.block = true;
		stats.total_bytes = l.dev.size;
		rc = located_open(&l, err);
	} else if (!rc) {
		rc = filesystem_stats(n, &l, &stats, err);
	}
	if (rc)
		return err_wrap(err, "stats of volume %s", volume_id);
	*ret = stats;
	return 0;
}
