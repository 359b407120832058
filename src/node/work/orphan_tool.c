/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects a tool by its lock, which the kernel releases when the last process that holds it ends.
 * Processes are scanned only to find the tool's name. An exclusive open would not detect every
 * tool, because some do not open the device exclusively. Never kills a tool.
 */
#include "node/work/orphan_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/holders/holders.h"
#include "node/work/disk_record.h"

#define LOCK_STEP_MS 20

static int refuse_orphan_tool(const struct node *n, const struct device *dev, struct deadline d,
                              struct err *err)
{
	const struct holders_query q = { .proc_root = n->o.proc_root,
		                         .disk = dev->devno,
		                         .ms = n->o.tuning.holders_ms,
		                         .files = n->o.tuning.holders_files };
	struct holders h AUTO(holders_clear) = { 0 };
	char *names AUTO(free) = NULL;

	holders_find(&q, d, &h);
	names = h.first.n ? strs_join(&h.first, ", ")
	                  : xasprintf("see lslocks, fuser %s", dev->path);
	return err_set(err, ERR_ABORTED,
	               "%s is locked by another process: a mkfs or e2fsck, or the stage of another "
	               "volume, still runs (%s); retry when it has ended",
	               dev->path, names);
}

int orphan_tool_lock(const struct node *n, const struct device *dev, int fd, struct deadline d,
                     struct err *err)
{
	struct deadline end = deadline_clamp(d, n->o.tuning.lock_ms);

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		struct err ignored = ERR_INIT;

		if (errno != EWOULDBLOCK)
			return err_sys_of(err, ERR_CALL_LOCK, errno, "lock %s", dev->path);
		if (deadline_sleep(end, LOCK_STEP_MS, &ignored, ""))
			return refuse_orphan_tool(n, dev, d, err);
	}
	return 0;
}

static int orphan_tool_check_disk(const struct node *n, const struct device *dev, struct deadline d,
                                  struct err *err)
{
	int fd AUTO(fd) = -1;

	if (device_open(dev, O_RDONLY, &fd, NULL, err) == 0)
		return orphan_tool_lock(n, dev, fd, d, err);
	if (!device_errno_is_gone(err->sys))
		return -1;
	err_clear(err);
	return 0;
}

int orphan_tool_check(const struct node *n, const char *volume_id, struct deadline d,
                      struct err *err)
{
	static const enum disk_record_kind kinds[] = { DISK_RECORD_MKFS, DISK_RECORD_E2FSCK,
		                                       DISK_RECORD_LUKS };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct device dev;
		dev_t ignored;
		int rc = disk_record_read(n, volume_id, kinds[i], &dev, &ignored, err);

		if (!rc)
			rc = orphan_tool_check_disk(n, &dev, d, err);
		if (rc >= 0)
			continue;
		if (err->code == ERR_ABORTED)
			return -1;
		err_wrap(err, "could not determine whether a mkfs or e2fsck still works on its "
		              "disk");
		return err_recode(err, ERR_UNAVAILABLE);
	}
	return 0;
}
