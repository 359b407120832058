/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two types of strings: `str` grows up to a maximum that is set at its creation, `strs` is a
 * NULL-terminated list that owns its members (argv, mount options).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/err.h"

struct str {
	char *ptr; /* NUL-terminated; "" when empty, never NULL */
	size_t len;
	size_t cap; /* 0 while ptr is the static empty string */
	size_t max; /* maximum of len; further text is dropped and sets `cut` */
	bool cut;
};

void str_init(struct str *s, size_t max);
void str_clear(struct str *s); /* frees the memory; s is empty with the same max */
void str_reset(struct str *s); /* empties s, keeps the memory */
/* Append to s; return false if a part was dropped because of max. */
bool str_add(struct str *s, const char *text);
bool str_addn(struct str *s, const char *bytes, size_t n);
bool str_addf(struct str *s, const char *fmt, ...) PRINTF_(2, 3);
/* Returns the content as a malloc'ed string; s becomes empty. */
char *str_take(struct str *s);

#define STR_INIT(max_)                                                             \
	{                                                                          \
		.ptr = (char *)"", .len = 0, .cap = 0, .max = (max_), .cut = false \
	}
DEFINE_AUTO_VALUE(struct str, str_clear);

struct strs {
	char **v; /* NULL-terminated if the list has members; else NULL */
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
/*
 * Returns true if `a` was probably meant to be `b`. They differ in upper and lower case, or by one
 * letter (changed, missing, added, or two swapped).
 */
bool str_resembles(const char *a, const char *b);
/* NULL and "" both mean that no value was given. */
static inline bool str_empty(const char *s)
{
	return !s || !*s;
}

/*
 * Parse the whole string as a decimal number. `what` names the value in the error
 * (INVALID_ARGUMENT); on failure *ret is unchanged. No sign for u64, no leading or trailing space;
 * the range is checked.
 */
int parse_u64(const char *what, const char *text, uint64_t *ret, struct err *err) MUST_CHECK;
int parse_i64(const char *what, const char *text, int64_t *ret, struct err *err) MUST_CHECK;
/*
 * Accepts the values of Go's strconv.ParseBool: 1 t T TRUE true True 0 f F FALSE false False. The
 * error message is "<what>: is not a boolean value".
 */
int parse_bool(const char *what, const char *text, bool *ret, struct err *err) MUST_CHECK;
/*
 * Converts a time in the format of Kubernetes (RFC 3339, UTC) to seconds since the epoch. Returns
 * false if the text has a different format.
 */
bool rfc3339_read(const char *text, time_t *ret);
/* Returns true for valid UTF-8 without NUL, which is protobuf's definition of a string. */
bool utf8_valid(const char *bytes, size_t n);
/*
 * Returns the number of bytes of the first character, which may be NUL; 0 if they are not UTF-8. n
 * > 0.
 */
size_t utf8_length(const char *bytes, size_t n);
/*
 * Returns true if the text has a control character (Unicode's category Cc: U+0001 to U+001F, U+007F
 * to U+009F) other than the `allowed` ones, which are ASCII. NUL and bytes that are not UTF-8 do
 * not count; utf8_valid() finds them.
 */
bool has_control(const char *bytes, size_t n, const char *allowed);
#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD: replaces characters that a text must not have */
/*
 * Text from outside (names of files and processes, output of tools and servers) may contain
 * characters that control a terminal, or that change what a reader sees: control characters,
 * direction marks, zero-width characters, bytes that are not UTF-8. These functions escape such
 * text where it leaves the program: in log lines and in messages of answers. For such characters
 * they append \n, \u001b, \u202e, \xff. Text that is already escaped stays unchanged.
 */
void str_add_shown(struct str *s, const char *text);
/*
 * Like str_add_shown(), but for use inside a JSON string: quotes and backslashes also get a
 * backslash.
 */
void str_add_quoted(struct str *s, const char *text);
bool is_shown_as_it_is(const char *text);
/* The escaped text has at most this many bytes for each byte of the original text. */
#define SHOWN_BYTES_MAX 6
/*
 * Returns true for an RFC 1123 subdomain of at most 253 characters, which Kubernetes accepts as an
 * object name.
 */
bool dns1123_subdomain(const char *s);
/*
 * Writes to `hex` the 128-bit FNV-1 (multiply, then xor; Go's fnv.New128) of a followed by b
 * (either may be ""), as 32 lower-case hex digits, big-endian.
 */
void fnv128_hex(const char *a, const char *b, char hex[33]);
/* Writes "1.0 GiB (1073741824 bytes)" to buf, for error messages; returns buf. */
const char *str_bytes(uint64_t bytes, char buf[64]);
