/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the result of statvfs(2) into values that are valid in CSI. The server of a share may
 * return any values: more free blocks than blocks, or more bytes than fit into 63 bits. No state.
 *
 * Source: VolumeUsage of the CSI specification: no value is negative.
 */
#pragma once

#include <stdint.h>
#include <sys/statvfs.h>

/* Each value is at most INT64_MAX, and used + available is at most total. */
struct usage {
	uint64_t total, used, available;
};

struct usage usage_bytes(const struct statvfs *fs);
struct usage usage_inodes(const struct statvfs *fs);
