/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a device empty? Signatures are not enough: a killed mkfs, a database on the raw device or an
 * unknown filesystem have none. Read and found zero are: the first and last 4 MiB, 64 places evenly
 * between (among them the quarters, where xfs keeps its copies), and places at growing distances
 * from the start, where data comes first; in this order, several at a time. Reads bypass the page
 * cache: what answers is the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct blank {
	bool is_blank;
	uint64_t offset; /* of the first non-zero byte in the order above, when it is not */
	uint8_t byte;    /* and its value */
};

/*
 * fd: opened for reading, O_DIRECT or not; size in bytes, a multiple of 512. Read error or a short
 * read: UNAVAILABLE.
 */
int blank_check(int fd, const char *name, uint64_t size, struct blank *ret, struct err *err)
	MUST_CHECK;
