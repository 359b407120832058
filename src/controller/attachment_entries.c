/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array whose entries are linked by index. Free entries are reused. When the array is full, it
 * is rebuilt with an eighth more entries; when half of it is free, it is rebuilt without the free
 * entries.
 *
 * Each entry is in a chain selected by its volume and node together. Only the first entry of each
 * volume is in a chain selected by the volume; the volume's other entries form a doubly linked list
 * behind the first one. So a volume on many nodes does not lengthen a chain, and its entries are
 * removed without a search.
 */
#include "controller/attachment_entries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define LEAST 64 /* entries of the smallest array, and its smallest growth */

static uint32_t heads_n(const struct attachment_entries *s)
{
	return s->cap / 4;
}

static uint32_t *head_of(const struct attachment_entries *s, uint32_t *heads, uint64_t hash)
{
	return &heads[(hash >> 32) * heads_n(s) >> 32];
}

/* The hash of a volume has a random key, so the hash of a pair cannot be predicted either. */
static uint32_t *head_of_pair(const struct attachment_entries *s, uint64_t volume, uint32_t node)
{
	return head_of(s, s->pairs, volume + (node + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Returns the link to the volume's first entry; the link contains NO_ENTRY if there is no entry. */
static uint32_t *link_to_first(const struct attachment_entries *s, uint64_t volume)
{
	uint32_t *link = head_of(s, s->volumes, volume);

	while (*link != NO_ENTRY && s->v[*link].volume != volume)
		link = &s->v[*link].next_volume;
	return link;
}

static uint32_t *new_heads(const struct attachment_entries *s)
{
	return memset(xcalloc(heads_n(s), sizeof(uint32_t)), 0xff, heads_n(s) * sizeof(uint32_t));
}

static void begin_entries(struct attachment_entries *s, uint32_t cap)
{
	*s = (struct attachment_entries) { .cap = cap, .free = NO_ENTRY };
	s->v = xcalloc(cap, sizeof(*s->v));
	s->pairs = new_heads(s);
	s->volumes = new_heads(s);
}

void attachment_entries_init(struct attachment_entries *s)
{
	begin_entries(s, LEAST);
}

void attachment_entries_clear(struct attachment_entries *s)
{
	free(s->volumes);
	free(s->pairs);
	free(s->v);
	*s = (struct attachment_entries) { .n = 0 };
}

/* first: the volume's first entry; NO_ENTRY: the volume has no entry yet. */
static void link_to_volume(struct attachment_entries *s, uint32_t i, uint32_t first)
{
	struct attachment_entry *e = &s->v[i];
	uint32_t *head = head_of(s, s->volumes, e->volume);

	e->is_first = first == NO_ENTRY;
	if (e->is_first) {
		e->next_of = NO_ENTRY;
		e->next_volume = *head;
		*head = i;
		return;
	}
	e->next_of = s->v[first].next_of;
	e->previous_of = first;
	s->v[first].next_of = i;
	if (e->next_of != NO_ENTRY)
		s->v[e->next_of].previous_of = i;
}

static struct attachment_entry *put_entry(struct attachment_entries *s, uint32_t i,
                                          const struct attachment_entry *like, uint32_t first)
{
	struct attachment_entry *e = &s->v[i];
	uint32_t *pair = head_of_pair(s, like->volume, like->node);

	*e = *like;
	e->next_at = *pair;
	*pair = i;
	link_to_volume(s, i, first);
	s->n++;
	return e;
}

/* Copies volume by volume, so that no search for first entries is needed. */
static void resize_entries(struct attachment_entries *s, uint32_t cap)
{
	struct attachment_entries old = *s;

	begin_entries(s, cap);
	for (uint32_t i = 0; i < old.ever; i++) {
		uint32_t first = s->ever;

		if (!old.v[i].flags || !old.v[i].is_first)
			continue;
		put_entry(s, s->ever++, &old.v[i], NO_ENTRY);
		for (uint32_t k = old.v[i].next_of; k != NO_ENTRY; k = old.v[k].next_of)
			put_entry(s, s->ever++, &old.v[k], first);
	}
	attachment_entries_clear(&old);
}

struct attachment_entry *attachment_entries_add(struct attachment_entries *s,
                                                const struct attachment_entry *like)
{
	uint32_t i = s->free;

	assert(like->flags);
	if (i != NO_ENTRY) {
		s->free = s->v[i].next_at;
	} else {
		if (s->ever == s->cap)
			resize_entries(s, s->cap + (s->cap / 8 > LEAST ? s->cap / 8 : LEAST));
		i = s->ever++;
	}
	return put_entry(s, i, like, *link_to_first(s, like->volume));
}

static void unlink_from_pair(struct attachment_entries *s, uint32_t i)
{
	const struct attachment_entry *e = &s->v[i];
	uint32_t *link = head_of_pair(s, e->volume, e->node);

	while (*link != i)
		link = &s->v[*link].next_at;
	*link = e->next_at;
}

/* Removes the entry from the list of its volume; the next entry may become the first one. */
static void unlink_from_volume(struct attachment_entries *s, const struct attachment_entry *e)
{
	struct attachment_entry *next = e->next_of == NO_ENTRY ? NULL : &s->v[e->next_of];

	if (!e->is_first) {
		s->v[e->previous_of].next_of = e->next_of;
		if (next)
			next->previous_of = e->previous_of;
		return;
	}
	*link_to_first(s, e->volume) = next ? e->next_of : e->next_volume;
	if (next) {
		next->is_first = 1;
		next->next_volume = e->next_volume;
	}
}

void attachment_entries_remove(struct attachment_entries *s, struct attachment_entry *e)
{
	uint32_t i = (uint32_t)(e - s->v);

	unlink_from_pair(s, i);
	unlink_from_volume(s, e);
	e->flags = 0;
	e->next_at = s->free;
	s->free = i;
	s->n--;
	if (s->cap > LEAST && s->n < s->cap / 2)
		resize_entries(s, s->cap / 4 * 3 > LEAST ? s->cap / 4 * 3 : LEAST);
}

struct attachment_entry *attachment_entries_at(const struct attachment_entries *s, uint64_t volume,
                                               uint32_t node, const struct attachment_entry *last)
{
	uint32_t i = last ? last->next_at : *head_of_pair(s, volume, node);

	while (i != NO_ENTRY && (s->v[i].volume != volume || s->v[i].node != node))
		i = s->v[i].next_at;
	return i == NO_ENTRY ? NULL : &s->v[i];
}

struct attachment_entry *attachment_entries_of(const struct attachment_entries *s, uint64_t volume,
                                               const struct attachment_entry *last)
{
	uint32_t i = last ? last->next_of : *link_to_first(s, volume);

	return i == NO_ENTRY ? NULL : &s->v[i];
}

size_t attachment_entries_size(const struct attachment_entries *s)
{
	return s->cap * sizeof(*s->v) + 2 * heads_n(s) * sizeof(uint32_t);
}
