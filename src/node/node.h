/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node: its options, the boot ID of this host, and the work that runs in the background of its
 * calls. Every directory of src/node may read it; service.h creates it.
 *
 * Everything known about a volume is in the request or in the kernel. The exceptions are the
 * records of running tools, unstages in progress and changed queue settings (work/disk_record.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "node/options.h"

struct detached_slot;
struct guard;
struct jobs;

#define BOOT_ID_SIZE 64

/* The pointers of node_options are borrowed for the node's life. */
struct node {
	struct node_options o;
	char boot_id[BOOT_ID_SIZE];         /* read by node_init(); "": the read failed */
	struct guard *guard;                /* for system calls that may hang: guard.h */
	struct jobs *jobs;                  /* running mkfs, fsck and growth: job.h */
	atomic_bool lacks_topology;         /* topology.h: the last value reported to kubelet */
	atomic_bool records_synced;         /* disk_record.c: removed records cannot reappear */
	_Atomic int64_t logged_max_volumes; /* max_volumes.c: the last logged value */
	atomic_uint preparations;           /* number of node_prepare() calls: see max_volumes.c */
	/* Work that may hang in sysfs, each on a thread of its own. */
	struct detached_slot *recovery, *preparer, *counter;
	atomic_uint walks; /* number of threads of recover.c that access a function */
	char token[24];    /* with own_probes: unique to this process; otherwise "" */
};

/*
 * Returns the ID of this host's boot, as in records. node_init() reads it; if that read failed,
 * this call retries, so that a temporary shortage at startup has no lasting effect. UNAVAILABLE:
 * the boot ID is unknown; the caller must then assume that it may be any boot, including that of a
 * record.
 */
int node_boot_id(const struct node *n, char ret[BOOT_ID_SIZE], struct err *err) MUST_CHECK;
