/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of things by a hash that their owner makes of them. A thing begins with a hash_link and
 * belongs to the owner; the table links it, and allocates only the array of its chains, which grows
 * and shrinks with the number of things. Several of one hash may be in it, the newest comes first;
 * few, since a thing is sought and removed by a walk through those.
 *
 * Where somebody else chooses what is hashed the hash is a keyed one (common/keyed_hash.h): else
 * all of them can be brought into one chain. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_link {
	struct hash_link *next; /* in its chain */
	uint64_t hash;
};

/* All zero bytes: empty. */
struct hash_table {
	struct hash_link **chains;
	size_t n_chains; /* 0 or a power of 2 */
	size_t n;        /* things */
};

/* The link is in no table. */
void hash_table_add(struct hash_table *t, struct hash_link *l, uint64_t hash);
/* It is in this table. */
void hash_table_remove(struct hash_table *t, struct hash_link *l);
/* The things of exactly this hash, one after the other; NULL: there is none (any more). */
struct hash_link *hash_table_first(const struct hash_table *t, uint64_t hash);
struct hash_link *hash_table_next(const struct hash_link *l);
/* fn may free the thing that it is called with, if hash_table_clear() follows. */
void hash_table_each(const struct hash_table *t, void (*fn)(struct hash_link *l));
/* Frees the array, and leaves an empty table. The things are left alone. */
void hash_table_clear(struct hash_table *t);
/* Bytes of the array, without what malloc() adds. */
size_t hash_table_size(const struct hash_table *t);
