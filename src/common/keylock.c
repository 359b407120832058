/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of volumes that have a running operation. A hold is an entry of the table, not a mutex
 * that is held during the operation. Thousands of calls may be running, each with its own hold.
 */
#include "common/keylock.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "common/deadline.h"
#include "common/hash_table.h"
#include "common/keyed_hash.h"
#include "common/mem.h"
#include "common/metric.h"

struct keylock_hold {
	struct hash_link link; /* in `held` */
	struct keylock *lock;
	const char *what;
	int64_t since; /* monotonic ns */
	unsigned span; /* the hold's span in the metric */
	char key[];
};
_Static_assert(offsetof(struct keylock_hold, link) == 0, "find_locked() casts");

struct keylock {
	struct hash_key hash_key; /* needed because callers choose the keys */
	pthread_mutex_t mutex;    /* guards `held` */
	struct hash_table held;
};

struct keylock *keylock_new(void)
{
	struct keylock *k = xcalloc(1, sizeof(*k));

	k->hash_key = hash_key_random();
	pthread_mutex_init(&k->mutex, NULL);
	return k;
}

struct keylock *keylock_free(struct keylock *k)
{
	if (!k)
		return NULL;
	assert(k->held.n == 0);
	hash_table_clear(&k->held);
	pthread_mutex_destroy(&k->mutex);
	free(k);
	return NULL;
}

static const struct keylock_hold *keylock_find_locked(struct keylock *k, uint64_t hash,
                                                      const char *key)
{
	assert_locked(&k->mutex);
	for (const struct hash_link *l = hash_table_first(&k->held, hash); l;
	     l = hash_table_next(l)) {
		const struct keylock_hold *h = (const struct keylock_hold *)l;

		if (strcmp(h->key, key) == 0)
			return h;
	}
	return NULL;
}

static struct keylock_hold *hold_new(struct keylock *k, const char *key, const char *what)
{
	size_t n = strlen(key) + 1;
	struct keylock_hold *h = xmalloc(sizeof(*h) + n);

	*h = (struct keylock_hold) { .lock = k, .what = what, .since = monotonic_ns() };
	memcpy(h->key, key, n);
	return h;
}

int keylock_take(struct keylock *k, const char *key, const char *what, struct keylock_hold **ret,
                 struct err *err)
{
	struct keylock_hold *mine AUTO(free) = hold_new(k, key, what);
	uint64_t hash = keyed_hash(&k->hash_key, key, strlen(key));
	const struct keylock_hold *other;

	WITH_LOCK(&k->mutex);
	other = keylock_find_locked(k, hash, key);
	if (other)
		return err_set(err, ERR_ABORTED,
		               "volume %s: %s has been running for %.1f s; retry when it has ended",
		               key, other->what, (double)(mine->since - other->since) / 1e9);
	mine->span = metric_begin(METRIC_VOLUMES_BUSY, LABELS(what));
	hash_table_add(&k->held, &mine->link, hash);
	*ret = TAKE(mine);
	return 0;
}

void keylock_release(struct keylock_hold *h)
{
	struct keylock *k = h->lock;

	metric_end(h->span);
	{
		WITH_LOCK(&k->mutex);
		hash_table_remove(&k->held, &h->link);
	}
	free(h);
}
