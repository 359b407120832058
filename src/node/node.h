/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node: its options, the boot of this host, and the work that runs beside its calls. Every room
 * of src/node may read it; service.h creates it.
 *
 * Everything known about a volume is in the request or in the kernel; the exceptions are the
 * records of a tool at work and of an unstage that has begun (work/disk_record.h).
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

/* What node_options points to is borrowed for the node's life. */
struct node {
	struct node_options o;
	char boot_id[BOOT_ID_SIZE];         /* as it was at node_init(); "": could not be read */
	struct guard *guard;                /* system calls that may hang: guard.h */
	struct jobs *jobs;                  /* mkfs and fsck that run: job.h */
	atomic_bool lacks_topology;         /* topology.h: what was reported to kubelet */
	atomic_bool records_synced;         /* disk_record.c: none that was removed can come back */
	_Atomic int64_t logged_max_volumes; /* max_volumes.c: what was logged last */
	atomic_uint preparations;           /* node_prepare() that have begun: see max_volumes.c */
	/* Work that may hang in sysfs, each on a thread of its own. */
	struct detached_slot *recovery, *preparer, *counter;
	atomic_uint walks; /* threads of recover.c that are at a function */
	char token[24];    /* own_probes: no other process has it; else "" */
};

/*
 * Names the boot of this host, as records do. It was read at node_init(), and is tried once more
 * where that failed, so that a shortage at the start passes. UNAVAILABLE: it is not known, and may
 * be any boot, also that of a record.
 */
int node_boot_id(const struct node *n, char ret[BOOT_ID_SIZE], struct err *err) MUST_CHECK;
