/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unstage in progress: what unstaging a disk (unstage_disk.h), unstaging a share
 * (unstage_share.h) and their caller (unstage.c) have in common. Private to these files. No state,
 * any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/holders/holders.h"
#include "node/node.h"
#include "node/target/mountpoint.h"

/* How often an unstage looks, for unstaging_ms (struct node_tuning) at most. */
#define UNSTAGING_STEP_MS 50

struct unstaging {
	struct node *node;
	const char *volume_id;
	struct mount_table *table;
	struct mountpoint mountpoint;
	dev_t fs;  /* number that mountinfo has for its filesystem; 0: raw block */
	bool gone; /* this host has no disk of this number any more; or the share is dead */
	/* Of a disk alone. */
	struct device dev;
	bool ours; /* `dev` is the disk, an NVMe namespace that can be opened */
};

/* FAILED_PRECONDITION: what is staged is mounted elsewhere in this mount namespace, too. */
int unstaging_refuse_published(const struct unstaging *u, struct err *err) MUST_CHECK;
/*
 * FAILED_PRECONDITION: another mount namespace has a copy of the mount, to which our unmount will
 * not propagate. A container that is just being started has one for a moment: that is waited for.
 * UNAVAILABLE: for a share, this could not be found out.
 */
int unstaging_refuse_captured(const struct unstaging *u, struct deadline d, struct err *err)
	MUST_CHECK;
/* The query for who holds it, which the caller narrows. */
struct holders_query unstaging_query(const struct unstaging *u);
