/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node service on a pretended host (nvme_world.h), and the requests that kubelet would make for
 * one of its disks. Staging and target paths lie below the world's folder.
 */
#pragma once

#include "node/node.h"
#include "test/lib/nvme_world.h"

#define MIB (1024ULL * 1024)

struct node_world {
	struct nvme_world nvme;
	struct node node;
	char *plugin_dir;
	char *staging; /* <root>/kubelet/staging: made, empty */
	char *target;  /* <root>/kubelet/pods/p1/target: not made, nor its parents */
	char *other_target;
	char *block_file; /* <staging>/<volume id> */
};

#define VOLUME_ID "pvc-1"

void node_world_init(struct node_world *w);
void node_world_clear(struct node_world *w);

/* fs_type NULL: raw block. */
struct stage_request stage_request(const struct node_world *w, const struct nvme_disk *d,
                                   const char *fs_type, enum access_mode mode);
struct publish_request publish_request(const struct node_world *w, const char *target,
                                       const char *fs_type, enum access_mode mode);
struct deadline soon(void); /* 30 s */

/* How many mounts lie at or below the path. */
size_t mounts_below(const char *path);
/* Everything below the kubelet folder, one path a line, sorted; malloc'ed. */
char *kubelet_tree(const struct node_world *w);
