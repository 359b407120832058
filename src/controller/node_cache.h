/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of nodes that exist, and of how many volumes each accepts. Negative results, for which a
 * call would be refused, are never cached. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NODE_CACHE_SLOTS 4096                          /* nodes that share one evict each other */
#define NODE_EXISTS_FOR_NS (INT64_C(600) * 1000000000) /* after it was read */
#define NODE_LIMIT_FOR_NS (INT64_C(60) * 1000000000)   /* after CSINode was read */

struct node_cache;
struct node_cache *node_cache_new(void);
struct node_cache *node_cache_free(struct node_cache *k); /* returns NULL */

/* `now` is monotonic ns. */
void node_cache_put_exists(struct node_cache *k, const char *node, int64_t now);
bool node_cache_exists(struct node_cache *k, const char *node, int64_t now);
/* limit 0: the CSINode has no limit, or there is no CSINode. */
void node_cache_put_limit(struct node_cache *k, const char *node, int64_t limit, int64_t now);
/* False: not cached, or expired. */
bool node_cache_get_limit(struct node_cache *k, const char *node, int64_t now, int64_t *ret);
