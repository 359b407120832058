/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4: two rounds over four words for each eight bytes, and four rounds at the end.
 * Stateless; any thread.
 */
#include "common/keyed_hash.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

struct words {
	uint64_t a, b, c, d;
};

static uint64_t turned(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static void stir(struct words *w, unsigned times)
{
	while (times--) {
		w->a += w->b;
		w->b = turned(w->b, 13) ^ w->a;
		w->a = turned(w->a, 32);
		w->c += w->d;
		w->d = turned(w->d, 16) ^ w->c;
		w->a += w->d;
		w->d = turned(w->d, 21) ^ w->a;
		w->c += w->b;
		w->b = turned(w->b, 17) ^ w->c;
		w->c = turned(w->c, 32);
	}
}

static void take(struct words *w, uint64_t eight)
{
	w->d ^= eight;
	stir(w, 2);
	w->a ^= eight;
}

uint64_t keyed_hash(const struct hash_key *key, const void *bytes, size_t n)
{
	struct words w = { key->k0 ^ UINT64_C(0x736f6d6570736575),
		           key->k1 ^ UINT64_C(0x646f72616e646f6d),
		           key->k0 ^ UINT64_C(0x6c7967656e657261),
		           key->k1 ^ UINT64_C(0x7465646279746573) };
	const char *at = bytes;
	uint64_t last = 0, eight;

	for (size_t left = n; left >= sizeof(eight); left -= sizeof(eight)) {
		memcpy(&eight, at, sizeof(eight));
		take(&w, le64toh(eight));
		at += sizeof(eight);
	}
	if (n % sizeof(last))
		memcpy(&last, at, n % sizeof(last));
	take(&w, le64toh(last) | (uint64_t)n << 56);
	w.c ^= 0xff;
	stir(&w, 4);
	return w.a ^ w.b ^ w.c ^ w.d;
}

struct hash_key hash_key_random(void)
{
	struct hash_key key;

	arc4random_buf(&key, sizeof(key));
	return key;
}
