/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node service: volumes on this host. Plain structs in and out; the wire is node_csi.c's.
 *
 * Any thread may call; two operations on one volume never run at once (the RPC layer's volume
 * lock). Everything known about a volume is in the request or in the kernel; the exceptions are the
 * records of a tool at work and of an unstage that has begun (job_record.h, leaving.h).
 */
#pragma once

#include <stdatomic.h>
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
	const char *proc_root;          /* "/proc" */
	const char *plugin_dir;         /* <kubelet>/plugins/<driver>: records and the last count of
	                                   functions live below; survives restarts */
	const char *kubelet_dir;        /* kubelet's root directory: paths.h */
	const struct strs *volume_dirs; /* further ones; NULL: none */
	bool own_mounts;          /* propagation_matters(): refuse mounts that no pod would see */
	const char *topology_key; /* what a node with functions says of itself; NULL: nothing */
	int64_t max_volumes;      /* > 0: this many; else max_volumes.h counts */
	enum emulation emulation; /* of volumes whose context does not say */
	unsigned max_formats;     /* how many mkfs, and how many fsck, run at once; 0: 2 */
	int64_t job_turn_ms;      /* jobs_new(); 0: a minute */
	/* What may be done to the host: prepare.h. load_driver is nvme's. */
	bool load_driver, load_virtiofs, create_vfs;
	const char *virtiofs_type; /* of mounts of shares: mount_share(); NULL: "virtiofs" */
	struct running *running;   /* the calls that run, for health; NULL: unknown */
	struct gatekeeper *gate;   /* --controlled-mode; NULL: without it */
	bool own_looks; /* the names of its looks at shares are this process's: share_tidy() */
	int64_t host_wait_ms; /* how long a call waits for sysfs: max_volumes.h; 0: 750 ms */
};

struct aside;
struct guard;
struct jobs;

#define BOOT_ID_SIZE 64

/* What node_options points to is borrowed for the node's life. */
struct node {
	struct node_options o;
	char boot_id[BOOT_ID_SIZE];       /* as it was at node_init(); "": could not be read */
	struct guard *guard;              /* system calls that may hang: guard.h */
	struct jobs *jobs;                /* mkfs and fsck that run: job.h */
	atomic_bool lacks_topology;       /* topology.h: what kubelet was told */
	atomic_bool records_synced;       /* job_record.c: none that was removed can come back */
	_Atomic int64_t told_max_volumes; /* max_volumes.c: what the log has said last */
	atomic_uint preparations;         /* node_prepare() that have begun: see max_volumes.c */
	/* Work that may hang in sysfs, each on a thread of its own. */
	struct aside *recovery, *preparer, *counter;
	atomic_uint walks; /* threads of recover.c that are at a function */
	char token[24];    /* own_looks: no other process has it; else "" */
};

void node_init(struct node *n, const struct node_options *o);
/*
 * Waits for mkfs and e2fsck that outlived their calls, which end with the driver's container; logs
 * what is waited for, and what still runs at the deadline. Between the last call and node_clear().
 */
void node_wait_jobs(struct node *n, struct deadline d);
/*
 * Waits until no thread of the node accesses this host's sysfs any more. False: a thread hangs
 * there; the node and its options must then stay until the process has ended.
 */
bool node_wait_host(const struct node *n, struct deadline d) MUST_CHECK;
void node_clear(struct node *n);
/*
 * Names the boot of this host, as records do. It was read at node_init(), and is tried once more
 * where that failed, so that a shortage at the start passes. UNAVAILABLE: it is not known, and may
 * be any boot, also that of a record.
 */
int node_boot_id(const struct node *n, char ret[BOOT_ID_SIZE], struct err *err) MUST_CHECK;

/*
 * The kind of device that the publish context leads to: one with a namespace id is NVMe, one with a
 * tag is virtio-fs, whatever the flags say. `otherwise` when it has neither or both.
 */
enum emulation publish_context_emulation(const struct kvs *map, enum emulation otherwise);
/*
 * Parses the publish context into what device_find() looks for; *ret borrows from the map. PCI
 * address and either nsid or tag are required (the error texts are the Go plugin's); any other
 * missing key means "unknown" and is not checked. `expected` only says which one is missing when
 * neither is there; ret->emulation says which it was, and ret->function is a PF for a tag, else
 * any.
 */
int publish_context_parse(const struct kvs *map, enum emulation expected, struct device_want *ret,
                          struct err *err) MUST_CHECK;
/* Does it have a PCI address? NodePublishVolume may come without. */
bool publish_context_given(const struct kvs *map);

struct stage_request {
	const char *volume_id;
	const char *staging_path;
	struct volume_cap cap;
	struct volume_params params;
	struct device_want want;
	const char *attachment; /* UID of the volume's attachment; "" or NULL: unknown */
	/*
	 * The option by which a person says what formatPolicy says elsewhere, for errors; NULL: a
	 * StorageClass says it.
	 */
	const char *format_option;
};
/*
 * After a final code (ARCHITECTURE.md, "Life of an error") no mount, no driver binding and no file
 * is left behind; stage.c explains the states.
 */
int node_stage(struct node *n, const struct stage_request *r, struct deadline d, struct err *err)
	MUST_CHECK;
/* 0 also when nothing is staged. FAILED_PRECONDITION: it is published or otherwise in use. */
int node_unstage(struct node *n, const char *volume_id, const char *staging_path, struct deadline d,
                 struct err *err) MUST_CHECK;

struct publish_request {
	const char *volume_id;
	const char *staging_path;
	const char *target_path;
	struct volume_cap cap;
	bool read_only;
	const struct device_want *want; /* NULL: the request has no publish context */
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
	uint64_t required, limit;     /* bytes; 0: not given */
	const struct volume_cap *cap; /* NULL: not given */
};
/* *ret_bytes: the disk's size; 0 for a share, whose size nobody tells. */
int node_expand(struct node *n, const struct expand_request *r, struct deadline d,
                uint64_t *ret_bytes, struct err *err) MUST_CHECK;
