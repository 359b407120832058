/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes that many nodes have: the numbers of those of their attachments that have no room in the
 * chain of their volume (attachment_entries.h). Volumes are hashes here. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/hash_table.h"

struct attachment_crowd {
	struct hash_link link; /* its hash is the volume */
	uint32_t *members;
	uint32_t n, cap;
};

struct attachment_crowds {
	struct hash_table table;
	size_t members; /* that there is room for, of all crowds */
};

/* All zero bytes are good, too. */
void attachment_crowds_clear(struct attachment_crowds *s); /* frees */

/* NULL: the volume has none. Good until the next one is added or removed. */
const struct attachment_crowd *attachment_crowds_find(const struct attachment_crowds *s,
                                                      uint64_t volume);
void attachment_crowds_add(struct attachment_crowds *s, uint64_t volume, uint32_t member);
/* It is there. The last member takes its place. */
void attachment_crowds_remove(struct attachment_crowds *s, uint64_t volume, uint32_t member);
/* Bytes, without what malloc() adds. */
size_t attachment_crowds_size(const struct attachment_crowds *s);
