/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses quantities exactly, with 128-bit integers: mantissa times a power of 2 or 10.
 * More than 18 digits after the decimal point are refused. No state.
 */
#include "test/sim/kinds/quantity.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

__extension__ typedef unsigned __int128 wide;

static const struct {
	const char *suffix;
	unsigned two, ten;
	bool milli;
} suffixes[] = {
	{ "", 0, 0, false },    { "Ki", 10, 0, false }, { "Mi", 20, 0, false },
	{ "Gi", 30, 0, false }, { "Ti", 40, 0, false }, { "Pi", 50, 0, false },
	{ "Ei", 60, 0, false }, { "m", 0, 3, true },    { "k", 0, 3, false },
	{ "M", 0, 6, false },   { "G", 0, 9, false },   { "T", 0, 12, false },
	{ "P", 0, 15, false },  { "E", 0, 18, false },
};

static wide power_of_ten(unsigned n)
{
	wide result = 1;

	while (n--)
		result *= 10;
	return result;
}

/* Reads digits with an optional point; *fraction counts the digits behind it. */
static const char *mantissa(const char *s, wide *value, unsigned *digits, unsigned *fraction)
{
	bool point = false;

	for (; isdigit((unsigned char)*s) || (*s == '.' && !point); s++) {
		if (*s == '.') {
			point = true;
			continue;
		}
		*value = *value * 10 + (wide)(*s - '0');
		++*digits;
		*fraction += point;
		if (*digits > 24)
			break;
	}
	return s;
}

static int multiplier(const char *s, unsigned *two, unsigned *ten, bool *milli)
{
	if ((*s == 'e' || *s == 'E') && isdigit((unsigned char)s[1])) {
		for (s++; isdigit((unsigned char)*s) && *ten < 100; s++)
			*ten = *ten * 10 + (unsigned)(*s - '0');
		return *s || *ten > 18 ? -1 : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		if (str_eq(s, suffixes[i].suffix)) {
			*two = suffixes[i].two;
			*ten = suffixes[i].milli ? 0 : suffixes[i].ten;
			*milli = suffixes[i].milli;
			return 0;
		}
	}
	return -1;
}

int quantity_parse(const char *text, uint64_t *ret, struct err *err)
{
	wide value = 0, divisor;
	unsigned digits = 0, fraction = 0, two = 0, ten = 0;
	bool milli = false;
	const char *s = mantissa(*text == '+' ? text + 1 : text, &value, &digits, &fraction);

	if (!digits || fraction > 18 || multiplier(s, &two, &ten, &milli))
		return err_set(err, ERR_INVALID, "\"%s\" is not a quantity", text);
	if (digits > 24 || value > (wide)INT64_MAX * power_of_ten(fraction))
		return err_set(err, ERR_RANGE, "\"%s\" is too large", text);
	divisor = power_of_ten(fraction + (milli ? 3 : 0));
	value *= power_of_ten(ten);
	if (two && value > ((wide)-1 >> two))
		return err_set(err, ERR_RANGE, "\"%s\" is too large", text);
	value <<= two;
	value = value / divisor + (value % divisor != 0);
	if (value > INT64_MAX)
		return err_set(err, ERR_RANGE, "\"%s\" is too large", text);
	*ret = (uint64_t)value;
	return 0;
}
