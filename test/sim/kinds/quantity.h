/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities ("1Gi", "1500M", "1e9", "1073741824") as bytes. */
#pragma once

#include <stdint.h>

#include "common/err.h"

/*
 * The bytes; fractions are rounded up. INVALID_ARGUMENT: not a quantity, or negative. OUT_OF_RANGE:
 * it is above 2^63 - 1.
 */
int quantity_parse(const char *text, uint64_t *ret, struct err *err) MUST_CHECK;
