/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node service: volumes on this host. Plain structs in and out; the wire is node_csi.c's.
 *
 * Any thread may call; two operations on one volume never run at once (the RPC layer's volume
 * lock). Everything known about a volume is in the request or in the kernel; the one exception is
 * the formatting record (format.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/kv.h"
#include "volume/volume_cap.h"
#include "volume/volume_params.h"
#include "node/device/device.h"

struct node_options {
	const char *id; /* this node's name: the DPUNode's and the Kubernetes node's */
	struct device_world world;
	const char *proc_root;   /* "/proc" */
	const char *plugin_dir;  /* <kubelet>/plugins/<driver>: formatting records live below;
	                            survives restarts */
	const char *kubelet_dir; /* kubelet's root directory, for propagation_look() */
	bool own_mounts;         /* what propagation_matters() says: refuse what no pod would see */
	int64_t max_volumes;     /* > 0 wins over counting */
	enum emulation emulation;     /* of volumes whose context does not say */
	unsigned max_formats;         /* mkfs and fsck at the same time; 0: 2 */
	bool load_driver, create_vfs; /* what node_prepare() may do to the host */
};

struct guard;
struct jobs;

/* What points into node_options is borrowed for the node's life. */
struct node {
	struct node_options o;
	struct guard *guard; /* system calls that may hang: guard.h */
	struct jobs *jobs;   /* mkfs and fsck that run: job.h */
};

void node_init(struct node *n, const struct node_options *o);
void node_clear(struct node *n);

/*
 * publish_context to what device_find() looks for. `want` borrows from the map. PCI address and
 * nsid are required, in the Go plugin's words; any other missing key means "unknown" and is not
 * checked.
 */
int publish_context_parse(const struct kvs *map, struct device_want *ret, struct err *err)
	MUST_CHECK;
/* Was there a PCI address at all? NodePublish may come without. */
bool publish_context_given(const struct kvs *map);

struct stage_request {
	const char *volume_id;
	const char *staging_path;
	struct volume_cap cap;
	struct volume_params params;
	struct device_want want;
};
/*
 * Final codes leave no mount, no driver binding and no file behind; stage.c tells the whole story.
 */
int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
	MUST_CHECK;
/* What is not staged is unstaged. FAILED_PRECONDITION while it is published or otherwise in use. */
int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err) MUST_CHECK;

struct publish_request {
	const char *volume_id;
	const char *staging_path;
	const char *target_path;
	struct volume_cap cap;
	bool read_only;
	const struct device_want *want; /* NULL: the request came without */
};
int node_publish(struct node *n, const struct publish_request *r, struct deadline d,
                 struct err *err) MUST_CHECK;
int node_unpublish(struct node *n, const char *volume_id, const char *target_path, struct err *err)
	MUST_CHECK;

struct volume_stats {
	bool block; /* then only total_bytes has a meaning */
	uint64_t total_bytes, available_bytes, used_bytes;
	uint64_t total_inodes, free_inodes, used_inodes;
};
/*
 * path: where the volume is staged or published. NOT_FOUND: nothing is there. Returns within 3 s,
 * whatever the device does.
 */
int node_stats(struct node *n, const char *volume_id, const char *path, struct volume_stats *ret,
               struct err *err) MUST_CHECK;

struct expand_request {
	const char *volume_id;
	const char *path;             /* staged or published */
	uint64_t required, limit;     /* bytes, 0: not said */
	const struct volume_cap *cap; /* NULL: not said */
};
int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err) MUST_CHECK;

/* What NodeGetInfo says: > 0, or UNAVAILABLE telling where functions were looked for. */
int node_max_volumes(struct node *n, int64_t *ret, struct err *err) MUST_CHECK;
