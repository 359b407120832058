/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines the maximum number of volumes of this node (max_volumes_per_node of NodeGetInfo). Any
 * thread.
 *
 * A node that cannot count its functions must still register, because kubelet unmounts only through
 * a registered driver. Therefore there is always an answer, together with its source.
 */
#pragma once

#include "node/node.h"

#define MAX_VOLUMES_ASSUMED 30 /* the number that the Go plugin reports for hosts without VFs */

enum max_volumes_source {
	MAX_VOLUMES_SET = 1,    /* set by --max-volumes-per-node */
	MAX_VOLUMES_COUNTED,    /* the current number of VFs and hot-plug slots for volumes */
	MAX_VOLUMES_LAST_KNOWN, /* that number is 0 or unknown: the last count of this node */
	/* no VF or slot is present, and there is no earlier count: MAX_VOLUMES_ASSUMED */
	MAX_VOLUMES_GUESSED,
};

struct max_volumes {
	enum max_volumes_source source;
	int64_t n;           /* never 0, which would mean "no limit" to the scheduler */
	unsigned vfs, slots; /* the DPU's current VFs and slots for volumes */
	bool seen;           /* the node has such VFs or slots, or had some at its last count */
	bool uncounted;      /* sysfs hangs, or VFs are being created: vfs and slots are 0 */
	char where[1000];    /* the searched paths and what they contain; or the error */
};

/*
 * Counts on another thread; changes nothing. If that thread has not finished after host_wait_ms,
 * the call returns without its result, and no second thread is started while the first one hangs.
 */
void max_volumes_count(const struct node *n, struct max_volumes *ret);
/*
 * Like max_volumes_count(), for NodeGetInfo. If there are no VFs, first prepares the host again, as
 * main() did at startup, because the DPU may have started since. Stores a new count in a small file
 * in plugin_dir (if an option sets the number, only for topology.h), and logs an answer that
 * differs from the previous one. Waits for the preparation until no function has appeared for
 * host_wait_ms; if it is still running then, the answer has `uncounted` set. -1 DEADLINE_EXCEEDED
 * or CANCELLED: d ended first.
 */
int max_volumes_answer(struct node *n, struct deadline d, struct max_volumes *ret, struct err *err)
	MUST_CHECK;
