/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of the nodes that exist, of those that have a usable DPU, and of the number of volumes
 * that each node accepts. Negative results, for which a call would be refused, are never cached.
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* nodes with the same slot evict each other */
#define NODE_CACHE_SLOTS 4096
#define NODE_EXISTS_FOR_NS (INT64_C(600) * 1000000000) /* since the node was read */
#define NODE_LIMIT_FOR_NS (INT64_C(60) * 1000000000)   /* since the CSINode was read */
#define NODE_DPU_FOR_NS (INT64_C(60) * 1000000000)     /* since the node's DPUs were listed */

struct node_cache;
struct node_cache *node_cache_new(void);
struct node_cache *node_cache_free(struct node_cache *k); /* returns NULL */

/* `now` is monotonic ns. */
void node_cache_put_exists(struct node_cache *k, const char *node, int64_t now);
bool node_cache_exists(struct node_cache *k, const char *node, int64_t now);
/* Records that the node has a DPU that DPF can use. */
void node_cache_put_dpu(struct node_cache *k, const char *node, int64_t now);
bool node_cache_has_dpu(struct node_cache *k, const char *node, int64_t now);
/* limit 0: the CSINode has no limit, or does not exist. */
void node_cache_put_limit(struct node_cache *k, const char *node, int64_t limit, int64_t now);
/* Returns false if the limit is not cached, or has expired. */
bool node_cache_get_limit(struct node_cache *k, const char *node, int64_t now, int64_t *ret);
