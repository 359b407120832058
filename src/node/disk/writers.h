/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a process has a disk, or a partition of it, open for writing.
 * device_check_unused() does not detect such a process, because it detects only exclusive opens
 * (claims). Changes nothing. Any thread; no state.
 */
#pragma once

#include "common/deadline.h"
#include "node/device/partitions.h"
#include "node/mount/mount.h"
#include "node/node.h"

/* A disk, its partitions and this process's mount table. */
struct written_disk {
	const struct node *node;
	const struct mount_table *table; /* all mounts of this process */
	const struct device *dev;
	const struct partitions *partitions;
};

struct writers {
	const char *kind; /* subject of the error: "process" or "loop device"; NULL: unknown */
	bool open;        /* a process, or an idle loop device, has the disk or a partition open */
	char idle[260]; /* an idle loop device over the disk (kubelet leaves some behind), or "" */
};

/*
 * Returns 0 if no process can write to the disk. FAILED_PRECONDITION: a process has the disk open
 * for writing, or a loop device that it backs is in use; the message names the processes or loop
 * devices. UNAVAILABLE: the check failed, or did not complete in time.
 */
int writers_refuse(const struct written_disk *w, struct deadline d, struct writers *ret,
                   struct err *err) MUST_CHECK;
/*
 * Like writers_refuse(), for a disk that is about to be staged. Checks only a disk that has
 * partitions, because scanning all processes is too expensive for every stage. Does not check
 * claims, so call device_check_unused() as well.
 */
int writers_refuse_of_partitions(const struct node *n, const struct device *dev, struct deadline d,
                                 struct err *err) MUST_CHECK;
