/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unstaging a share. Refuses before it changes anything while it is mounted elsewhere, also in
 * another mount namespace. The last unmount writes back what the kernel has of it and waits for the
 * server, so one that hangs is not unmounted: its answer may yet come. One that answers with an
 * errno is unmounted. A dead share is unmounted lazily: it has no data left to lose. A share has no
 * disk that could be checked for other holders.
 */
#include "node/share/unstage_share.h"

#include "common/kill_point.h"
#include "node/target/busy.h"
#include "node/target/share.h"

int unstage_share(struct unstaging *u, struct deadline d, struct err *err)
{
	int rc = share_probe(u->node, u->mountpoint.disk, u->mountpoint.path, err);

	if (rc < 0)
		return err_wrap(err, "its share is not unmounted, which would wait for its server");
	u->fs = u->mountpoint.disk;
	u->gone = rc == SHARE_DEAD;
	if (unstaging_refuse_published(u, err) ||
	    (!u->gone && unstaging_refuse_captured(u, d, err)))
		return -1;
	kill_point("unstage: nobody else shows the share");
	mount_table_keep(u->table, &u->mountpoint.m);
	if (busy_unmount(u->node, &u->mountpoint, u->gone, d, err))
		return -1;
	kill_point("unstage: share unmounted");
	return 0;
}
