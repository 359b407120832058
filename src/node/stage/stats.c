/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of a volume. mountinfo tells which kind of volume is at the path; a filesystem is asked
 * through the guard, of a block device the size is taken. A path where nothing is mounted is never
 * asked: the answer would be about the host's own disk. The filesystem is asked through its staging
 * path, because a probe keeps its mount busy and kubelet may unpublish the target meanwhile.
 */
#include "node/stage/stats.h"

#include "common/cleanup.h"
#include "node/target/guard.h"
#include "node/target/located.h"

static int filesystem_stats(struct node *n, const struct located *l, struct volume_stats *ret,
                            struct err *err)
{
	const char *path = mountpoint_probe_path(&l->table, &l->mountpoint);
	struct statvfs fs;

	if (guard_statvfs(n->guard, l->mountpoint.disk, path, &fs, err))
		return -1;
	ret->total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
	ret->available_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	ret->used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
	ret->total_inodes = fs.f_files;
	ret->free_inodes = fs.f_ffree;
	ret->used_inodes = fs.f_files - fs.f_ffree;
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
