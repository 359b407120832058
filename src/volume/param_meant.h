/* SPDX-License-Identifier: Apache-2.0 */
/* Detects misspelled keys of a StorageClass. Pure functions, any thread. */
#pragma once

#include <stddef.h>

#include "common/err.h"

/*
 * Returns the key of `known` that `key` was probably meant to be. They differ in upper and lower
 * case, by one letter (changed, missing, added, or two swapped), or `key` has no prefix or one that
 * resembles the driver's. Returns NULL if `key` is one of `known`, or is foreign, as every key with
 * a foreign prefix is.
 */
const char *param_meant(const char *key, const char *const *known, size_t n);
/* Returns 0, or -1 with INVALID_ARGUMENT naming the key that param_meant() finds. */
int param_refuse_slip(const char *key, const char *const *known, size_t n, struct err *err)
	MUST_CHECK;
