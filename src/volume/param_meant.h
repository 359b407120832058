/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a StorageClass that were meant to be others. Pure functions, any thread. */
#pragma once

#include <stddef.h>

#include "common/err.h"

/*
 * The one of `known` that `key` was meant to be: it differs by upper and lower case, by one letter
 * (changed, missing, added, or two that changed places), or by having no prefix or one that
 * resembles the driver's. NULL: the key is one of `known`, or somebody else's, as every key with a
 * prefix of somebody else is.
 */
const char *param_meant(const char *key, const char *const *known, size_t n);
/* 0, or -1 INVALID_ARGUMENT naming the key that param_meant() finds. */
int param_refuse_slip(const char *key, const char *const *known, size_t n, struct err *err)
	MUST_CHECK;
