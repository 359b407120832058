/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the table of attachments, 44 bytes each, in two indexes: by volume, and by volume
 * and node. One attachment of a volume that a thousand nodes have is found as fast as another one.
 * Volumes are hashes here, nodes are numbers. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "controller/attachment_uid.h"
#include "controller/node_table.h"

#define NO_ENTRY UINT32_MAX

/* Packed, since a multiple of 8 would cost four bytes more. */
struct attachment_entry {
	uint64_t volume;
	struct attachment_uid uid;
	uint32_t seq;
	uint32_t node : NODE_NUMBER_BITS;
	uint32_t flags : 7;    /* the owner's; 0: the entry is free */
	uint32_t is_first : 1; /* of its volume */
	uint32_t next_at;      /* in the chain by volume and node, or of the free entries */
	uint32_t next_of;      /* of the same volume */
	union {
		uint32_t next_volume; /* of the first entry: the first one of another volume */
		uint32_t previous_of; /* of the others: the one before in the same volume */
	};
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct attachment_entry) == 44, "what is promised for each attachment");

struct attachment_entries {
	struct attachment_entry *v;
	uint32_t *pairs; /* heads of the chains by volume and node, a quarter as many as entries */
	uint32_t *volumes; /* heads of the chains of the volumes' first entries, as many */
	uint32_t cap;      /* entries that there is room for */
	uint32_t ever;     /* the first ones, used or free; those behind were never used */
	uint32_t free;     /* the first free one of these, or NO_ENTRY */
	uint32_t n;        /* in use */
};

void attachment_entries_init(struct attachment_entries *s);
void attachment_entries_clear(struct attachment_entries *s); /* frees; init makes it good again */

/* A copy of `like`, whose flags are not 0. Valid until the next one is added or removed. */
struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like);
void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e);

/*
 * Iterate over the entries of a volume on a node, and of a volume, in no order. The first call has
 * `last` NULL; NULL is returned after the last entry. None may be added or removed between calls.
 */
struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last);
struct attachment_entry *attachment_entries_of(const struct attachment_entries *s, uint64_t volume,
                                               const struct attachment_entry *last);

/* Bytes, without what malloc() adds. */
size_t attachment_entries_size(const struct attachment_entries *s);
