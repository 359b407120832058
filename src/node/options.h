/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a node: where the host's files are, and what the driver may do to the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/str.h"
#include "node/device/device.h"

/*
 * How long calls wait, in ms. 0: the default (service.c). Only tests set other values; the deadline
 * of a call ends each of these waits. An access to a function has hang_ms (struct device_world).
 */
struct node_tuning {
	int64_t busy_ms;      /* busy_unmount(): until a busy mount is free */
	int64_t unstaging_ms; /* unstaging.h: until the other users of a volume have closed it */
	int64_t lock_ms;      /* orphan_tool_lock(): until another process unlocks the device */
	int64_t settle_ms; /* stage_share.c: until a device whose tag can be mounted is in sysfs */
	int64_t job_turn_ms;  /* jobs_new() */
	int64_t host_wait_ms; /* max_volumes.h, health.h: until a thread has read sysfs */
	int64_t guard_ms;     /* guard.h: until a filesystem answers */
	int64_t unpublish_ms; /* node_unpublish(): to unmount, and to find what prevents it */
	int64_t holders_ms;   /* holders.h: a scan that only names holders */
	int64_t holders_files;
};

struct node_options {
	const char *id; /* this node's name: the DPUNode's and the Kubernetes node's */
	struct device_world world;
	const char *proc_root; /* "/proc" */
	/*
	 * <kubelet>/plugins/<driver>: records and the last count of functions; survives restarts.
	 */
	const char *plugin_dir;
	const char *kubelet_dir;        /* kubelet's root directory: paths.h */
	const struct strs *volume_dirs; /* further ones; NULL: none */
	bool own_mounts;          /* propagation_matters(): refuse mounts that no pod would see */
	const char *topology_key; /* what a node with functions says of itself; NULL: nothing */
	int64_t max_volumes;      /* > 0: this many; else max_volumes.h counts */
	enum emulation emulation; /* of volumes whose context does not say */
	unsigned max_formats;     /* how many mkfs, and how many fsck, run at once; 0: 2 */
	/* What may be done to the host: prepare.h. load_driver is nvme's. */
	bool load_driver, load_virtiofs, create_vfs;
	const char *virtiofs_type; /* of mounts of shares: mount_share(); NULL: "virtiofs" */
	struct running *running;   /* the calls that run, for health; NULL: unknown */
	struct gatekeeper *gate;   /* --controlled-mode; NULL: without it */
	bool own_probes;           /* its probes of tags have names of their own: share_tidy() */
	struct node_tuning tuning;
};
