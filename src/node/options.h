/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a node: paths of the host's files, and permitted changes to the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/str.h"
#include "node/device/device.h"

/*
 * Maximum waits of calls, in ms. 0: the default (service.c). Only tests set other values. The
 * deadline of a call also ends each of these waits. An access to a function is limited by hang_ms
 * (struct device_world) instead.
 */
struct node_tuning {
	int64_t busy_ms;      /* busy_unmount(): until a busy mount is free */
	int64_t unstaging_ms; /* unstaging.h: until all other processes have closed the volume */
	int64_t lock_ms;     /* orphan_tool_lock(): until another process has unlocked the device */
	int64_t settle_ms;   /* stage_share.c: until the device of a mountable tag is in sysfs */
	int64_t job_turn_ms; /* jobs_new() */
	int64_t host_wait_ms; /* max_volumes.h, health.h: until a thread has read sysfs */
	int64_t guard_ms;     /* guard.h: until a filesystem answers */
	int64_t unpublish_ms; /* node_unpublish(): to unmount and, on failure, find the holder */
	int64_t holders_ms;   /* holders.h: duration of a scan that only names holders */
	int64_t holders_files;
};

struct node_options {
	const char *id; /* this node's name, both of its DPUNode and its Kubernetes Node */
	struct device_world world;
	const char *proc_root; /* "/proc" */
	/*
	 * <kubelet>/plugins/<driver>: records and the last count of functions; kept across restarts
	 * of the driver.
	 */
	const char *plugin_dir;
	const char *kubelet_dir;        /* kubelet's root directory, canonical (path_canonical()) */
	const struct strs *volume_dirs; /* additional permitted directories; NULL: none */
	bool own_mounts; /* propagation_matters() is true: reject mounts that no pod would see */
	const char *topology_key; /* topology key of a node with functions; NULL: no topology */
	int64_t max_volumes;      /* > 0: the number to report; otherwise max_volumes.h counts */
	enum emulation emulation; /* default for volumes whose contexts do not specify it */
	/* maximum number of concurrent mkfs and, as a separate limit, fsck; 0: 2 */
	unsigned max_formats;
	/* Permitted changes to the host: prepare.h. load_driver permits loading nvme. */
	bool load_driver, load_virtiofs, create_vfs;
	/* filesystem type for mount_share(); NULL: "virtiofs" */
	const char *virtiofs_type;
	const char *luks_program; /* program of the command "luks"; NULL: this program */
	struct running *running;  /* calls in flight, for health; NULL: unknown */
	struct gatekeeper *gate;  /* --controlled-mode; NULL: not in that mode */
	bool own_probes;          /* names of its tag probes contain its token: share_tidy() */
	struct node_tuning tuning;
};
