/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes are in a hash table by name, and in an array by number. The array never shrinks,
 * because the number of nodes may rise again.
 */
#include "controller/node_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

#define LEAST 64 /* number of initially allocated numbers */

_Static_assert(offsetof(struct node_table_entry, link) == 0, "nodes are cast");

void node_table_init(struct node_table *s, struct hash_key key)
{
	*s = (struct node_table) { .key = key };
}

void node_table_clear(struct node_table *s)
{
	for (uint32_t i = 0; i < s->cap; i++)
		free(s->v[i]);
	free(s->v);
	hash_table_clear(&s->names);
	node_table_init(s, s->key);
}

static uint64_t hash_of(const struct node_table *s, const char *name)
{
	return keyed_hash(&s->key, name, strlen(name));
}

uint32_t node_table_find(const struct node_table *s, const char *name)
{
	struct hash_link *l = hash_table_first(&s->names, hash_of(s, name));

	while (l && !str_eq(((struct node_table_entry *)l)->name, name))
		l = hash_table_next(l);
	return l ? ((struct node_table_entry *)l)->number : NODE_NUMBER_NONE;
}

static uint32_t free_number(struct node_table *s)
{
	while (s->first_free < s->cap && s->v[s->first_free])
		s->first_free++;
	if (s->first_free == s->cap) {
		uint32_t room = s->cap ? s->cap : LEAST;

		s->v = xrealloc(s->v, (s->cap + room) * sizeof(*s->v));
		memset(s->v + s->cap, 0, room * sizeof(*s->v));
		s->cap += room;
	}
	/* More nodes cannot exist, because each has an object of kilobytes in the API server. */
	assert(s->first_free < 1u << NODE_NUMBER_BITS);
	return s->first_free;
}

uint32_t node_table_put(struct node_table *s, const char *name)
{
	uint32_t i = node_table_find(s, name);
	size_t n = strlen(name) + 1;

	if (i != NODE_NUMBER_NONE)
		return i;
	i = free_number(s);
	s->v[i] = xcalloc(1, sizeof(*s->v[i]) + n);
	s->v[i]->number = i;
	memcpy(s->v[i]->name, name, n);
	hash_table_add(&s->names, &s->v[i]->link, hash_of(s, name));
	return i;
}

void node_table_forget(struct node_table *s, uint32_t i)
{
	hash_table_remove(&s->names, &s->v[i]->link);
	free(TAKE(s->v[i]));
	if (i < s->first_free)
		s->first_free = i;
}

size_t node_table_size(const struct node_table *s)
{
	size_t bytes = s->cap * sizeof(*s->v) + hash_table_size(&s->names);

	for (uint32_t i = 0; i < s->cap; i++)
		bytes += s->v[i] ? sizeof(*s->v[i]) + strlen(s->v[i]->name) + 1 : 0;
	return bytes;
}
