/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the usage of blocks and of inodes by one rule. No state, any thread. */
#include "node/target/usage.h"

static uint64_t at_most(uint64_t n, uint64_t most)
{
	return n < most ? n : most;
}

/* Returns n units of `unit` bytes, at most INT64_MAX. */
static uint64_t usage_times(uint64_t n, uint64_t unit)
{
	uint64_t product;

	return __builtin_mul_overflow(n, unit, &product) ? INT64_MAX : at_most(product, INT64_MAX);
}

static struct usage usage_of(uint64_t total, uint64_t free, uint64_t available, uint64_t unit)
{
	struct usage u;

	free = at_most(free, total);
	u.total = usage_times(total, unit);
	u.used = usage_times(total - free, unit);
	u.available = at_most(usage_times(at_most(available, free), unit), u.total - u.used);
	return u;
}

struct usage usage_bytes(const struct statvfs *fs)
{
	return usage_of(fs->f_blocks, fs->f_bfree, fs->f_bavail, fs->f_frsize);
}

struct usage usage_inodes(const struct statvfs *fs)
{
	return usage_of(fs->f_files, fs->f_ffree, fs->f_ffree, 1);
}
