/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the ranges ("places") that the blank check (blank.h) reads. Devices of up to 16 MiB are
 * read completely. On larger devices:
 *
 *   - the first and last 4 MiB
 *   - 63 ranges of 16 KiB at equal distances, including the quarters of the device, where xfs
 *     keeps copies of its superblock
 *   - four ranges of 16 KiB for each doubling of the offset, because the start of a device is
 *     usually written first; they include the backup superblocks of ext4 and btrfs
 *   - 1,000 ranges of 4 KiB: the area between the first and the last 4 MiB is divided into 1,000
 *     equal parts, and one range is chosen at random in each. `seed` determines the ranges, so
 *     that a retry for a volume reads the same ones.
 *
 * Pure functions: the same size and seed give the same ranges. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BLANK_ALIGN 4096                /* alignment of the start of each range, for O_DIRECT */
#define BLANK_CHUNK (64 * (size_t)1024) /* maximum size of a range, in bytes */
#define BLANK_PLACES_MAX (1000 + 600)

struct blank_place {
	uint64_t from;
	size_t n; /* bytes, at most BLANK_CHUNK */
};

struct blank_places {
	struct blank_place v[BLANK_PLACES_MAX];
	size_t n;
	size_t fixed; /* the first `fixed` elements do not depend on the seed */
};

/*
 * Selects the ranges for a device of `size` bytes, in the order of the list above; seed: the volume
 * ID.
 */
void blank_places(struct blank_places *ret, uint64_t size, const char *seed);
