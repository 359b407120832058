/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the blank check (blank.h) reads. Devices up to 16 MiB are read whole. Of larger ones:
 *
 *   - the first and last 4 MiB
 *   - 63 places of 16 KiB at equal distances; the quarters, where xfs keeps its copies, are among
 *     them
 *   - four places of 16 KiB in each doubling of the distance from the start, where data comes
 *     first; the backup superblocks of ext4 and btrfs are among them
 *   - 1,000 places of 4 KiB: what lies between the first and the last 4 MiB is divided into 1,000
 *     equal parts, and one place is drawn at random in each. `seed` decides the places, so that a
 *     retry for one volume reads the same ones.
 *
 * Pure: the same size and seed give the same places. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BLANK_ALIGN 4096                /* of each place's begin, for O_DIRECT */
#define BLANK_CHUNK (64 * (size_t)1024) /* the most bytes of a place */
#define BLANK_PLACES_MAX (1000 + 600)

struct blank_place {
	uint64_t from;
	size_t n; /* bytes, at most BLANK_CHUNK */
};

struct blank_places {
	struct blank_place v[BLANK_PLACES_MAX];
	size_t n;
	size_t fixed; /* the first so many do not depend on the seed */
};

/* size in bytes; seed: the volume's id. Places are in the order of the list above. */
void blank_places(struct blank_places *ret, uint64_t size, const char *seed);
