/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many volumes this node takes (max_volumes_per_node of NodeGetInfo). Any thread.
 *
 * A node that cannot count must register all the same, because kubelet unmounts only through a
 * registered driver. So there is always an answer, and where it comes from.
 */
#pragma once

#include "node/node.h"

#define MAX_VOLUMES_ASSUMED 30 /* what the Go plugin says where there are no VFs */

enum max_volumes_source {
	MAX_VOLUMES_SET = 1,    /* by --max-volumes-per-node */
	MAX_VOLUMES_COUNTED,    /* VFs and hot-plug slots for volumes, as they are now */
	MAX_VOLUMES_LAST_KNOWN, /* their number is 0 or unknown now: the last count of this node */
	MAX_VOLUMES_GUESSED,    /* none now, and none before: MAX_VOLUMES_ASSUMED */
};

struct max_volumes {
	enum max_volumes_source source;
	int64_t n;           /* never 0, which would mean "no limit" to the scheduler */
	unsigned vfs, slots; /* of the DPU, for volumes, now */
	bool seen;           /* there are such now, or were when this node last counted */
	bool uncounted;      /* sysfs hangs, or VFs are being created: vfs and slots are 0 */
	char where[1000];    /* the places searched for those, and their content; or the error */
};

/*
 * Counts on a thread, and changes nothing. A thread that has not ended after host_wait_ms is left
 * alone, and no other one is started while it hangs.
 */
void max_volumes_count(const struct node *n, struct max_volumes *ret);
/*
 * The same for NodeGetInfo. Where there are no VFs, prepares the host again first, as main() did at
 * the start: the DPU may have come up since. Keeps a new count in a small file in plugin_dir (with
 * a number that is set: only for topology.h), and logs an answer that differs from the last one.
 * Waits for a preparation as long as functions keep appearing, and host_wait_ms after the last one;
 * then the answer is uncounted. -1 DEADLINE or CANCELLED: d ended first.
 */
int max_volumes_answer(struct node *n, struct deadline d, struct max_volumes *ret, struct err *err)
	MUST_CHECK;
