/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities ("1Gi", "1500M", "1e9", "1073741824") as bytes. */
#pragma once

#include <stdint.h>

#include "common/err.h"

/*
 * Bytes, fractions rounded up. INVALID_ARGUMENT for what is no quantity or is negative,
 * OUT_OF_RANGE above 2^63 - 1.
 */
int quantity_parse(const char *text, uint64_t *ret, struct err *err) MUST_CHECK;
