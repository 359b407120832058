/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two types of strings: `str` grows up to a maximum that is set when it is made,
 * `strs` is a NULL-terminated list that owns its members (argv, mount options).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/err.h"

struct str {
	char *ptr; /* NUL-terminated; "" when empty, never NULL */
	size_t len;
	size_t cap; /* 0 while ptr is the static empty string */
	size_t max; /* longest len; what exceeds it is dropped and sets `cut` */
	bool cut;
};

void str_init(struct str *s, size_t max);
void str_clear(struct str *s); /* frees; s is empty with the same max */
void str_reset(struct str *s); /* empties, keeps the memory */
/* Append; return false when something was dropped because of max. */
bool str_add(struct str *s, const char *text);
bool str_addn(struct str *s, const char *bytes, size_t n);
bool str_addf(struct str *s, const char *fmt, ...) PRINTF_(2, 3);
/* The text as a malloc'ed string; s becomes empty. */
char *str_take(struct str *s);

#define STR_INIT(max_)                                                             \
	{                                                                          \
		.ptr = (char *)"", .len = 0, .cap = 0, .max = (max_), .cut = false \
	}
DEFINE_AUTO_VALUE(struct str, str_clear);

struct strs {
	char **v; /* NULL-terminated once something was added; else NULL */
	size_t n;
};

#define STRS_INIT                 \
	{                         \
		.v = NULL, .n = 0 \
	}
void strs_add(struct strs *l, const char *s);
void strs_addf(struct strs *l, const char *fmt, ...) PRINTF_(2, 3);
bool strs_has(const struct strs *l, const char *s);
void strs_sort(struct strs *l); /* by strcmp */
void strs_clear(struct strs *l);
char *strs_join(const struct strs *l, const char *separator); /* malloc'ed */
DEFINE_AUTO_VALUE(struct strs, strs_clear);

static inline bool str_eq(const char *a, const char *b)
{
	return a && b && __builtin_strcmp(a, b) == 0;
}
bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
/* NULL and "" both mean that nothing was given. */
static inline bool str_empty(const char *s)
{
	return !s || !*s;
}

/*
 * Whole-string decimal parsers. `what` names the value in the error (INVALID_ARGUMENT); *ret is
 * left alone on failure. No sign for u64, no leading or trailing space, range checked.
 */
int parse_u64(const char *what, const char *text, uint64_t *ret, struct err *err) MUST_CHECK;
int parse_i64(const char *what, const char *text, int64_t *ret, struct err *err) MUST_CHECK;
/*
 * Go's strconv.ParseBool set: 1 t T TRUE true True 0 f F FALSE false False. Error text is "<what>:
 * is not a boolean value".
 */
int parse_bool(const char *what, const char *text, bool *ret, struct err *err) MUST_CHECK;
/* Valid UTF-8 without NUL: what protobuf calls a string. */
bool utf8_valid(const char *bytes, size_t n);
/* Bytes of the character at the front, which may be NUL; 0: they are not UTF-8. n > 0. */
size_t utf8_length(const char *bytes, size_t n);
#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD: stands for what a text must not have */
/*
 * Text from outside (names of files, of processes, what tools and servers say) may have characters
 * that a terminal obeys, or that change what a reader sees: control characters, direction marks,
 * zero-width ones, bytes that are no UTF-8. It is shown through these, at the places where it
 * leaves the program: log lines, the text of an answer. They append \n, \u001b, \u202e, \xff
 * instead. Shown text that is shown again stays as it is.
 */
void str_add_shown(struct str *s, const char *text);
/* The same as the inside of a JSON string: quotes and backslashes get a backslash, too. */
void str_add_quoted(struct str *s, const char *text);
bool is_shown_as_it_is(const char *text);
/* A text is shown in at most so many bytes for each of its own. */
#define SHOWN_BYTES_MAX 6
/* RFC 1123 subdomain, at most 253 characters: what Kubernetes takes as an object name. */
bool dns1123_subdomain(const char *s);
/*
 * 128-bit FNV-1 (multiply, then xor; Go's fnv.New128) over parts a then b (either may be ""), 32
 * lower-case hex digits, big-endian, into hex.
 */
void fnv128_hex(const char *a, const char *b, char hex[33]);
/* "1.0 GiB (1073741824 bytes)" into buf, for error texts; returns buf. */
const char *str_bytes(uint64_t bytes, char buf[64]);
