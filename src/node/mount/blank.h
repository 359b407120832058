/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a device empty? That it has no signature proves nothing: a killed mkfs, a database on the raw
 * device or an unknown filesystem has none. A device is blank when these places are zero: the first
 * and last 4 MiB, 64 places evenly between (among them the quarters, where xfs keeps its copies),
 * and places at growing distances from the start, where data comes first. They are read in this
 * order, several at a time; with O_DIRECT the device answers, not the page cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct blank {
	bool is_blank;
	uint64_t offset; /* if not: of the first non-zero byte in the order above */
	uint8_t byte;    /* and its value */
};

/*
 * fd: opened for reading, O_DIRECT or not; `name` is for the error; size in bytes, a multiple of
 * 512. UNAVAILABLE: a read error or a short read.
 */
int blank_check(int fd, const char *name, uint64_t size, struct blank *ret, struct err *err)
	MUST_CHECK;
