/* SPDX-License-Identifier: Apache-2.0 */
/* How small a volume may be for its filesystem. Pure, any thread. */
#pragma once

#include <stdint.h>

#include "volume/volume_params.h"

/*
 * Bytes on which the tools make this filesystem (a name of filesystem_normalise()) with these keys,
 * so that the kernel mounts it as that. Never less than they need; with keys sometimes a little
 * more.
 */
uint64_t filesystem_least_bytes(const char *fs, const struct mkfs_params *m);
