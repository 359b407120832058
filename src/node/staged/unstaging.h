/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unstage in progress: the state shared by unstage_disk.h, unstage_share.h and their caller
 * (unstage.c). Private to these files. No global state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/holders/holders.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

/* Interval in ms at which an unstage polls, for at most unstaging_ms (struct node_tuning). */
#define UNSTAGING_STEP_MS 50

struct unstaging {
	struct node *node;
	const char *volume_id;
	struct mount_table *table;
	struct mountpoint mountpoint;
	dev_t fs;  /* device number of the filesystem in mountinfo; 0: raw block */
	bool gone; /* the host has no disk with this number any more, or the share is dead */
	/* The remaining fields are used only for disks. */
	struct device dev;
	bool ours; /* `dev` is set: an NVMe namespace that can be opened */
};

/*
 * Checks the volume's mounts in this mount namespace. FAILED_PRECONDITION: there is a mount other
 * than the one at the staging path.
 */
int unstaging_refuse_published(const struct unstaging *u, struct err *err) MUST_CHECK;
/*
 * Checks the volume's mounts in other mount namespaces. FAILED_PRECONDITION: one of them has a copy
 * of the mount, and an unmount in this namespace does not propagate there. A starting container has
 * such a copy for a moment, so the call first waits for it to disappear. UNAVAILABLE: the check of
 * a share failed.
 */
int unstaging_refuse_captured(const struct unstaging *u, struct deadline d, struct err *err)
	MUST_CHECK;
/* Returns a query for the volume's holders; the caller narrows it. */
struct holders_query unstaging_query(const struct unstaging *u);
