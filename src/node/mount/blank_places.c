/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the ranges. docs/reference/formatting.md states the probability that the random ranges
 * miss an extent of data; test_blank_places computes it from this list. One range in each part
 * detects more than the same number of ranges chosen from the whole device.
 */
#include "node/mount/blank_places.h"

#include <assert.h>
#include <string.h>

#include "common/keyed_hash.h"

#define MIB (1024ULL * 1024)
#define EDGE (4 * MIB)
#define SMALL (16 * MIB)
#define SAMPLE (16 * 1024ULL)
#define EVEN_SAMPLES 64
#define RANDOM_PLACES 1000

/* Adds the bytes [from, to), in ranges of at most BLANK_CHUNK. */
static void add(struct blank_places *p, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t n = to - from < BLANK_CHUNK ? (size_t)(to - from) : BLANK_CHUNK;

		assert(p->n < BLANK_PLACES_MAX);
		p->v[p->n++] = (struct blank_place) { from, n };
		from += n;
	}
}

/* Adds one range between the first and the last 4 MiB. */
static void add_sample(struct blank_places *p, uint64_t at, uint64_t size)
{
	uint64_t from = at / BLANK_ALIGN * BLANK_ALIGN, to = from + SAMPLE;

	if (from < EDGE)
		from = EDGE;
	if (to > size)
		to = size;
	add(p, from, to);
}

static void add_fixed(struct blank_places *p, uint64_t size)
{
	add(p, 0, EDGE);
	add(p, (size - EDGE) / BLANK_ALIGN * BLANK_ALIGN, size);
	for (unsigned i = 1; i < EVEN_SAMPLES; i++)
		add_sample(p, size / EVEN_SAMPLES * i - SAMPLE / 2, size);
	/* 5, 6, 7, 8, 10, 12, 14, 16, 20 ... MiB */
	for (uint64_t base = EDGE; base < size && base < UINT64_MAX / 2; base *= 2)
		for (unsigned quarter = 4; quarter < 8; quarter++)
			if (base / 4 * quarter < size)
				add_sample(p, base / 4 * quarter, size);
}

static void add_random(struct blank_places *p, uint64_t size, const char *seed)
{
	/* a fixed key: the same ranges in each process */
	static const struct hash_key known = { 0, 0 };
	struct hash_key key = { keyed_hash(&known, seed, strlen(seed)), 0 };
	uint64_t blocks = (size - 2 * EDGE) / BLANK_ALIGN;

	for (uint64_t i = 0; i < RANDOM_PLACES; i++) {
		uint64_t first = blocks * i / RANDOM_PLACES;
		uint64_t part = blocks * (i + 1) / RANDOM_PLACES - first;
		uint64_t at = first + keyed_hash(&key, &i, sizeof(i)) % part;

		add(p, EDGE + at * BLANK_ALIGN, EDGE + (at + 1) * BLANK_ALIGN);
	}
}

void blank_places(struct blank_places *ret, uint64_t size, const char *seed)
{
	ret->n = 0;
	if (size <= SMALL)
		add(ret, 0, size);
	else
		add_fixed(ret, size);
	ret->fixed = ret->n;
	if (size > SMALL)
		add_random(ret, size, seed);
}
