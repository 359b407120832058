/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node service on the simulated host of nvme_world.h, and kubelet's requests for one of its
 * disks. Staging and target paths are below the world's folder.
 */
#pragma once

#include "node/service.h"
#include "node/stage/expand.h"
#include "node/stage/publish.h"
#include "node/stage/stage.h"
#include "node/stage/stats.h"
#include "test/lib/nvme_world.h"

#define MIB (1024ULL * 1024)

struct node_world {
	struct nvme_world nvme;
	struct node node;
	struct node_tuning tuning; /* the driver's own */
	char *plugin_dir, *kubelet_dir;
	char *staging; /* <root>/kubelet/staging: made, empty */
	char *target;  /* <root>/kubelet/pods/p1/target: neither it nor its parents are created */
	char *other_target;
	char *block_file; /* <staging>/<volume id> */
};

#define VOLUME_ID "pvc-1"

/* Moves the process to a mount namespace of its own (private_mounts()). */
void node_world_init(struct node_world *w);
void node_world_clear(struct node_world *w);

/*
 * Restarts the driver, on a host whose procfs has the boot id or not: if so, it is in <root>/proc,
 * where tell_boot() writes an id.
 */
void node_world_restart(struct node_world *w, bool boot_is_told);
void node_world_tell_boot(const struct node_world *w);

/* fs_type NULL: raw block. */
struct stage_request stage_request(const struct node_world *w, const struct nvme_disk *d,
                                   const char *fs_type, enum access_mode mode);
struct publish_request publish_request(const struct node_world *w, const char *target,
                                       const char *fs_type, enum access_mode mode);
struct deadline soon(void); /* wait_limit() */

/*
 * Until node_world_patient(): a call stops waiting after 20 ms for anything that other processes
 * keep busy. For calls that must fail in this way; a call that must succeed gets the driver's own
 * times, whatever the machine's load.
 */
void node_world_impatient(struct node_world *w);
void node_world_patient(struct node_world *w);

/* These must succeed. */
void node_world_stage(struct node_world *w, const struct stage_request *r);
void node_world_publish(struct node_world *w, const struct publish_request *r);
/*
 * Stages n volumes at the same time, each on its own thread, as ext4 of `size` on disks that are
 * added; d is the disk of the first. Volume i is pvc-<i> at <staging>/<i>.
 */
void node_world_stage_many(struct node_world *w, const struct nvme_disk *d, size_t n,
                           uint64_t size);

/* The number of mounts at or below the path. */
size_t mounts_below(const char *path);
/* Everything below the kubelet folder, one path a line, sorted; malloc'ed. */
char *kubelet_tree(const struct node_world *w);
