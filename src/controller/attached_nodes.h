/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes that attachments name: each name once, by a number that an entry of the table has room
 * for, and how many attachments it has. A number whose last attachment has gone is used again. Not
 * thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/keyed_hash.h"

#define ATTACHED_NODE_BITS 24
#define ATTACHED_NODE_NONE UINT32_MAX

struct attached_node {
	char *name; /* NULL: the number is free */
	uint64_t hash;
	uint32_t next; /* of the same bucket, or of the free numbers */
	uint32_t all, ours, unlabelled;
};

struct attached_nodes {
	struct hash_key key;
	struct attached_node *v; /* by number */
	uint32_t n;              /* numbers ever given */
	uint32_t cap;            /* 0 or a power of 2 */
	uint32_t free;           /* the first free number, or ATTACHED_NODE_NONE */
	size_t used;
	uint32_t *buckets; /* as many as cap */
};

void attached_nodes_init(struct attached_nodes *s, struct hash_key key);
void attached_nodes_clear(struct attached_nodes *s);

/* A number, or ATTACHED_NODE_NONE. */
uint32_t attached_nodes_find(const struct attached_nodes *s, const char *name);
/* A number, of a new one without attachments where the name has none. Nodes move by that. */
uint32_t attached_nodes_put(struct attached_nodes *s, const char *name);
/* Its number is free from now on. */
void attached_nodes_forget(struct attached_nodes *s, uint32_t i);
/* Bytes, without what malloc() adds. */
size_t attached_nodes_size(const struct attached_nodes *s);
