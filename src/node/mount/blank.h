/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a device empty? A missing signature proves nothing: a killed mkfs, a database on the raw
 * device and an unknown filesystem show no signature either. A device is blank when the places of
 * blank_places.h are zero. They are read in that order, several at a time; with O_DIRECT the device
 * answers, not the page cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct blank {
	bool is_blank;
	uint64_t offset; /* if not: of the first non-zero byte in the order of the places */
	uint8_t byte;    /* and its value */
};

/*
 * fd: opened for reading, O_DIRECT or not; `name` is for the error; size in bytes, a multiple of
 * 512; seed: the volume's id. UNAVAILABLE: a read error or a short read.
 */
int blank_check(int fd, const char *name, uint64_t size, const char *seed, struct blank *ret,
                struct err *err) MUST_CHECK;
