/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table; the owner computes the hashes. An item begins with a hash_link and belongs to the
 * owner; the table links it, and allocates only the array of chains, which grows and shrinks with
 * the number of items. Items with equal hashes are allowed, and the newest comes first. There
 * should be few of them, because lookups and removals go through them one by one.
 *
 * If a peer can choose the hashed bytes, the hash has to be keyed (common/keyed_hash.h); otherwise
 * the peer can put all items into one chain. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_link {
	struct hash_link *next; /* in its chain */
	uint64_t hash;
};

/* All bytes zero: an empty table. */
struct hash_table {
	struct hash_link **chains;
	size_t n_chains; /* 0 or a power of 2 */
	size_t n;        /* number of items */
};

/* Adds a link, which must not be in a table. */
void hash_table_add(struct hash_table *t, struct hash_link *l, uint64_t hash);
/* Removes a link, which must be in this table. */
void hash_table_remove(struct hash_table *t, struct hash_link *l);
/* Iterate over the items with exactly this hash; NULL: no more items. */
struct hash_link *hash_table_first(const struct hash_table *t, uint64_t hash);
struct hash_link *hash_table_next(const struct hash_link *l);
/* Calls fn for each item. fn may free its item if hash_table_clear() follows. */
void hash_table_each(const struct hash_table *t, void (*fn)(struct hash_link *l));
/* Frees the array, and leaves an empty table. The items are not freed. */
void hash_table_clear(struct hash_table *t);
/* Returns the size of the array in bytes, without malloc's overhead. */
size_t hash_table_size(const struct hash_table *t);
