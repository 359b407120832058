/* SPDX-License-Identifier: Apache-2.0 */
/* How small a volume may be for its filesystem. Pure, any thread. */
#pragma once

#include <stdint.h>

#include "volume/volume_params.h"

/* From this size on, mke2fs makes blocks of 4096 bytes; below, of 1024. */
#define FILESYSTEM_LARGE_EXT (UINT64_C(512) << 20)

/*
 * Bytes on which the tools make this filesystem (a name of filesystem_normalise()) with these keys,
 * so that the kernel mounts it as that. Never less than they need; with keys sometimes a little
 * more.
 */
uint64_t filesystem_least_bytes(const char *fs, const struct mkfs_params *m);
