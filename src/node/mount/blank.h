/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a device is empty. A missing signature proves nothing, because a killed mkfs, a
 * database on the raw device and an unknown filesystem have no signature either. A device is blank
 * if the ranges of blank_places.h are all zeros. They are read in that order, several at a time.
 * With O_DIRECT the data come from the device, not from the page cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct blank {
	bool is_blank;
	/* if not blank: offset of the first non-zero byte in the order of the ranges */
	uint64_t offset;
	uint8_t byte; /* the value of that byte */
};

/*
 * Checks the device. fd: open for reading, with or without O_DIRECT; `name` is for errors; size:
 * bytes, a multiple of 512; seed: the volume ID. UNAVAILABLE: a read error or a short read.
 */
int blank_check(int fd, const char *name, uint64_t size, const char *seed, struct blank *ret,
                struct err *err) MUST_CHECK;
