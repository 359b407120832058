/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of attachments, interned: each name is stored once and has a number that fits into an
 * entry of the index, and counts of the node's attachments. A number whose node was forgotten is
 * given again. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/keyed_hash.h"

#define NODE_NUMBER_BITS 24
#define NODE_NUMBER_NONE UINT32_MAX

struct node_table_entry {
	char *name; /* NULL: the number is free */
	uint64_t hash;
	uint32_t next; /* of the same bucket, or of the free numbers */
	uint32_t all, ours, unlabelled;
};

struct node_table {
	struct hash_key key;
	struct node_table_entry *v; /* by number */
	uint32_t n;                 /* numbers ever given */
	uint32_t cap;               /* 0 or a power of 2 */
	uint32_t free;              /* the first free number, or NODE_NUMBER_NONE */
	size_t used;
	uint32_t *buckets; /* as many as cap */
};

void node_table_init(struct node_table *s, struct hash_key key);
void node_table_clear(struct node_table *s);

/* A number, or NODE_NUMBER_NONE. */
uint32_t node_table_find(const struct node_table *s, const char *name);
/* A number, of a new one without attachments where the name has none. Nodes move by that. */
uint32_t node_table_put(struct node_table *s, const char *name);
/* Its number is free from now on. */
void node_table_forget(struct node_table *s, uint32_t i);
/* Bytes, without what malloc() adds. */
size_t node_table_size(const struct node_table *s);
