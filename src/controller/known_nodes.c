/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of fixed size without chains: a node has one place, and who comes later takes it. Names
 * are kept as hashes with a key of the process. One mutex guards it; it takes 160 kB.
 */
#include "controller/known_nodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/keyed_hash.h"
#include "common/mem.h"

struct known_node {
	uint64_t hash;
	int64_t exists_until, limit_until; /* monotonic ns */
	int64_t limit;
};

struct known_nodes {
	struct hash_key key;
	pthread_mutex_t lock;
	struct known_node v[KNOWN_NODES]; /* under the lock */
};

struct known_nodes *known_nodes_new(void)
{
	struct known_nodes *k = xcalloc(1, sizeof(*k));

	k->key = hash_key_random();
	pthread_mutex_init(&k->lock, NULL);
	return k;
}

struct known_nodes *known_nodes_free(struct known_nodes *k)
{
	if (!k)
		return NULL;
	pthread_mutex_destroy(&k->lock);
	free(k);
	return NULL;
}

/* The node's place; `take` makes it the node's when it is another's. */
static struct known_node *place_locked(struct known_nodes *k, const char *node, bool take)
{
	uint64_t hash = keyed_hash(&k->key, node, strlen(node));
	struct known_node *at = &k->v[hash % KNOWN_NODES];

	assert_locked(&k->lock);
	if (at->hash != hash && !take)
		return NULL;
	if (at->hash != hash)
		*at = (struct known_node) { .hash = hash };
	return at;
}

void known_nodes_exists(struct known_nodes *k, const char *node, int64_t now)
{
	WITH_LOCK(&k->lock);
	place_locked(k, node, true)->exists_until = now + NODE_EXISTS_FOR_NS;
}

bool known_nodes_is_there(struct known_nodes *k, const char *node, int64_t now)
{
	const struct known_node *at;

	WITH_LOCK(&k->lock);
	at = place_locked(k, node, false);
	return at && now < at->exists_until;
}

void known_nodes_takes(struct known_nodes *k, const char *node, int64_t limit, int64_t now)
{
	struct known_node *at;

	WITH_LOCK(&k->lock);
	at = place_locked(k, node, true);
	at->limit = limit;
	at->limit_until = now + NODE_LIMIT_FOR_NS;
}

bool known_nodes_limit(struct known_nodes *k, const char *node, int64_t now, int64_t *ret)
{
	const struct known_node *at;

	WITH_LOCK(&k->lock);
	at = place_locked(k, node, false);
	if (!at || now >= at->limit_until)
		return false;
	*ret = at->limit;
	return true;
}
