/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes quantities ("1Gi", "1.5G", "1e9") as bytes, exactly. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

/*
 * What Go's Quantity.Value() gives: rounded up to a whole number. Not negative, below 2^63, at most
 * 18 digits behind the point; else an error (INVALID_ARGUMENT) that starts with `what`.
 */
int quantity_parse(const char *what, const char *text, int64_t *ret, struct err *err) MUST_CHECK;
/* The quantity at a path of an object, a string or a number: 0, -1, or JSON_ABSENT. */
int quantity_get(const struct json *j, const char *path, int64_t *ret, struct err *err) MUST_CHECK;
/* The shortest exact text with a binary suffix: "1Gi", "1536Mi", "1000". Returns buf. */
const char *quantity_text(int64_t bytes, char buf[32]);
