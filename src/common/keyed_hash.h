/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit hash of bytes whose collisions cannot be found without its key: SipHash-2-4. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k0, k1;
};

/* Returns a random key, different in each process. */
struct hash_key hash_key_random(void);
/* `bytes` may be NULL if n is 0. */
uint64_t keyed_hash(const struct hash_key *key, const void *bytes, size_t n);
