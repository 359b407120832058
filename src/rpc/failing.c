/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table without a lock. A place is taken by exchanging its key, which says that the others
 * of its fields are of that volume; a reader who is between the two sees times of another volume,
 * which the next look puts right. Nothing is decided by it.
 */
#include "rpc/failing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/keyed_hash.h"

#define PLACES 16 /* of a volume: the next ones behind its own */

static struct {
	_Atomic uint64_t key;        /* 0: free */
	_Atomic int64_t first, last; /* monotonic ns */
} table[FAILING_MAX];
static _Atomic unsigned used; /* 0: nothing has failed; a hint that saves the walk */
static struct hash_key hash_key;

static void make_key(void)
{
	hash_key = hash_key_random();
}

static uint64_t key_of(const char *volume)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t key;

	pthread_once(&once, make_key);
	key = keyed_hash(&hash_key, volume, strlen(volume));
	return key ? key : 1;
}

static bool is_forgotten(unsigned i, int64_t now)
{
	return now - atomic_load(&table[i].last) > FAILING_FORGOTTEN_NS;
}

static void set(unsigned i, int64_t now)
{
	atomic_store(&table[i].first, now);
	atomic_store(&table[i].last, now);
}

static void note_failed(uint64_t key, int64_t now)
{
	unsigned from = (unsigned)(key % FAILING_MAX);

	for (unsigned n = 0; n < PLACES; n++) {
		unsigned i = (from + n) % FAILING_MAX;

		if (atomic_load(&table[i].key) != key)
			continue;
		if (is_forgotten(i, now))
			atomic_store(&table[i].first, now);
		atomic_store(&table[i].last, now);
		return;
	}
	for (unsigned n = 0; n < PLACES; n++) {
		unsigned i = (from + n) % FAILING_MAX;
		uint64_t there = atomic_load(&table[i].key);

		if (there && !is_forgotten(i, now))
			continue;
		if (atomic_compare_exchange_strong(&table[i].key, &there, key)) {
			set(i, now);
			return;
		}
	}
}

static void note_good(uint64_t key)
{
	unsigned from = (unsigned)(key % FAILING_MAX);

	for (unsigned n = 0; n < PLACES; n++) {
		uint64_t expected = key;

		atomic_compare_exchange_strong(&table[(from + n) % FAILING_MAX].key, &expected, 0);
	}
}

void failing_note(const char *volume, bool failed, int64_t now)
{
	if (failed) {
		atomic_store(&used, 1);
		note_failed(key_of(volume), now);
	} else if (atomic_load(&used)) {
		note_good(key_of(volume));
	}
}

unsigned failing_count(int64_t now, int64_t *ret_oldest)
{
	unsigned n = 0;

	*ret_oldest = 0;
	for (unsigned i = 0; i < FAILING_MAX && atomic_load(&used); i++) {
		if (!atomic_load(&table[i].key) || is_forgotten(i, now))
			continue;
		n++;
		if (now - atomic_load(&table[i].first) > *ret_oldest)
			*ret_oldest = now - atomic_load(&table[i].first);
	}
	return n;
}
