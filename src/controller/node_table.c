/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array of nodes, whose numbers are linked from buckets by the hash of the name. It never
 * shrinks: as many nodes as there were once may come back.
 */
#include "controller/node_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"

#define LEAST 64 /* nodes that there is room for at first, a power of 2 */

void node_table_init(struct node_table *s, struct hash_key key)
{
	*s = (struct node_table) { .key = key, .free = NODE_NUMBER_NONE };
}

void node_table_clear(struct node_table *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		free(s->v[i].name);
	free(s->v);
	free(s->buckets);
	node_table_init(s, s->key);
}

static uint32_t *bucket_of(const struct node_table *s, uint64_t hash)
{
	return &s->buckets[hash & (s->cap - 1)];
}

static uint32_t find(const struct node_table *s, const char *name, uint64_t hash)
{
	uint32_t i = s->cap ? *bucket_of(s, hash) : NODE_NUMBER_NONE;

	while (i != NODE_NUMBER_NONE && (s->v[i].hash != hash || strcmp(s->v[i].name, name)))
		i = s->v[i].next;
	return i;
}

uint32_t node_table_find(const struct node_table *s, const char *name)
{
	return find(s, name, keyed_hash(&s->key, name, strlen(name)));
}

static void link_node(struct node_table *s, uint32_t i)
{
	uint32_t *bucket = bucket_of(s, s->v[i].hash);

	s->v[i].next = *bucket;
	*bucket = i;
}

static void grow(struct node_table *s)
{
	s->cap = s->cap ? s->cap * 2 : LEAST;
	s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
	s->buckets = xrealloc(s->buckets, s->cap * sizeof(*s->buckets));
	memset(s->buckets, 0xff, s->cap * sizeof(*s->buckets));
	for (uint32_t i = 0; i < s->n; i++)
		link_node(s, i);
}

static uint32_t free_number(struct node_table *s)
{
	uint32_t i = s->free;

	if (i != NODE_NUMBER_NONE) {
		s->free = s->v[i].next;
		return i;
	}
	if (s->n == s->cap)
		grow(s); /* no number is free, so each has a name */
	/* Each node has an object of kilobytes in the API server. */
	assert(s->n < 1u << NODE_NUMBER_BITS);
	return s->n++;
}

uint32_t node_table_put(struct node_table *s, const char *name)
{
	uint64_t hash = keyed_hash(&s->key, name, strlen(name));
	uint32_t i = find(s, name, hash);

	if (i != NODE_NUMBER_NONE)
		return i;
	i = free_number(s);
	s->v[i] = (struct node_table_entry) { .name = xstrdup(name), .hash = hash };
	s->used++;
	link_node(s, i);
	return i;
}

void node_table_forget(struct node_table *s, uint32_t i)
{
	uint32_t *at = bucket_of(s, s->v[i].hash);

	while (*at != i)
		at = &s->v[*at].next;
	*at = s->v[i].next;
	free(TAKE(s->v[i].name));
	s->v[i].next = s->free;
	s->free = i;
	s->used--;
}

size_t node_table_size(const struct node_table *s)
{
	size_t bytes = s->cap * (sizeof(*s->v) + sizeof(*s->buckets));

	for (uint32_t i = 0; i < s->n; i++)
		bytes += s->v[i].name ? strlen(s->v[i].name) + 1 : 0;
	return bytes;
}
