/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding JSON objects by a table of fields; for this folder only. */
#pragma once

#include <stddef.h>

#include "common/json.h"

/* What is read, and the type of the struct's member that it goes to. */
enum field_type {
	FIELD_TEXT,     /* const char * */
	FIELD_FLAG,     /* bool */
	FIELD_NUMBER,   /* int64_t */
	FIELD_QUANTITY, /* int64_t, bytes */
	FIELD_MAP,      /* const struct json *: an object whose members are strings */
	FIELD_PRESENT,  /* bool: is there any value? */
};

/* Where a value is in JSON, and where it goes. An absent value leaves the member as it is. */
struct json_field {
	const char *path;
	enum field_type type;
	size_t offset;
};

/*
 * -1 (UNAVAILABLE, the text begins with the path) when a value has the wrong type: of the first
 * one. Its member stays as it is, all others are filled in.
 */
int decode_fields(const struct json *object, const struct json_field *fields, size_t n, void *into,
                  struct err *err) MUST_CHECK;
