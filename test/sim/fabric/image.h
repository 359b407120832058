/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a volume: a sparse file that holds its data. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "test/sim/base/faults.h"

/* Makes the file, or makes it larger: at least so many bytes. */
int image_make(const char *path, uint64_t bytes, struct err *err) MUST_CHECK;
/* Before an attachment: makes the file, and writes into it what the fault foreign-data says. */
int image_prepare(const char *path, uint64_t bytes, struct faults *faults, const char *volume,
                  struct err *err) MUST_CHECK;
