/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the row of an argument, reads its value, and stores it according to the row's kind. Reads
 * only argv. The owner of the table checks whether the values are consistent.
 */
#include "common/option_table.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/str.h"

#define SECONDS_MAX 86400

/* ---- values ---- */

static int option_parse_float(const char *what, const char *text, double *ret, struct err *err)
{
	char *end;
	double d;

	errno = 0;
	d = strtod(text, &end);
	if (errno || end == text || *end || !isfinite(d) || d < 0)
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not a number of 0 or more", what,
		               text);
	*ret = d;
	return 0;
}

static int option_parse_octal(const char *what, const char *text, mode_t *ret, struct err *err)
{
	size_t n = strspn(text, "01234567");

	if (!n || text[n] || n > 5)
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not an octal number like 0660",
		               what, text);
	*ret = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

static const struct unit {
	const char *name;
	double ms;
} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };

/* Parses "110s", "1m30s", "1.5h": Go's format of a duration, without units below a millisecond. */
static int option_parse_duration(const char *what, const char *text, int64_t *ret, struct err *err)
{
	double total = 0;
	const char *p = text;

	while (*p) {
		char *end;
		double d = *p >= '0' && *p <= '9' ? strtod(p, &end) : NAN;
		size_t n = isfinite(d) ? strcspn(end, "0123456789.") : 0;
		double ms = 0;

		for (size_t i = 0; n && i < ARRAY_LEN(units); i++)
			if (strlen(units[i].name) == n && strncmp(end, units[i].name, n) == 0)
				ms = units[i].ms;
		if (ms <= 0)
			break;
		total += d * ms;
		p = end + n;
	}
	if (p == text || *p || total > 1e12)
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not a time like 110s or 1m30s",
		               what, text);
	*ret = (int64_t)total;
	return 0;
}

static int option_parse_seconds(const char *what, const char *text, int64_t *ret, struct err *err)
{
	uint64_t seconds;

	if (parse_u64(what, text, &seconds, err))
		return -1;
	if (!seconds || seconds > SECONDS_MAX)
		return err_set(err, ERR_INVALID, "%s: %s is not between 1 and %d seconds", what,
		               text, SECONDS_MAX);
	*ret = (int64_t)seconds * 1000;
	return 0;
}

static int option_add_list(struct strs *list, bool first, const char *text)
{
	if (first)
		strs_clear(list);
	while (*text) {
		size_t n = strcspn(text, ",");

		if (n)
			strs_addf(list, "%.*s", (int)n, text);
		text += n + (text[n] == ',');
	}
	return 0;
}

static int option_set(const struct option_row *row, void *field, bool first, const char *text,
                      struct err *err)
{
	char *what AUTO(free) = xasprintf("--%s", row->name);
	struct err unread = ERR_INIT;

	switch (row->kind) {
	case OPTION_SWITCH:
		*(bool *)field = true;
		return 0;
	case OPTION_STRING:
	case OPTION_WORD:
		*(const char **)field = text;
		return 0;
	case OPTION_STRINGS:
		strs_add(field, text);
		return 0;
	case OPTION_LIST:
		return option_add_list(field, first, text);
	case OPTION_BOOL:
		if (!parse_bool(what, text, field, &unread))
			return 0;
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not true or false", what, text);
	case OPTION_INT:
		return parse_i64(what, text, field, err);
	case OPTION_FLOAT:
		return option_parse_float(what, text, field, err);
	case OPTION_DURATION:
		return option_parse_duration(what, text, field, err);
	case OPTION_SECONDS:
		return option_parse_seconds(what, text, field, err);
	case OPTION_OCTAL:
		return option_parse_octal(what, text, field, err);
	case OPTION_GROUP:
		break;
	}
	abort();
}

/* ---- rows ---- */

/* Compares names. As in Go's component-base, log_dir is the same as log-dir. */
static bool option_has_name(const struct option_row *row, const char *text, size_t n)
{
	if (n == 1 && row->letter && row->letter == *text)
		return true;
	if (!row->name || strlen(row->name) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (row->name[i] != (text[i] == '_' ? '-' : text[i]))
			return false;
	return true;
}

const struct option_row *option_find(const struct option_table *t, const char *name, size_t n)
{
	for (size_t i = 0; i < t->n; i++)
		if (option_has_name(&t->rows[i], name, n))
			return &t->rows[i];
	return NULL;
}

const struct option_row *option_meant(const struct option_table *t, const char *word)
{
	const char *name = word + strspn(word, "-");
	char *plain AUTO(free) = xstrndup(name, strcspn(name, "="));

	for (char *p = strchr(plain, '_'); p; p = strchr(p, '_'))
		*p = '-';
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].name && strlen(plain) > 2 && str_resembles(plain, t->rows[i].name))
			return &t->rows[i];
	return NULL;
}

void option_defaults(struct option_table *t)
{
	assert(t->n <= OPTION_ROWS_MAX);
	for (size_t i = 0; i < t->n; i++) {
		const struct option_row *row = &t->rows[i];
		struct err err = ERR_INIT;

		if (row->default_ &&
		    option_set(row, (char *)t->fields + row->offset, true, row->default_, &err))
			abort();
	}
}

int option_next(struct option_table *t, struct option_arg *ret)
{
	const char *word = *t->argv++, *name = word + 1 + (word[1] == '-');
	size_t n = strcspn(name, "=");
	const struct option_row *row = option_find(t, name, n);
	const char *value = name[n] ? name + n + 1 : NULL;

	if (!row && *name && word[1] != '-' && name[1] >= '0' && name[1] <= '9') { /* -v2 */
		row = option_find(t, name, 1);
		row = row && row->kind == OPTION_INT ? row : NULL;
		value = name + 1;
	}
	if (!value && row && (row->kind == OPTION_BOOL || row->kind == OPTION_WORD))
		value = "true";
	if (!value && row && row->kind != OPTION_SWITCH && *t->argv)
		value = *t->argv++;
	*ret = (struct option_arg) { .word = word, .row = row, .value = value };
	if (!row)
		return OPTION_UNKNOWN;
	if (row->kind == OPTION_SWITCH)
		return value ? OPTION_EXTRA_VALUE : 0;
	return value ? 0 : OPTION_NO_VALUE;
}

int option_store(struct option_table *t, const struct option_row *row, const char *value,
                 struct err *err)
{
	bool first = !t->given[row - t->rows];

	t->given[row - t->rows] = true;
	if (row->ignored)
		return 0;
	return option_set(row, (char *)t->fields + row->offset, first, value, err);
}
