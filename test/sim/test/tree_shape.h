/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of a sysfs tree: its attributes and links without the numbers that differ between
 * hosts, so that trees can be compared.
 */
#pragma once

#include "common/str.h"

/* Each path below `sysfs` once, a link as "path -> target"; the caller clears it. */
struct strs tree_shape(const char *sysfs);
