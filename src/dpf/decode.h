/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes JSON objects by a table of fields; only for this directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/json.h"
#include "common/str.h"

/* The type of the JSON value, and of the struct's member that receives it. */
enum field_type {
	FIELD_TEXT,     /* const char * */
	FIELD_FLAG,     /* bool */
	FIELD_NUMBER,   /* int64_t */
	FIELD_QUANTITY, /* int64_t, bytes */
	FIELD_MAP,      /* const struct json *: an object whose members are strings */
	FIELD_PRESENT,  /* bool: whether the value is present */
	FIELD_LIST,     /* an array, which decode_fields() skips */
};

/*
 * The path of a value in JSON, and the member that receives it. An absent value leaves the member
 * unchanged.
 */
struct json_field {
	const char *path;
	enum field_type type;
	size_t offset;
};

/*
 * Decodes the fields. Returns -1 (UNAVAILABLE) if any value has the wrong type; the message begins
 * with the path of the first such value. The members for such values stay unchanged; all other
 * members are filled in.
 */
int decode_fields(const struct json *object, const struct json_field *fields, size_t n, void *into,
                  struct err *err) MUST_CHECK;
/*
 * Returns true if this schema of the kind (OpenAPI v3) has each field of `spec` and `status` with
 * its type. If not, adds the missing fields to *lacks: "spec.x is missing". Fields of `metadata`
 * are not checked, because each kind has them.
 */
bool schema_has_fields(const struct json *schema, const struct json_field *fields, size_t n,
                       struct str *lacks);
