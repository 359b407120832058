/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for text from outside: numbers, booleans, UTF-8, Kubernetes names, escaping; and the
 * FNV hash for names. Declared in str.h. Pure functions.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/str.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int parse_u64(const char *what, const char *text, uint64_t *ret, struct err *err)
{
	char *end = NULL;
	uint64_t v;

	if (!is_digit(text[0]))
		return err_set(err, ERR_INVALID, "%s: \"%.64s\" is not a whole number", what, text);
	errno = 0;
	v = strtoull(text, &end, 10);
	if (*end)
		return err_set(err, ERR_INVALID, "%s: \"%.64s\" is not a whole number", what, text);
	if (errno)
		return err_set(err, ERR_INVALID, "%s: %.64s is too large", what, text);
	*ret = v;
	return 0;
}

int parse_i64(const char *what, const char *text, int64_t *ret, struct err *err)
{
	bool negative = text[0] == '-';
	uint64_t v, max = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;

	if (parse_u64(what, text + negative, &v, err))
		return -1;
	if (v > max)
		return err_set(err, ERR_INVALID, "%s: %.64s is out of range", what, text);
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

int parse_bool(const char *what, const char *text, bool *ret, struct err *err)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" };
	static const char *const no[] = { "0", "f", "F", "FALSE", "false", "False" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*ret = strcmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "%s: is not a boolean value", what);
}

bool rfc3339_read(const char *text, time_t *ret)
{
	struct tm tm = { .tm_sec = 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (end && *end == '.')
		end += 1 + strspn(end + 1, "0123456789");
	if (!end || strcmp(end, "Z") != 0)
		return false;
	*ret = timegm(&tm);
	return true;
}

/*
 * Returns the length of the UTF-8 sequence that starts with c, 0 if no sequence starts with c. Sets
 * the code point bits in c, and the lowest code point of that length.
 */
static size_t sequence_length(unsigned char c, uint32_t *bits, uint32_t *least)
{
	if (c < 0x80)
		return *bits = c, *least = 1, 1;
	if (c >= 0xc2 && c <= 0xdf)
		return *bits = c & 0x1f, *least = 0x80, 2;
	if (c >= 0xe0 && c <= 0xef)
		return *bits = c & 0x0f, *least = 0x800, 3;
	if (c >= 0xf0 && c <= 0xf4)
		return *bits = c & 0x07, *least = 0x10000, 4;
	return 0;
}

/*
 * Returns the length of the first character, and its code point in *ret; 0 if the bytes are not
 * UTF-8.
 */
static size_t next_char(const char *bytes, size_t n, uint32_t *ret)
{
	uint32_t code, least;
	size_t len = sequence_length((unsigned char)bytes[0], &code, &least);

	if (!len || len > n)
		return 0;
	for (size_t k = 1; k < len; k++) {
		unsigned char c = (unsigned char)bytes[k];

		if ((c & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c & 0x3f);
	}
	if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret = code;
	return len;
}

/*
 * Returns the number of leading bytes, in whole words, that are certainly ASCII without NUL. Most
 * text that the driver reads is ASCII.
 */
static size_t ascii_words(const char *bytes, size_t n)
{
	static const uint64_t high_bits = 0x8080808080808080, ones = 0x0101010101010101;
	uint64_t word;
	size_t i = 0;

	for (; n - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		if ((word | (word - ones)) & high_bits)
			break;
	}
	return i;
}

bool utf8_valid(const char *bytes, size_t n)
{
	for (size_t i = ascii_words(bytes, n); i < n;) {
		uint32_t code;
		size_t len = next_char(bytes + i, n - i, &code);

		if (!len)
			return false;
		i += len;
		if (len > 1)
			i += ascii_words(bytes + i, n - i);
	}
	return true;
}

size_t utf8_length(const char *bytes, size_t n)
{
	uint32_t ignored;

	return next_char(bytes, n, &ignored);
}

/* ---- escaping ---- */

/* Returns true for Unicode's category Cc. */
static bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

bool has_control(const char *bytes, size_t n, const char *allowed)
{
	for (size_t i = 0; i < n;) {
		uint32_t code = 0;
		size_t len = next_char(bytes + i, n - i, &code);

		if (len && is_control(code) && (len > 1 || !strchr(allowed, (int)code)))
			return true;
		i += len ? len : 1;
	}
	return false;
}

/*
 * Returns true for characters that move the cursor, change a terminal's state, or invisibly change
 * how the surrounding text is read: the categories Cc, Cf (except characters that are part of a
 * script), Zl, Zp.
 */
static bool is_unseen(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0xad, 0xad },     { 0x61c, 0x61c },   { 0x180e, 0x180e },
		{ 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
		{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
	};

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return is_control(code);
}

static void add_unseen(struct str *s, uint32_t code)
{
	if (code == '\n')
		str_add(s, "\\n");
	else if (code < 0x10000)
		str_addf(s, "\\u%04x", code);
	else /* two surrogates, as in JSON */
		str_addf(s, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
		         0xdc00 + ((code - 0x10000) & 0x3ff));
}

static void add_shown(struct str *s, const char *text, bool quoted)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n;) {
		uint32_t code;
		size_t len = next_char(text + i, n - i, &code);

		if (!len)
			str_addf(s, quoted ? "\\\\x%02x" : "\\x%02x", (unsigned char)text[i]);
		else if (is_unseen(code))
			add_unseen(s, code);
		else if (quoted && (code == '"' || code == '\\'))
			str_addf(s, "\\%c", (int)code);
		else
			str_addn(s, text + i, len);
		i += len ? len : 1;
	}
}

void str_add_shown(struct str *s, const char *text)
{
	add_shown(s, text, false);
}

void str_add_quoted(struct str *s, const char *text)
{
	add_shown(s, text, true);
}

bool is_shown_as_it_is(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n;) {
		uint32_t code;
		size_t len = next_char(text + i, n - i, &code);

		if (!len || is_unseen(code))
			return false;
		i += len;
	}
	return true;
}

/* ---- names ---- */

bool dns1123_subdomain(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 253)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool edge = i == 0 || i == n - 1 || s[i - 1] == '.' || s[i + 1] == '.';

		if (is_digit(s[i]) || (s[i] >= 'a' && s[i] <= 'z'))
			continue;
		if (edge || (s[i] != '-' && s[i] != '.'))
			return false;
	}
	return true;
}

__extension__ typedef unsigned __int128 uint128;

static void fnv128_add(uint128 *h, const char *s)
{
	const uint128 prime = (uint128)1 << 88 | 0x13b;

	for (; *s; s++) {
		*h *= prime;
		*h ^= (unsigned char)*s;
	}
}

void fnv128_hex(const char *a, const char *b, char hex[33])
{
	uint128 h = (uint128)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;

	fnv128_add(&h, a);
	fnv128_add(&h, b);
	snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)(h >> 64), (uint64_t)h);
}

const char *str_bytes(uint64_t bytes, char buf[64])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;

	for (; v >= 1024 && u + 1 < ARRAY_LEN(units); u++)
		v /= 1024;
	if (u == 0)
		snprintf(buf, 64, "%" PRIu64 " bytes", bytes);
	else
		snprintf(buf, 64, "%.1f %s (%" PRIu64 " bytes)", v, units[u], bytes);
	return buf;
}
