/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses only integers, because a size that is converted through a double could change. A quantity
 * consists of digits, a fraction and a factor of 2^n or 10^n. 18 digits of fraction times the
 * largest factor still fit in 128 bits. Pure functions.
 */
#include "dpf/quantity.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

__extension__ typedef unsigned __int128 u128;

#define MAX_FRACTION 18 /* digits */

/* whole.fraction (fraction counted in 10^-digits) times 2^shift times 10^exponent */
struct parts {
	uint64_t whole, fraction;
	int digits;
	int shift, exponent;
};

static const struct {
	const char *suffix;
	int shift, exponent;
} suffixes[] = {
	{ "", 0, 0 },    { "Ki", 10, 0 }, { "Mi", 20, 0 }, { "Gi", 30, 0 },
	{ "Ti", 40, 0 }, { "Pi", 50, 0 }, { "Ei", 60, 0 }, { "n", 0, -9 },
	{ "u", 0, -6 },  { "m", 0, -3 },  { "k", 0, 3 },   { "M", 0, 6 },
	{ "G", 0, 9 },   { "T", 0, 12 },  { "P", 0, 15 },  { "E", 0, 18 },
};

static u128 power_of_ten(int n)
{
	u128 p = 1;

	while (n-- > 0)
		p *= 10;
	return p;
}

static int too_big(const char *what, const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: \"%s\" is more than can be counted", what, text);
}

/* Reads up to 19 digits, which fit in 64 bits. Returns their number, or -1 if there are more. */
static int quantity_read_digits(const char **at, uint64_t *ret)
{
	uint64_t value = 0;
	int n = 0;

	for (; isdigit((unsigned char)**at); (*at)++) {
		if (n == 0 && **at == '0' && isdigit((unsigned char)(*at)[1]))
			continue; /* a leading zero */
		if (++n > 19)
			return -1;
		value = value * 10 + (uint64_t)(**at - '0');
	}
	*ret = value;
	return n;
}

static int quantity_read_fraction(const char **at, struct parts *p)
{
	int digits = 0;

	p->fraction = 0;
	for (; isdigit((unsigned char)**at); (*at)++) {
		if (digits == MAX_FRACTION) {
			if (**at != '0')
				return -1;
			continue;
		}
		p->fraction = p->fraction * 10 + (uint64_t)(**at - '0');
		digits++;
	}
	p->digits = digits;
	return 0;
}

/* Reads an exponent, "e9" or "E-3". "E" without digits is the suffix exa. */
static bool quantity_read_exponent(const char *text, struct parts *p)
{
	struct err ignored = ERR_INIT;
	int64_t e;

	if ((*text != 'e' && *text != 'E') || !text[1])
		return false;
	if (parse_i64("exponent", text + 1 + (text[1] == '+'), &e, &ignored))
		return false;
	if (e < -MAX_FRACTION || e > MAX_FRACTION)
		return false;
	p->exponent = (int)e;
	return true;
}

static bool read_suffix(const char *text, struct parts *p)
{
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
		if (str_eq(suffixes[i].suffix, text)) {
			p->shift = suffixes[i].shift;
			p->exponent = suffixes[i].exponent;
			return true;
		}
	return quantity_read_exponent(text, p);
}

static u128 divide_up(u128 value, u128 by)
{
	return value / by + (value % by != 0);
}

/*
 * Returns the value rounded up. From 2^63 on the result may be inexact, but it is never below 2^63.
 */
static u128 evaluate(const struct parts *p)
{
	u128 one = power_of_ten(p->digits); /* number of units of the fraction in 1 */
	u128 factor;

	assert(p->digits <= MAX_FRACTION && p->exponent >= -MAX_FRACTION);
	if (p->exponent < 0)
		return divide_up((u128)p->whole * one + p->fraction,
		                 one * power_of_ten(-p->exponent));
	factor = p->shift ? (u128)1 << p->shift : power_of_ten(p->exponent);
	return (u128)p->whole * factor + divide_up((u128)p->fraction * factor, one);
}

int quantity_parse(const char *what, const char *text, int64_t *ret, struct err *err)
{
	const char *at = text + (*text == '+');
	struct parts p = { 0 };
	const char *digits = at;
	u128 value;

	if (quantity_read_digits(&at, &p.whole) < 0)
		return too_big(what, text, err);
	if (*at == '.') {
		at++;
		if (quantity_read_fraction(&at, &p))
			return err_set(err, ERR_INVALID,
			               "%s: \"%s\" has more than %d digits after the point", what,
			               text, MAX_FRACTION);
	}
	if (at == digits || (at == digits + 1 && *digits == '.') || !read_suffix(at, &p))
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not a quantity", what, text);
	value = evaluate(&p);
	if (value > INT64_MAX)
		return too_big(what, text, err);
	*ret = (int64_t)value;
	return 0;
}

int quantity_get(const struct json *j, const char *path, int64_t *ret, struct err *err)
{
	const struct json *at = json_at(j, path);
	const char *text = json_text(at);
	int64_t number;
	int rc;

	if (text)
		return quantity_parse(path, text, ret, err);
	rc = json_get_i64(j, path, &number, err);
	if (rc)
		return rc;
	if (number < 0)
		return err_set(err, ERR_INVALID, "%s: %" PRId64 " is negative", path, number);
	*ret = number;
	return 0;
}

const char *quantity_text(int64_t bytes, char buf[32])
{
	static const char *const units[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei" };
	size_t u = 0;

	while (bytes && bytes % 1024 == 0 && u + 1 < ARRAY_LEN(units)) {
		bytes /= 1024;
		u++;
	}
	snprintf(buf, 32, "%" PRId64 "%s", bytes, units[u]);
	return buf;
}
