/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the few loop devices first, then all processes. Both checks include the disk's partitions.
 * A failed check does not prove that no process writes.
 */
#include "node/disk/writers.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "common/thread.h"
#include "node/holders/holders.h"
#include "node/holders/loops.h"

static int refuse_unknown_writer(const struct written_disk *w, const char *why, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE,
	               "could not determine whether a process writes to "
	               "%s: %s",
	               w->dev->path, why);
}

FRAME_OF_ITS_OWN int writers_refuse(const struct written_disk *w, struct deadline d,
                                    struct writers *ret, struct err *err)
{
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	struct str text AUTO(str_clear) = STR_INIT(600);
	struct holders h AUTO(holders_clear) = { 0 };
	const struct holders_query q = { .proc_root = w->node->o.proc_root,
		                         .disk = w->dev->devno,
		                         .writers = true };
	struct err unasked = ERR_INIT;
	int rc = loops_over(&w->node->o.world, w->table, w->dev->devno, w->partitions, &used, &idle,
	                    &unasked);

	*ret = (struct writers) { .kind = NULL };
	if (used.n) {
		ret->kind = "loop device";
		err_set(err, ERR_PRECONDITION,
		        "%s is still used through the loop device %s: unmount its filesystem, then "
		        "losetup -d",
		        w->dev->path, used.v[0]);
		return err_set_kind(err, ERR_KIND_HELD);
	}
	if (rc)
		return refuse_unknown_writer(w, unasked.msg, err);
	holders_find(&q, d, &h);
	holders_describe(&h, &q, w->dev->path, &text);
	if (h.n) {
		ret->kind = "process";
		err_set(err, ERR_PRECONDITION, "%s is still open for writing: %s", w->dev->path,
		        text.ptr);
		return err_set_kind(err, ERR_KIND_HELD);
	}
	if (!holders_saw_all(&h))
		return refuse_unknown_writer(w, text.ptr, err);
	ret->open = h.device_open || idle.n;
	snprintf(ret->idle, sizeof(ret->idle), "%.*s", (int)sizeof(ret->idle) - 1,
	         idle.n ? idle.v[0] : "");
	return 0;
}

int writers_refuse_of_partitions(const struct node *n, const struct device *dev, struct deadline d,
                                 struct err *err)
{
	struct partitions partitions AUTO(partitions_clear) = PARTITIONS_INIT;
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	const struct written_disk w = { n, &t, dev, &partitions };
	struct writers found;

	if (partitions_read(n->o.proc_root, dev->devno, &partitions, err))
		return -1;
	if (!partitions.n)
		return 0;
	return mount_table_read(n->o.proc_root, &t, err) ? -1 : writers_refuse(&w, d, &found, err);
}
