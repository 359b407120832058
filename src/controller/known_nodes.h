/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was read of nodes a while ago: that they exist, and how many volumes they take. Nothing is
 * remembered for which a call would be refused. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define KNOWN_NODES 4096                               /* more share their places */
#define NODE_EXISTS_FOR_NS (INT64_C(600) * 1000000000) /* it was there */
#define NODE_LIMIT_FOR_NS (INT64_C(60) * 1000000000)   /* CSINode said so */

struct known_nodes;
struct known_nodes *known_nodes_new(void);
struct known_nodes *known_nodes_free(struct known_nodes *k); /* returns NULL */

/* `now` is monotonic ns. */
void known_nodes_exists(struct known_nodes *k, const char *node, int64_t now);
bool known_nodes_is_there(struct known_nodes *k, const char *node, int64_t now);
/* limit 0: CSINode says none, or there is none. */
void known_nodes_takes(struct known_nodes *k, const char *node, int64_t limit, int64_t now);
/* False: not known any more. */
bool known_nodes_limit(struct known_nodes *k, const char *node, int64_t now, int64_t *ret);
