/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a volume: a sparse file that holds its data. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "test/sim/base/faults.h"

/* Creates the file, or enlarges it: at least this many bytes. */
int image_make(const char *path, uint64_t bytes, struct err *err) MUST_CHECK;
/* Before an attachment: creates the file, and writes the data of the fault foreign-data into it. */
int image_prepare(const char *path, uint64_t bytes, struct faults *faults, const char *volume,
                  struct err *err) MUST_CHECK;
