/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array of chains. Their number doubles when they have one item each on average, and halves when
 * seven of eight would be empty.
 */
#include "common/hash_table.h"

#include <assert.h>
#include <stdlib.h>

#include "common/mem.h"

#define LEAST 8 /* number of chains of the smallest array */

static struct hash_link **chain(const struct hash_table *t, uint64_t hash)
{
	return &t->chains[hash & (t->n_chains - 1)];
}

static void push(struct hash_link **chain, struct hash_link *l)
{
	l->next = *chain;
	*chain = l;
}

static struct hash_link *reverse(struct hash_link *first)
{
	struct hash_link *reversed = NULL;

	while (first) {
		struct hash_link *l = first;

		first = l->next;
		push(&reversed, l);
	}
	return reversed;
}

/* Moves the oldest item of each chain first, which keeps the order within a chain. */
static void hash_table_resize(struct hash_table *t, size_t n_chains)
{
	struct hash_table old = *t;

	t->n_chains = n_chains;
	t->chains = xcalloc(n_chains, sizeof(struct hash_link *));
	for (size_t i = 0; i < old.n_chains; i++)
		for (struct hash_link *l = reverse(old.chains[i]); l;) {
			struct hash_link *next = l->next;

			push(chain(t, l->hash), l);
			l = next;
		}
	free(old.chains);
}

void hash_table_add(struct hash_table *t, struct hash_link *l, uint64_t hash)
{
	if (t->n == t->n_chains)
		hash_table_resize(t, t->n_chains ? 2 * t->n_chains : LEAST);
	l->hash = hash;
	push(chain(t, hash), l);
	t->n++;
}

void hash_table_remove(struct hash_table *t, struct hash_link *l)
{
	struct hash_link **at;

	assert(t->n > 0);
	for (at = chain(t, l->hash); *at != l; at = &(*at)->next)
		assert(*at); /* the link is in this table, and is removed only once */
	*at = l->next;
	l->next = NULL;
	t->n--;
	if (t->n_chains > LEAST && t->n < t->n_chains / 8)
		hash_table_resize(t, t->n_chains / 2);
}

static struct hash_link *of_hash(struct hash_link *l, uint64_t hash)
{
	while (l && l->hash != hash)
		l = l->next;
	return l;
}

struct hash_link *hash_table_first(const struct hash_table *t, uint64_t hash)
{
	return t->n ? of_hash(*chain(t, hash), hash) : NULL;
}

struct hash_link *hash_table_next(const struct hash_link *l)
{
	return of_hash(l->next, l->hash);
}

void hash_table_each(const struct hash_table *t, void (*fn)(struct hash_link *l))
{
	for (size_t i = 0; i < t->n_chains; i++)
		for (struct hash_link *l = t->chains[i], *next; l; l = next) {
			next = l->next;
			fn(l);
		}
}

void hash_table_clear(struct hash_table *t)
{
	free(t->chains);
	*t = (struct hash_table) { .n = 0 };
}

size_t hash_table_size(const struct hash_table *t)
{
	return t->n_chains * sizeof(*t->chains);
}
