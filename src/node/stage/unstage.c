/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undoes what stage.c or the Go plugin has staged. The request has only a volume ID and a path, so
 * the staged volume is the one that mountinfo shows at the path; unstage_disk.c completes the
 * unstage of a disk. Errors name the processes that hold the volume, as far as this process can see
 * them.
 */
#include "node/stage/stage.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "node/target/busy.h"
#include "node/target/kubelet.h"
#include "node/gate/gatekeeper.h"
#include "node/work/job.h"
#include "node/work/disk_record.h"
#include "node/target/target.h"
#include "node/disk/queue_settings.h"
#include "node/disk/crypt.h"
#include "node/disk/unstage_disk.h"
#include "node/staged/unstaging.h"
#include "node/target/share.h"

/* Removes the file over which raw block was bound. A crash after the unmount may have left it. */
static int remove_block_file(const char *staging_path, const char *volume_id, struct err *err)
{
	char *file AUTO(free) = mountpoint_block_file(staging_path, volume_id);

	return target_remove(file, err);
}

/*
 * Unstages a share. Before any change, returns an error if the share is mounted elsewhere, even in
 * another mount namespace. The last unmount writes back the kernel's cached data and waits for the
 * server, so a share that hangs is not unmounted, because its server may still answer. A share that
 * returns an errno is unmounted. A dead share is unmounted lazily, because it has no data left to
 * lose. A share has no disk to be checked for other holders.
 */
static int unstage_share(struct unstaging *u, struct deadline d, struct err *err)
{
	int rc = share_probe(u->node, u->mountpoint.disk, u->mountpoint.path, err);

	if (rc < 0)
		return err_wrap(err, "its share is not unmounted, because the unmount would "
		                     "block on its server");
	u->fs = u->mountpoint.disk;
	u->gone = rc == SHARE_DEAD;
	if (unstaging_refuse_published(u, err) ||
	    (!u->gone && unstaging_refuse_captured(u, d, err)))
		return -1;
	kill_point("unstage: no other mount shows the share");
	mount_table_keep(u->table, &u->mountpoint.m);
	if (busy_unmount(u->node, &u->mountpoint, u->gone, d, err))
		return -1;
	kill_point("unstage: share unmounted");
	return 0;
}

static int unstage(struct unstaging *u, struct deadline d, struct err *err)
{
	switch (u->mountpoint.kind) {
	case MOUNTPOINT_NONE:
		return unstage_disk_finish(u, d, err);
	case MOUNTPOINT_FILESYSTEM:
	case MOUNTPOINT_BLOCK:
		return unstage_disk(u, d, err);
	case MOUNTPOINT_SHARE:
		return unstage_share(u, d, err);
	case MOUNTPOINT_OTHER:
		break;
	}
	return busy_unmount(u->node, &u->mountpoint, false, d, err);
}

int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct unstaging u = {
		.node = n,
		.volume_id = volume_id,
		.table = &t,
		.mountpoint = MOUNTPOINT_INIT,
	};
	int rc = job_forget(n->jobs, volume_id, err);

	if (!rc)
		rc = mount_table_read(n->o.proc_root, &t, err);
	if (!rc)
		rc = mountpoint_read_staged(&t, staging_path, volume_id, &u.mountpoint, err);
	d = deadline_reserve(d, 1000, 5);
	if (!rc)
		rc = kubelet_check_volume(n->o.kubelet_dir, &u.mountpoint, volume_id, err);
	if (!rc)
		rc = unstage(&u, d, err);
	mountpoint_clear(&u.mountpoint);
	if (!rc)
		rc = crypt_close_volume(n, volume_id, d, err);
	if (!rc)
		rc = remove_block_file(staging_path, volume_id, err);
	if (!rc)
		queue_settings_restore(n, volume_id);
	if (!rc)
		rc = disk_record_remove_unstage(n, volume_id, err);
	kill_point("unstage: done, not answered");
	gatekeeper_notify_unstaged(n->o.gate);
	return rc ? err_wrap(err, "unstage volume %s", volume_id) : 0;
}
