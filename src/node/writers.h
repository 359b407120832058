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

/* A disk, and what is known of it. */
struct written_disk {
	const struct node *node;
	const struct mount_table *table; /* of this process */
	const struct device *dev;
	const struct partitions *partitions;
};

struct writers {
	const char *kind; /* of a refusal: "process" or "loop device"; NULL: it is not known */
	bool open;        /* a process, or an idle loop device, has the disk or a partition open */
	char idle[260];   /* a loop device over it that nobody uses: kubelet leaves its own; "" */
};

/*
 * 0: nobody writes. FAILED_PRECONDITION: a process has it open for writing, or a loop device over
 * it is in use; the text names them. UNAVAILABLE: the look failed, or was not finished in time.
 */
int writers_refuse(const struct written_disk *w, struct deadline d, struct writers *ret,
                   struct err *err) MUST_CHECK;
/*
 * The same before a disk is staged, but only of a disk that has partitions: a look at all processes
 * is too dear for every stage. Claims are not looked for, and device_check_unused() is still due.
 */
int writers_refuse_of_partitions(const struct node *n, const struct device *dev, struct deadline d,
                                 struct err *err) MUST_CHECK;
