/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the table of attachments, 44 bytes each, in two indexes: by volume, and by volume
 * and node. The time to find one attachment of a volume does not depend on the number of its nodes.
 * Volumes are hashes, nodes are numbers. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "controller/attachment_uid.h"
#include "controller/node_table.h"

#define NO_ENTRY UINT32_MAX

/* Packed: padding to a multiple of 8 would cost four bytes more. */
struct attachment_entry {
	uint64_t volume;
	struct attachment_uid uid;
	uint32_t seq;
	uint32_t node : NODE_NUMBER_BITS;
	uint32_t flags : 7;    /* the owner's; 0: the entry is free */
	uint32_t is_first : 1; /* this is the first entry of its volume */
	uint32_t next_at;      /* next in the chain by volume and node, or of free entries */
	uint32_t next_of;      /* next entry of the same volume */
	union {
		/* in a volume's first entry: the first entry of the next volume in the chain */
		uint32_t next_volume;
		uint32_t previous_of; /* in other entries: the previous entry of the same volume */
	};
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct attachment_entry) == 44, "the memory promised for each attachment");

struct attachment_entries {
	struct attachment_entry *v;
	uint32_t *pairs;   /* heads of the chains by volume and node, one for four entries */
	uint32_t *volumes; /* heads of the chains of first entries of volumes, as many */
	uint32_t cap;      /* allocated entries */
	uint32_t ever;     /* the entries from this index on were never used */
	uint32_t free;     /* the first free entry, or NO_ENTRY */
	uint32_t n;        /* entries in use */
};

void attachment_entries_init(struct attachment_entries *s);
/* frees; call init before further use */
void attachment_entries_clear(struct attachment_entries *s);

/*
 * Adds a copy of `like`, whose flags are not 0, and returns it. The pointer is valid until an entry
 * is added or removed.
 */
struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like);
void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e);

/*
 * Iterate over the entries of a volume on a node, and over all entries of a volume, in no order.
 * `last` is NULL in the first call, later the previous result; NULL is returned after the last
 * entry. No entry may be added or removed between calls.
 */
struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last);
struct attachment_entry *attachment_entries_of(const struct attachment_entries *s, uint64_t volume,
                                               const struct attachment_entry *last);

/* Returns the size in bytes, without malloc's overhead. */
size_t attachment_entries_size(const struct attachment_entries *s);
