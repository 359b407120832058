/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding by table, for the kinds of this folder only. */
#pragma once

#include <stddef.h>

#include "common/json.h"

enum field_type { FIELD_TEXT, FIELD_FLAG, FIELD_NUMBER, FIELD_QUANTITY, FIELD_MAP, FIELD_PRESENT };

/*
 * Where a value is and where it goes: const char *, bool, int64_t, int64_t, const struct json * (an
 * object whose members are strings), bool. Absent values leave the member as it is.
 */
struct json_field {
	const char *path;
	enum field_type type;
	size_t offset;
};

/* -1: UNAVAILABLE, starting with the path. */
int decode_fields(const struct json *object, const struct json_field *fields, size_t n, void *into,
                  struct err *err) MUST_CHECK;
