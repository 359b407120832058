/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of volumes that an operation is running on. A hold is an entry of a list, not a
 * mutex held across the work; the list is as long as there are calls running (tens).
 */
#include "common/keylock.h"

#include <assert.h>
#include <string.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "common/metric.h"

struct keylock_hold {
	struct keylock *lock;
	struct keylock_hold *next;
	const char *what;
	int64_t since; /* monotonic ns */
	unsigned span; /* its entry in the metric */
	char key[];
};

struct keylock {
	pthread_mutex_t mutex; /* guards the list */
	struct keylock_hold *held;
};

struct keylock *keylock_new(void)
{
	struct keylock *k = xcalloc(1, sizeof(*k));

	pthread_mutex_init(&k->mutex, NULL);
	return k;
}

struct keylock *keylock_free(struct keylock *k)
{
	if (!k)
		return NULL;
	assert(!k->held);
	pthread_mutex_destroy(&k->mutex);
	free(k);
	return NULL;
}

static const struct keylock_hold *find_locked(struct keylock *k, const char *key)
{
	assert_locked(&k->mutex);
	for (const struct keylock_hold *h = k->held; h; h = h->next)
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
	const struct keylock_hold *other;

	WITH_LOCK(&k->mutex);
	other = find_locked(k, key);
	if (other)
		return err_set(err, ERR_ABORTED,
		               "volume %s: %s has been running for %.1f s; retry when it has ended",
		               key, other->what, (double)(mine->since - other->since) / 1e9);
	mine->span = metric_begin(METRIC_VOLUMES_BUSY, LABELS(what));
	mine->next = k->held;
	k->held = mine;
	*ret = TAKE(mine);
	return 0;
}

void keylock_release(struct keylock_hold *h)
{
	struct keylock *k = h->lock;

	metric_end(h->span);
	{
		WITH_LOCK(&k->mutex);
		struct keylock_hold **at = &k->held;

		while (*at && *at != h)
			at = &(*at)->next;
		assert(*at); /* a hold is released once */
		*at = h->next;
	}
	free(h);
}
