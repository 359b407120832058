/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax of keys and values of labels, and of other qualified names. */
#pragma once

#include <stdbool.h>

/* "app" or "example.com/app": keys of labels and annotations, finalizers. */
bool qualified_name_is_valid(const char *name);
/* Empty, or at most 63 of [-_.A-Za-z0-9] with a letter or digit at both ends. */
bool label_value_is_valid(const char *value);
