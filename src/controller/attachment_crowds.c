/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of volumes, each with an array. A member is sought in the array from one end to the
 * other when it goes: 5,000 numbers of four bytes are read in a microsecond or two.
 */
#include "controller/attachment_crowds.h"

#include <assert.h>
#include <stdlib.h>

#include "common/mem.h"

#define LEAST 8 /* members */

_Static_assert(offsetof(struct attachment_crowd, link) == 0, "crowds are cast");

static struct attachment_crowd *find(const struct attachment_crowds *s, uint64_t volume)
{
	return (struct attachment_crowd *)hash_table_first(&s->table, volume);
}

static struct attachment_crowd *begin(struct attachment_crowds *s, uint64_t volume)
{
	struct attachment_crowd *crowd = xcalloc(1, sizeof(*crowd));

	hash_table_add(&s->table, &crowd->link, volume);
	return crowd;
}

static void free_crowd(struct hash_link *l)
{
	struct attachment_crowd *crowd = (struct attachment_crowd *)l;

	free(crowd->members);
	free(crowd);
}

static void make_room(struct attachment_crowds *s, struct attachment_crowd *crowd, uint32_t cap)
{
	s->members = s->members - crowd->cap + cap;
	crowd->cap = cap;
	crowd->members = xrealloc(crowd->members, cap * sizeof(*crowd->members));
}

void attachment_crowds_clear(struct attachment_crowds *s)
{
	hash_table_each(&s->table, free_crowd);
	hash_table_clear(&s->table);
	s->members = 0;
}

const struct attachment_crowd *attachment_crowds_find(const struct attachment_crowds *s,
                                                      uint64_t volume)
{
	return find(s, volume);
}

void attachment_crowds_add(struct attachment_crowds *s, uint64_t volume, uint32_t member)
{
	struct attachment_crowd *crowd = find(s, volume);

	if (!crowd)
		crowd = begin(s, volume);
	if (crowd->n == crowd->cap)
		make_room(s, crowd, crowd->cap + crowd->cap / 4 + LEAST);
	crowd->members[crowd->n++] = member;
}

void attachment_crowds_remove(struct attachment_crowds *s, uint64_t volume, uint32_t member)
{
	struct attachment_crowd *crowd = find(s, volume);
	uint32_t i = 0;

	while (i < crowd->n && crowd->members[i] != member)
		i++;
	assert(i < crowd->n);
	crowd->members[i] = crowd->members[--crowd->n];
	if (!crowd->n) {
		s->members -= crowd->cap;
		hash_table_remove(&s->table, &crowd->link);
		free_crowd(&crowd->link);
	} else if (crowd->n < crowd->cap / 2) {
		make_room(s, crowd, crowd->n + crowd->n / 4 + LEAST);
	}
}

size_t attachment_crowds_size(const struct attachment_crowds *s)
{
	return hash_table_size(&s->table) + s->table.n * sizeof(struct attachment_crowd) +
	       s->members * sizeof(uint32_t);
}
