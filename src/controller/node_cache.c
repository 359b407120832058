/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A direct-mapped table of fixed size: each node has one slot, and nodes with the same slot evict
 * each other. Names are stored as hashes, with a random key per process. One mutex guards the
 * table, which takes 160 kB.
 */
#include "controller/node_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/keyed_hash.h"
#include "common/mem.h"

struct node_cache_slot {
	uint64_t hash;
	int64_t exists_until, dpu_until, limit_until; /* monotonic ns */
	int64_t limit;
};

struct node_cache {
	struct hash_key key;
	pthread_mutex_t lock;
	struct node_cache_slot v[NODE_CACHE_SLOTS]; /* guarded by the lock */
};

struct node_cache *node_cache_new(void)
{
	struct node_cache *k = xcalloc(1, sizeof(*k));

	k->key = hash_key_random();
	pthread_mutex_init(&k->lock, NULL);
	return k;
}

struct node_cache *node_cache_free(struct node_cache *k)
{
	if (!k)
		return NULL;
	pthread_mutex_destroy(&k->lock);
	free(k);
	return NULL;
}

/*
 * Returns the node's slot. If another node has it, returns NULL, or with `evict` replaces that
 * node.
 */
static struct node_cache_slot *slot_locked(struct node_cache *k, const char *node, bool evict)
{
	uint64_t hash = keyed_hash(&k->key, node, strlen(node));
	struct node_cache_slot *at = &k->v[hash % NODE_CACHE_SLOTS];

	assert_locked(&k->lock);
	if (at->hash != hash && !evict)
		return NULL;
	if (at->hash != hash)
		*at = (struct node_cache_slot) { .hash = hash };
	return at;
}

void node_cache_put_exists(struct node_cache *k, const char *node, int64_t now)
{
	WITH_LOCK(&k->lock);
	slot_locked(k, node, true)->exists_until = now + NODE_EXISTS_FOR_NS;
}

bool node_cache_exists(struct node_cache *k, const char *node, int64_t now)
{
	const struct node_cache_slot *at;

	WITH_LOCK(&k->lock);
	at = slot_locked(k, node, false);
	return at && now < at->exists_until;
}

void node_cache_put_dpu(struct node_cache *k, const char *node, int64_t now)
{
	WITH_LOCK(&k->lock);
	slot_locked(k, node, true)->dpu_until = now + NODE_DPU_FOR_NS;
}

bool node_cache_has_dpu(struct node_cache *k, const char *node, int64_t now)
{
	const struct node_cache_slot *at;

	WITH_LOCK(&k->lock);
	at = slot_locked(k, node, false);
	return at && now < at->dpu_until;
}

void node_cache_put_limit(struct node_cache *k, const char *node, int64_t limit, int64_t now)
{
	struct node_cache_slot *at;

	WITH_LOCK(&k->lock);
	at = slot_locked(k, node, true);
	at->limit = limit;
	at->limit_until = now + NODE_LIMIT_FOR_NS;
}

bool node_cache_get_limit(struct node_cache *k, const char *node, int64_t now, int64_t *ret)
{
	const struct node_cache_slot *at;

	WITH_LOCK(&k->lock);
	at = slot_locked(k, node, false);
	if (!at || now >= at->limit_until)
		return false;
	*ret = at->limit;
	return true;
}
