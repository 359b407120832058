/* SPDX-License-Identifier: Apache-2.0 */
/* Converts Kubernetes quantities ("1Gi", "1.5G", "1e9") to exact numbers of bytes. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

/*
 * Parses a quantity. *ret is the value of Go's Quantity.Value(), which is rounded up to an integer.
 * The quantity must not be negative, must be below 2^63 and have at most 18 digits after the
 * decimal point; otherwise an error (INVALID_ARGUMENT) begins with `what`.
 */
int quantity_parse(const char *what, const char *text, int64_t *ret, struct err *err) MUST_CHECK;
/*
 * Reads the quantity, a string or a number, at a path of an object. Returns 0, -1, or JSON_ABSENT.
 */
int quantity_get(const struct json *j, const char *path, int64_t *ret, struct err *err) MUST_CHECK;
/* Writes the shortest exact text with a binary suffix: "1Gi", "1536Mi", "1000". Returns buf. */
const char *quantity_text(int64_t bytes, char buf[32]);
