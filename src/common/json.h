/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON: the only user of cJSON.
 *
 * Values are read by path ("status.dpu.pciAddress"); for members with a dot or slash, as in
 * annotations, use json_member(). A missing value and null are the same. A wrong type is an error
 * that names the path. An integer above 2^53 is also an error, because cJSON reads numbers into a
 * double and may have rounded it. Building a tree cannot fail; 64-bit integers are written digit by
 * digit. A tree belongs to one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"

struct json; /* a value: object, array, string, number, boolean or null */

/*
 * Parses exactly one value. INVALID_ARGUMENT with the offset if the text is not JSON, or has more
 * text after the value. Strings in the result are valid UTF-8: U+FFFD replaces each NUL, each half
 * of a surrogate pair and each byte that is not UTF-8, even in names. A value nested deeper than
 * 200 levels is null. `what` names the source in the error.
 */
int json_parse(const char *what, const char *text, size_t n, struct json **ret, struct err *err)
	MUST_CHECK;
const char *json_library(void); /* version of cJSON */
void json_free(struct json *j); /* NULL is allowed; only for roots */
DEFINE_AUTO(struct json *, json_free);
char *json_print(const struct json *j); /* compact, malloc'ed */
char *json_print_pretty(const struct json *j);
/*
 * Like json_print_pretty(), but for other programs' output: each byte that is not UTF-8 becomes the
 * text \xff.
 */
char *json_print_shown(const struct json *j);
struct json *json_copy(const struct json *j);                /* deep; a new root */
bool json_equal(const struct json *a, const struct json *b); /* members in any order */

bool json_is_object(const struct json *j); /* all four return false for NULL */
bool json_is_array(const struct json *j);
bool json_is_string(const struct json *j);
bool json_is_null(const struct json *j);

/*
 * Returns the value at the path, or NULL. The path "" is j itself. Array elements are
 * "conditions.0".
 */
const struct json *json_at(const struct json *j, const char *path);
struct json *json_at_mut(struct json *j, const char *path);
/* Returns the member with this literal name, or NULL. */
const struct json *json_member(const struct json *j, const char *name);
/*
 * Walks an object's members or an array's elements (name is NULL then):
 * json_foreach(item, tree) { json_name(item) ... }
 */
const struct json *json_first(const struct json *j);
const struct json *json_next(const struct json *item);
const char *json_name(const struct json *item);
#define json_foreach(item, j) \
	for (const struct json *item = json_first(j); item; item = json_next(item))
size_t json_count(const struct json *j); /* members or elements; 0 for NULL and scalars */

/* Returned by the readers below if the path has no value. */
enum { JSON_ABSENT = 1 };

/*
 * Read the value at a path. Return 0 with *ret set, JSON_ABSENT (*ret untouched), or -1 if the type
 * is wrong or the number not exact. Strings point into the tree.
 */
int json_get_str(const struct json *j, const char *path, const char **ret, struct err *err)
	MUST_CHECK;
int json_get_i64(const struct json *j, const char *path, int64_t *ret, struct err *err) MUST_CHECK;
int json_get_bool(const struct json *j, const char *path, bool *ret, struct err *err) MUST_CHECK;
/* Returns the string at the path; NULL if the path has no value, or a value of a different type. */
const char *json_str(const struct json *j, const char *path);
/* Returns the content of a string; NULL for a value of a different type. */
const char *json_text(const struct json *value);

/* Build a tree. The tree takes over `value`; an existing member of the same name is replaced. */
struct json *json_object(void);
struct json *json_array(void);
struct json *json_string(const char *s);
struct json *json_int(int64_t v);
struct json *json_boolean(bool v);
struct json *json_null(void);
void json_set(struct json *object, const char *name, struct json *value);
void json_set_str(struct json *object, const char *name,
                  const char *s); /* s NULL: nothing is set */
void json_set_int(struct json *object, const char *name, int64_t v);
void json_set_bool(struct json *object, const char *name, bool v);
void json_remove(struct json *object, const char *name);
void json_append(struct json *array, struct json *value);
/* Returns the object member of that name, which is added if missing. */
struct json *json_sub(struct json *object, const char *name);
/* Applies an RFC 7386 merge patch to `target` in place. */
void json_merge_patch(struct json *target, const struct json *patch);
