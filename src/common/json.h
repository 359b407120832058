/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON: the only user of cJSON.
 *
 * Reading is by path ("status.dpu.pciAddress"; members with a dot or slash, as in
 * annotations, go through json_member). A missing value and null are the same. A
 * wrong type is an error that names the path. So is an integer above 2^53, since
 * cJSON reads numbers into a double and may have rounded it.
 * Building a tree cannot fail; 64-bit integers are written digit by digit.
 * A tree belongs to one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"

struct json; /* a value: object, array, string, number, boolean or null */

/*
 * Parses exactly one value. INVALID_ARGUMENT with the offset when the text is not JSON, or has more
 * text after the value. No text in it makes the value unreadable: U+FFFD stands for each NUL, half
 * of a surrogate pair and byte that is not UTF-8, in names as well. A value nested deeper than 200
 * levels is null. `what` names the source in the error.
 */
int json_parse(const char *what, const char *text, size_t n, struct json **ret, struct err *err)
	MUST_CHECK;
const char *json_library(void); /* version of cJSON */
void json_free(struct json *j); /* NULL is fine; only for roots */
DEFINE_AUTO(struct json *, json_free);
char *json_print(const struct json *j); /* compact, malloc'ed */
char *json_print_pretty(const struct json *j);
/* The same for other programs' eyes: a byte that is no UTF-8, in any text, is the text \xff. */
char *json_print_shown(const struct json *j);
struct json *json_copy(const struct json *j);                /* deep; a new root */
bool json_equal(const struct json *a, const struct json *b); /* members in any order */

bool json_is_object(const struct json *j); /* all three: false for NULL */
bool json_is_array(const struct json *j);
bool json_is_string(const struct json *j);

/* The value at the path, or NULL. path "" is j itself. Array elements are "conditions.0". */
const struct json *json_at(const struct json *j, const char *path);
struct json *json_at_mut(struct json *j, const char *path);
/* Member by its literal name. */
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

/* What the readers below return when there is no value at the path. */
enum { JSON_ABSENT = 1 };

/*
 * Values at a path. 0 and *ret, JSON_ABSENT (*ret untouched), -1 wrong type or not exact.
 * Strings point into the tree.
 */
int json_get_str(const struct json *j, const char *path, const char **ret, struct err *err)
	MUST_CHECK;
int json_get_i64(const struct json *j, const char *path, int64_t *ret, struct err *err) MUST_CHECK;
int json_get_bool(const struct json *j, const char *path, bool *ret, struct err *err) MUST_CHECK;
/* The string at the path; NULL when there is none, or a value of another type. */
const char *json_str(const struct json *j, const char *path);
/* The text of a string; NULL for a value of another type. */
const char *json_text(const struct json *value);

/* Builders. The tree takes over `value`; an existing member of the name is replaced. */
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
/* The object member of that name, made when it is missing. */
struct json *json_sub(struct json *object, const char *name);
/* RFC 7386 merge patch of target in place. */
void json_merge_patch(struct json *target, const struct json *patch);
