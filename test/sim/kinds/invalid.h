/* SPDX-License-Identifier: Apache-2.0 */
/* The validation errors of an object: the causes of a 422. */
#pragma once

#include "common/cleanup.h"
#include "common/json.h"
#include "common/str.h"

/* The causes, in the order found. */
struct invalid {
	struct json *causes; /* [{reason, message, field}] */
	struct str text;     /* "spec.a: Required value, spec.b: ..." */
	size_t n;
};
void invalid_init(struct invalid *i);
void invalid_clear(struct invalid *i);
DEFINE_AUTO_VALUE(struct invalid, invalid_clear);
/* reason is the type of a field error: "FieldValueRequired", ... */
void invalid_add(struct invalid *i, const char *reason, const char *field, const char *fmt, ...)
	PRINTF_(4, 5);
/* The causes as the API server writes them in a message: "a" or "[a, b]"; malloc'ed. */
char *invalid_message(const struct invalid *i);
