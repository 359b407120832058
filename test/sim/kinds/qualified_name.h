/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qualified names, which are keys of labels and annotations and finalizers, and values of labels.
 */
#pragma once

#include <stdbool.h>

/* "app" or "example.com/app". */
bool qualified_name_is_valid(const char *name);
/* Empty, or at most 63 of [-_.A-Za-z0-9] with a letter or digit at both ends. */
bool label_value_is_valid(const char *value);
