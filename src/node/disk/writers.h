/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a process write to a disk, or to a partition of it? A disk may be open without being
 * claimed, so that device_check_unused() does not see it. Changes nothing. Any thread; no state.
 */
#pragma once

#include "common/deadline.h"
#include "node/device/partitions.h"
#include "node/mount/mount.h"
#include "node/node.h"

/* A disk, with its partitions and the mounts of this process. */
struct written_disk {
	const struct node *node;
	const struct mount_table *table; /* of this process */
	const struct device *dev;
	const struct partitions *partitions;
};

struct writers {
	const char *kind; /* of a refusal: "process" or "loop device"; NULL: it is not known */
	bool open;        /* a process, or an idle loop device, has the disk or a partition open */
	char idle[260];   /* an unused loop device over it (kubelet leaves its own), or "" */
};

/*
 * 0: no process writes. FAILED_PRECONDITION: a process has it open for writing, or a loop device
 * over it is in use; the text names them. UNAVAILABLE: the check failed, or did not end in time.
 */
int writers_refuse(const struct written_disk *w, struct deadline d, struct writers *ret,
                   struct err *err) MUST_CHECK;
/*
 * The same before a disk is staged, but only of a disk that has partitions: a check of all
 * processes is too expensive for every stage. Claims are not checked: call device_check_unused() as
 * well.
 */
int writers_refuse_of_partitions(const struct node *n, const struct device *dev, struct deadline d,
                                 struct err *err) MUST_CHECK;
