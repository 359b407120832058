/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array, whose entries are linked by their numbers. Free ones are used again; the array is
 * written anew without them when it is full, an eighth larger, and when half of it is free. Links
 * only lead forwards, and the chain of a volume may be long. So that nothing has to be sought in it
 * for a removal, the chain's first entry moves to the place of the removed one.
 */
#include "controller/attachment_entries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define LEAST 64 /* entries of the smallest array, and by how many it grows at least */

static uint32_t heads_n(const struct attachment_entries *s)
{
	return s->cap / 2;
}

/* The hash of a volume has a random key, so what is made of it cannot be foreseen either. */
static uint64_t hash_of(int chain, uint64_t volume, uint32_t node)
{
	return chain == CHAIN_VOLUME ? volume : volume + node * UINT64_C(0x9e3779b97f4a7c15);
}

static uint32_t *head(const struct attachment_entries *s, int chain, uint64_t volume, uint32_t node)
{
	return &s->heads[chain][(hash_of(chain, volume, node) >> 32) * heads_n(s) >> 32];
}

static uint32_t *head_of(const struct attachment_entries *s, int chain,
                         const struct attachment_entry *e)
{
	return head(s, chain, e->volume, e->node);
}

static void link_in(struct attachment_entries *s, int chain, uint32_t i)
{
	uint32_t *first = head_of(s, chain, &s->v[i]);

	s->v[i].next[chain] = *first;
	*first = i;
}

static void unlink_place(struct attachment_entries *s, uint32_t i)
{
	uint32_t *at = head_of(s, CHAIN_PLACE, &s->v[i]);

	while (*at != i)
		at = &s->v[*at].next[CHAIN_PLACE];
	*at = s->v[i].next[CHAIN_PLACE];
}

static void begin(struct attachment_entries *s, uint32_t cap)
{
	*s = (struct attachment_entries) { .cap = cap, .free = NO_ENTRY };
	s->v = xcalloc(cap, sizeof(*s->v));
	for (int chain = 0; chain < CHAINS; chain++) {
		s->heads[chain] = xcalloc(heads_n(s), sizeof(*s->heads[chain]));
		memset(s->heads[chain], 0xff, heads_n(s) * sizeof(*s->heads[chain]));
	}
}

void attachment_entries_init(struct attachment_entries *s)
{
	begin(s, LEAST);
}

void attachment_entries_clear(struct attachment_entries *s)
{
	for (int chain = 0; chain < CHAINS; chain++)
		free(s->heads[chain]);
	free(s->v);
	*s = (struct attachment_entries) { .n = 0 };
}

/* There is room behind those that were ever used. */
static struct attachment_entry *put(struct attachment_entries *s, uint32_t i,
                                    const struct attachment_entry *like)
{
	s->v[i] = *like;
	for (int chain = 0; chain < CHAINS; chain++)
		link_in(s, chain, i);
	s->n++;
	return &s->v[i];
}

static void resize(struct attachment_entries *s, uint32_t cap)
{
	struct attachment_entries old = *s;

	begin(s, cap);
	for (uint32_t i = 0; i < old.ever; i++)
		if (old.v[i].flags)
			put(s, s->ever++, &old.v[i]);
	attachment_entries_clear(&old);
}

struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like)
{
	uint32_t i = s->free;

	assert(like->flags);
	if (i != NO_ENTRY) {
		s->free = s->v[i].next[CHAIN_VOLUME];
		return put(s, i, like);
	}
	if (s->ever == s->cap)
		resize(s, s->cap + (s->cap / 8 > LEAST ? s->cap / 8 : LEAST));
	return put(s, s->ever++, like);
}

void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e)
{
	uint32_t i = (uint32_t)(e - s->v), *first = head_of(s, CHAIN_VOLUME, e), moved = *first;

	unlink_place(s, i);
	*first = s->v[moved].next[CHAIN_VOLUME];
	if (moved != i) {
		uint32_t next = e->next[CHAIN_VOLUME];

		unlink_place(s, moved);
		*e = s->v[moved];
		e->next[CHAIN_VOLUME] = next;
		link_in(s, CHAIN_PLACE, i);
	}
	s->v[moved].flags = 0;
	s->v[moved].next[CHAIN_VOLUME] = s->free;
	s->free = moved;
	s->n--;
	if (s->cap > LEAST && s->n < s->cap / 2)
		resize(s, s->cap / 4 * 3 > LEAST ? s->cap / 4 * 3 : LEAST);
}

static struct attachment_entry *entry(const struct attachment_entries *s, uint32_t i)
{
	return i == NO_ENTRY ? NULL : &s->v[i];
}

struct attachment_entry *attachment_entries_of(const struct attachment_entries *s, uint64_t volume,
                                               const struct attachment_entry *last)
{
	struct attachment_entry *e =
		entry(s, last ? last->next[CHAIN_VOLUME] : *head(s, CHAIN_VOLUME, volume, 0));

	while (e && e->volume != volume)
		e = entry(s, e->next[CHAIN_VOLUME]);
	return e;
}

struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last)
{
	struct attachment_entry *e =
		entry(s, last ? last->next[CHAIN_PLACE] : *head(s, CHAIN_PLACE, volume, node));

	while (e && (e->volume != volume || e->node != node))
		e = entry(s, e->next[CHAIN_PLACE]);
	return e;
}

size_t attachment_entries_size(const struct attachment_entries *s)
{
	return s->cap * sizeof(*s->v) + CHAINS * heads_n(s) * sizeof(*s->heads[0]);
}
