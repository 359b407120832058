/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the minimum size of a volume for its filesystem. Pure, any thread. */
#pragma once

#include <stdint.h>

#include "volume/volume_params.h"

/* At this size or more, mke2fs uses blocks of 4096 bytes; below it, blocks of 1024 bytes. */
#define FILESYSTEM_LARGE_EXT (UINT64_C(512) << 20)

/*
 * Returns the size in bytes at which the tools can create this filesystem (a name from
 * filesystem_normalise()) with these keys, and the kernel can mount it. The result is never less
 * than required; with keys it is sometimes slightly more.
 */
uint64_t filesystem_least_bytes(const char *fs, const struct mkfs_params *m);
