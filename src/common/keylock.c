/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of volumes that an operation is running on. A hold is an entry of the table, not a
 * mutex held across the work. Thousands of calls may wait, each with its hold: a key is sought
 * among those of its bucket.
 */
#include "common/keylock.h"

#include <assert.h>
#include <string.h>

#include "common/deadline.h"
#include "common/keyed_hash.h"
#include "common/mem.h"
#include "common/metric.h"

#define BUCKETS 256 /* 2 KB; a dozen holds in each while 3,000 calls wait */

struct keylock_hold {
	struct keylock *lock;
	struct keylock_hold *next, **place; /* in its bucket; *place points here */
	const char *what;
	int64_t since; /* monotonic ns */
	unsigned span; /* its entry in the metric */
	char key[];
};

struct keylock {
	struct hash_key hash_key; /* callers choose the keys */
	pthread_mutex_t mutex;    /* guards the buckets */
	struct keylock_hold *held[BUCKETS];
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
	for (size_t i = 0; i < BUCKETS; i++)
		assert(!k->held[i]);
	pthread_mutex_destroy(&k->mutex);
	free(k);
	return NULL;
}

static struct keylock_hold **bucket_of(struct keylock *k, const char *key)
{
	return &k->held[keyed_hash(&k->hash_key, key, strlen(key)) % BUCKETS];
}

static const struct keylock_hold *find_locked(struct keylock *k, struct keylock_hold *const *bucket,
                                              const char *key)
{
	assert_locked(&k->mutex);
	for (const struct keylock_hold *h = *bucket; h; h = h->next)
		if (strcmp(h->key, key) == 0)
			return h;
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
	struct keylock_hold **bucket = bucket_of(k, key);
	const struct keylock_hold *other;

	WITH_LOCK(&k->mutex);
	other = find_locked(k, bucket, key);
	if (other)
		return err_set(err, ERR_ABORTED,
		               "volume %s: %s has been running for %.1f s; retry when it has ended",
		               key, other->what, (double)(mine->since - other->since) / 1e9);
	mine->span = metric_begin(METRIC_VOLUMES_BUSY, LABELS(what));
	mine->next = *bucket;
	mine->place = bucket;
	if (mine->next)
		mine->next->place = &mine->next;
	*bucket = mine;
	*ret = TAKE(mine);
	return 0;
}

void keylock_release(struct keylock_hold *h)
{
	struct keylock *k = h->lock;

	metric_end(h->span);
	{
		WITH_LOCK(&k->mutex);
		assert(*h->place == h); /* a hold is released once */
		*h->place = h->next;
		if (h->next)
			h->next->place = h->place;
	}
	free(h);
}
