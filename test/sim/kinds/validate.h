/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server checks before it stores an object: metadata rules of every kind, and
 * the schemas of DPF's custom resources (required fields, types, enums, defaults, CEL rules,
 * immutability)
 * with their messages.
 */
#pragma once

#include "test/sim/kinds/resource.h"
#include "common/json.h"
#include "common/str.h"

struct schema;
extern const struct schema schema_volume, schema_attachment, schema_policy, schema_vendor;

/* Causes of a 422, in the order found. */
struct invalid {
	struct json *causes; /* [{reason, message, field}] */
	struct str text;     /* "spec.a: Required value, spec.b: ..." */
	size_t n;
};
void invalid_init(struct invalid *i);
void invalid_clear(struct invalid *i);
static inline void invalid_clear_p(struct invalid *i)
{
	invalid_clear(i);
}
/* reason is a field error's type: "FieldValueRequired", ... */
void invalid_add(struct invalid *i, const char *reason, const char *field, const char *fmt, ...)
	PRINTF_(4, 5);
/* The message of the Status: "a" or "[a, b]"; malloc'ed. */
char *invalid_message(const struct invalid *i);

/* Removes what the schema does not know and fills in defaults. */
void validate_prune(const struct resource *res, struct json *object);
/* old NULL: a creation. Adds to ret what is wrong. */
void validate_object(const struct resource *res, const struct json *object, const struct json *old,
                     struct invalid *ret);
/*
 * A qualified name ("app", "example.com/app"); empty or at most 63 of [-_.A-Za-z0-9], as labels
 * have them.
 */
bool label_key_is_valid(const char *key);
bool label_value_is_valid(const char *value);
