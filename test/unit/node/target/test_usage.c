/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server returns, no number is negative, and the numbers are consistent. */
#include "test/lib/suite.h"

#include "common/cleanup.h"
#include "node/target/usage.h"

START_TEST(no_answer_makes_numbers_that_contradict_each_other)
{
	static const struct {
		const char *what;
		uint64_t unit, blocks, free, available;
		struct usage want;
	} rows[] = {
		{ "as usual", 4096, 100, 60, 50, { 409600, 163840, 204800 } },
		{ "more bytes than 63 bits hold",
		  4096,
		  UINT64_MAX / 4096,
		  10,
		  10,
		  { INT64_MAX, INT64_MAX, 0 } },
		{ "more than 64 bits",
		  1 << 20,
		  UINT64_MAX,
		  UINT64_MAX,
		  UINT64_MAX,
		  { INT64_MAX, 0, INT64_MAX } },
		{ "more free than there is", 512, 100, 400, 300, { 51200, 0, 51200 } },
		{ "less than nothing available",
		  512,
		  100,
		  40,
		  (uint64_t)-20,
		  { 51200, 30720, 20480 } },
		{ "all unknown", 4096, 0, 0, 0, { 0, 0, 0 } },
		{ "free of nothing", 4096, 0, 7, 7, { 0, 0, 0 } },
		{ "blocks of no size", 0, 100, 60, 50, { 0, 0, 0 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct statvfs fs = { .f_frsize = rows[i].unit,
			                    .f_blocks = rows[i].blocks,
			                    .f_bfree = rows[i].free,
			                    .f_bavail = rows[i].available,
			                    .f_files = rows[i].blocks,
			                    .f_ffree = rows[i].free };
		struct usage is = usage_bytes(&fs), inodes = usage_inodes(&fs);

		ck_assert_msg(is.total == rows[i].want.total && is.used == rows[i].want.used &&
		                      is.available == rows[i].want.available,
		              "%s: %ju %ju %ju", rows[i].what, (uintmax_t)is.total,
		              (uintmax_t)is.used, (uintmax_t)is.available);
		ck_assert_msg(inodes.total <= INT64_MAX && inodes.used <= inodes.total &&
		                      inodes.available <= inodes.total - inodes.used,
		              "%s: inodes", rows[i].what);
	}
}
END_TEST

SUITE("usage", no_answer_makes_numbers_that_contradict_each_other);
