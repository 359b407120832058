/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the table of attachments, 36 bytes each, and where they are found: by volume, and
 * by volume and node. One attachment is found as fast in a volume that a thousand nodes have as in
 * another. Volumes are hashes here, nodes are numbers. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "controller/node_table.h"
#include "controller/attachment_crowds.h"
#include "controller/attachment_uid.h"

#define NO_ENTRY UINT32_MAX

/* Packed, since the first members would have four bytes more behind the last one. */
struct attachment_entry {
	uint64_t volume;
	struct attachment_uid uid;
	uint32_t seq;
	uint32_t node : NODE_NUMBER_BITS;
	uint32_t flags : 7;   /* the owner's; 0: the entry is free */
	uint32_t crowded : 1; /* in its volume's crowd, and in a chain by volume and node */
	uint32_t next;        /* in the chain */
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct attachment_entry) == 36, "what is promised for each attachment");

struct attachment_entries {
	struct attachment_entry *v;
	uint32_t *heads; /* of the chains, a quarter as many as entries; NO_ENTRY: it is empty */
	uint32_t cap;    /* entries that there is room for */
	uint32_t ever;   /* the first ones, used or free; those behind were never used */
	uint32_t free;   /* the first free one of these, or NO_ENTRY */
	uint32_t n;      /* in use */
	struct attachment_crowds crowds;
};

void attachment_entries_init(struct attachment_entries *s);
void attachment_entries_clear(struct attachment_entries *s); /* frees; init makes it good again */

/* A copy of `like`, whose flags are not 0. Good until the next one is added or removed. */
struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like);
void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e);

/*
 * Goes through the entries of a volume on a node, in no order: begins with NULL, and returns NULL
 * behind the last one. None may be added or removed meanwhile.
 */
struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last);

/* Goes through the entries of a volume, in no order. */
struct attachment_walk {
	uint64_t volume;
	uint32_t in_chain; /* the next one to look at, or NO_ENTRY */
	uint32_t in_crowd; /* members that have been returned */
};
struct attachment_walk attachment_entries_of(const struct attachment_entries *s, uint64_t volume);
/* NULL behind the last one. None may be added or removed meanwhile. */
const struct attachment_entry *attachment_entries_next(const struct attachment_entries *s,
                                                       struct attachment_walk *walk);
/* Bytes, without what malloc() adds. */
size_t attachment_entries_size(const struct attachment_entries *s);
