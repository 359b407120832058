/* SPDX-License-Identifier: Apache-2.0 */
/* The hash, compared with the values of its specification. */
#include "common/keyed_hash.h"

#include "common/cleanup.h"
#include "test/lib/suite.h"

/* The key is 00 01 ... 0f, the input is 00 01 ... of n bytes. */
START_TEST(it_is_siphash)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} rows[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },
		{ 1, UINT64_C(0x74f839c593dc67fd) },
		{ 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) },
	};
	const struct hash_key key = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
	unsigned char bytes[15];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		ck_assert_msg(keyed_hash(&key, bytes, rows[i].n) == rows[i].hash, "%zu bytes",
		              rows[i].n);
	ck_assert(keyed_hash(&key, NULL, 0) == rows[0].hash);
}
END_TEST

START_TEST(each_key_is_another)
{
	struct hash_key a = hash_key_random(), b = hash_key_random();

	ck_assert(keyed_hash(&a, "x", 1) != keyed_hash(&b, "x", 1));
}
END_TEST

SUITE("keyed_hash", it_is_siphash, each_key_is_another);
