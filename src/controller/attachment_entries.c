/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array, whose entries are linked by their numbers. Free ones are used again; the array is
 * written anew without them when it is full, an eighth larger, and when half of it is free.
 *
 * An entry is in one chain only, which costs least memory. The first few of a volume are in the
 * chain that the volume's hash chooses. A volume that many nodes have would make that one long, for
 * itself and for the volumes beside it, so its further entries are in chains that volume and node
 * choose together, and their numbers in the volume's crowd.
 */
#include "controller/attachment_entries.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define LEAST 64   /* entries of the smallest array, and by how many it grows at least */
#define HOME_MAX 8 /* entries that a volume has in the chain of its own hash */

static uint32_t heads_n(const struct attachment_entries *s)
{
	return s->cap / 4;
}

static uint32_t *head(const struct attachment_entries *s, uint64_t hash)
{
	return &s->heads[(hash >> 32) * heads_n(s) >> 32];
}

/* The hash of a volume has a random key, so what is made of it cannot be foreseen either. */
static uint32_t *head_of_place(const struct attachment_entries *s, uint64_t volume, uint32_t node)
{
	return head(s, volume + (node + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t *head_of(const struct attachment_entries *s, const struct attachment_entry *e)
{
	return e->crowded ? head_of_place(s, e->volume, e->node) : head(s, e->volume);
}

static bool is_home(const struct attachment_entry *e, uint64_t volume)
{
	return e->volume == volume && !e->crowded;
}

static unsigned count_home(const struct attachment_entries *s, uint64_t volume)
{
	unsigned n = 0;

	for (uint32_t i = *head(s, volume); i != NO_ENTRY; i = s->v[i].next)
		n += is_home(&s->v[i], volume);
	return n;
}

static void begin(struct attachment_entries *s, uint32_t cap)
{
	*s = (struct attachment_entries) { .cap = cap, .free = NO_ENTRY };
	s->v = xcalloc(cap, sizeof(*s->v));
	s->heads = xcalloc(heads_n(s), sizeof(*s->heads));
	memset(s->heads, 0xff, heads_n(s) * sizeof(*s->heads));
}

void attachment_entries_init(struct attachment_entries *s)
{
	begin(s, LEAST);
}

void attachment_entries_clear(struct attachment_entries *s)
{
	attachment_crowds_clear(&s->crowds);
	free(s->heads);
	free(s->v);
	*s = (struct attachment_entries) { .n = 0 };
}

static struct attachment_entry *put(struct attachment_entries *s, uint32_t i,
                                    const struct attachment_entry *like, bool crowded)
{
	struct attachment_entry *e = &s->v[i];
	uint32_t *first;

	*e = *like;
	e->crowded = crowded;
	if (crowded)
		attachment_crowds_add(&s->crowds, e->volume, i);
	first = head_of(s, e);
	e->next = *first;
	*first = i;
	s->n++;
	return e;
}

static void resize(struct attachment_entries *s, uint32_t cap)
{
	struct attachment_entries old = *s;

	begin(s, cap);
	for (uint32_t i = 0; i < old.ever; i++)
		if (old.v[i].flags)
			put(s, s->ever++, &old.v[i], old.v[i].crowded);
	attachment_entries_clear(&old);
}

struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like)
{
	bool crowded = count_home(s, like->volume) >= HOME_MAX;
	uint32_t i = s->free;

	assert(like->flags);
	if (i != NO_ENTRY) {
		s->free = s->v[i].next;
		return put(s, i, like, crowded);
	}
	if (s->ever == s->cap)
		resize(s, s->cap + (s->cap / 8 > LEAST ? s->cap / 8 : LEAST));
	return put(s, s->ever++, like, crowded);
}

/* Takes it out of its chain. Links only lead forwards: the one before it is sought. */
static void take_out(struct attachment_entries *s, uint32_t i)
{
	const struct attachment_entry *e = &s->v[i];
	uint32_t *first = head_of(s, e), before = *first;

	if (before == i) {
		*first = e->next;
		return;
	}
	while (s->v[before].next != i)
		before = s->v[before].next;
	s->v[before].next = e->next;
}

void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e)
{
	uint32_t i = (uint32_t)(e - s->v);

	take_out(s, i);
	if (e->crowded)
		attachment_crowds_remove(&s->crowds, e->volume, i);
	e->flags = 0;
	e->next = s->free;
	s->free = i;
	s->n--;
	if (s->cap > LEAST && s->n < s->cap / 2)
		resize(s, s->cap / 4 * 3 > LEAST ? s->cap / 4 * 3 : LEAST);
}

/* The next one of the volume on the node in a chain, which may be that of many others. */
static struct attachment_entry *in_chain(const struct attachment_entries *s, uint32_t i,
                                         uint64_t volume, uint32_t node, bool crowded)
{
	for (; i != NO_ENTRY; i = s->v[i].next) {
		struct attachment_entry *e = &s->v[i];

		if (e->volume == volume && e->node == node && e->crowded == crowded)
			return e;
	}
	return NULL;
}

struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last)
{
	struct attachment_entry *e;

	if (last && last->crowded)
		return in_chain(s, last->next, volume, node, true);
	e = in_chain(s, last ? last->next : *head(s, volume), volume, node, false);
	if (e || !attachment_crowds_find(&s->crowds, volume))
		return e;
	return in_chain(s, *head_of_place(s, volume, node), volume, node, true);
}

struct attachment_walk attachment_entries_of(const struct attachment_entries *s, uint64_t volume)
{
	return (struct attachment_walk) { .volume = volume, .in_chain = *head(s, volume) };
}

const struct attachment_entry *attachment_entries_next(const struct attachment_entries *s,
                                                       struct attachment_walk *walk)
{
	const struct attachment_crowd *crowd;

	while (walk->in_chain != NO_ENTRY) {
		const struct attachment_entry *e = &s->v[walk->in_chain];

		walk->in_chain = e->next;
		if (is_home(e, walk->volume))
			return e;
	}
	crowd = attachment_crowds_find(&s->crowds, walk->volume);
	return crowd && walk->in_crowd < crowd->n ? &s->v[crowd->members[walk->in_crowd++]] : NULL;
}

size_t attachment_entries_size(const struct attachment_entries *s)
{
	return s->cap * sizeof(*s->v) + heads_n(s) * sizeof(*s->heads) +
	       attachment_crowds_size(&s->crowds);
}
