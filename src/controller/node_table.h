/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interned nodes of attachments. Each name is stored once, with counts of the node's
 * attachments, and has a number that fits into an entry of the index. The number of a forgotten
 * node is reused. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/hash_table.h"
#include "common/keyed_hash.h"

#define NODE_NUMBER_BITS 24
#define NODE_NUMBER_NONE UINT32_MAX

struct node_table_entry {
	struct hash_link link;
	uint32_t number;
	uint32_t all, ours, unlabelled; /* attachments */
	char name[];
};

struct node_table {
	struct hash_key key;
	struct hash_table names;
	struct node_table_entry **v; /* by number; NULL: the number is free */
	uint32_t cap;                /* allocated numbers */
	uint32_t first_free;         /* all smaller numbers are in use */
};

void node_table_init(struct node_table *s, struct hash_key key);
void node_table_clear(struct node_table *s);

/* Returns the node's number, or NODE_NUMBER_NONE. */
uint32_t node_table_find(const struct node_table *s, const char *name);
/* Returns the node's number, adding the node without attachments if needed. */
uint32_t node_table_put(struct node_table *s, const char *name);
/* Frees the node and its number. */
void node_table_forget(struct node_table *s, uint32_t i);
/* Returns the size in bytes, without malloc's overhead. */
size_t node_table_size(const struct node_table *s);
