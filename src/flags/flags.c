/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags: one table made from flags.def, and a parser that walks it.
 *
 * The parser reports values that it cannot read, flags_check.c values that make no sense. Both add
 * to one list of errors, so that an operator sees all of them at once. Only argv and the
 * environment are read; no file, no thread.
 */
#include "flags/flags.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "flags/flags_priv.h"
#include "common/mem.h"

static const struct flag_row rows[] = {
#define GROUP(title_) { .kind = FLAG_GROUP, .text = (title_) },
#define FLAG(kind_, field_, name_, default__, modes_, value_, text_) \
	{ .kind = FLAG_##kind_,                                      \
	  .offset = offsetof(struct flags, field_),                  \
	  .name = (name_),                                           \
	  .default_ = (default__),                                   \
	  .modes = (modes_),                                         \
	  .value = (value_),                                         \
	  .text = (text_) },
#define IGNORED(kind_, name_, text_) \
	{ .kind = FLAG_##kind_, .ignored = true, .name = (name_), .text = (text_) },
#include "flags/flags.def"
};

const struct flag_row *flag_rows(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(rows);
	return rows;
}

/* As in Go's component-base, log_dir is log-dir. */
static bool same_name(const char *name, const char *text, size_t n)
{
	if (strlen(name) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] != (text[i] == '_' ? '-' : text[i]))
			return false;
	return true;
}

static const struct flag_row *find(const char *text, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].kind != FLAG_GROUP && same_name(rows[i].name, text, n))
			return &rows[i];
	return NULL;
}

static int parse_float(const char *what, const char *text, double *ret, struct err *err)
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

static int parse_octal(const char *what, const char *text, mode_t *ret, struct err *err)
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

/* "110s", "1m30s", "1.5h": Go's form of a duration, without the units below a millisecond. */
static int parse_duration(const char *what, const char *text, int64_t *ret, struct err *err)
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

static void set_list(struct strs *list, bool first, const char *text)
{
	if (first)
		strs_clear(list);
	while (*text) {
		size_t n = strcspn(text, ",");

		if (n)
			strs_addf(list, "%.*s", (int)n, text);
		text += n + (text[n] == ',');
	}
}

/* Stores the text in the flag's field. `first`: a list loses its default before. */
static int set(struct flags *f, const struct flag_row *row, bool first, const char *text,
               struct err *err)
{
	void *field = (char *)f + row->offset;
	char *what AUTO(free) = NULL;

	if (row->ignored)
		return 0;
	what = xasprintf("--%s", row->name);
	switch (row->kind) {
	case FLAG_STRING:
	case FLAG_WORD:
		*(const char **)field = text;
		return 0;
	case FLAG_BOOL:
		return parse_bool(what, text, field, err);
	case FLAG_INT:
		return parse_i64(what, text, field, err);
	case FLAG_FLOAT:
		return parse_float(what, text, field, err);
	case FLAG_DURATION:
		return parse_duration(what, text, field, err);
	case FLAG_OCTAL:
		return parse_octal(what, text, field, err);
	case FLAG_LIST:
		set_list(field, first, text);
		return 0;
	case FLAG_GROUP:
		break;
	}
	abort();
}

static void set_defaults(struct flags *f)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;

		if (rows[i].default_ && set(f, &rows[i], true, rows[i].default_, &err))
			abort(); /* the parser refuses a default of flags.def */
	}
}

/* What has been read of the command line so far. */
struct command_line {
	char *const *argv; /* what is left */
	struct flags *flags;
	struct flags_report *report;
	bool given[ARRAY_LEN(rows)];
	struct strs ignored;
};

static void usage_error(struct command_line *c, const char *fmt, const char *arg)
{
	struct str s AUTO(str_clear) = STR_INIT(400);

	c->report->usage = true;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	str_addf(&s, fmt, arg);
#pragma GCC diagnostic pop
	strs_add(&c->report->errors, s.ptr);
}

static void take(struct command_line *c, const struct flag_row *row, const char *value)
{
	struct err err = ERR_INIT;
	bool *given = &c->given[row - rows];

	if (row->ignored && !*given)
		strs_addf(&c->ignored, "--%s", row->name);
	else if (set(c->flags, row, !*given, value, &err))
		strs_add(&c->report->errors, err.msg);
	*given = true;
}

/* The flag at c->argv[-1]; `text` is what follows its dashes. Takes its value, if it is apart. */
static void parse_flag(struct command_line *c, const char *text)
{
	size_t n = strcspn(text, "=");
	const char *value = text[n] ? text + n + 1 : NULL;
	const struct flag_row *row = find(text, n);

	if (!row && c->argv[-1][1] == 'v' && text[1] >= '0' && text[1] <= '9') { /* -v2 */
		row = find("v", 1);
		value = text + 1;
	}
	if (!row && str_eq(text, "h")) {
		c->flags->help = true;
		return;
	}
	if (!row) {
		usage_error(c, "unknown flag %s", c->argv[-1]);
		return;
	}
	if (!value && (row->kind == FLAG_BOOL || row->kind == FLAG_WORD))
		value = "true";
	if (!value && *c->argv)
		value = *c->argv++;
	if (!value)
		usage_error(c, "--%s needs a value", row->name);
	else
		take(c, row, value);
}

static void parse_all(struct command_line *c)
{
	while (*c->argv) {
		const char *arg = *c->argv++;

		if (arg[0] == '-' && arg[1] == '-' && arg[2])
			parse_flag(c, arg + 2);
		else if (arg[0] == '-' && arg[1] && arg[1] != '-')
			parse_flag(c, arg + 1);
		else
			usage_error(c,
			            "unexpected argument \"%s\" (a boolean is set by --flag=false)",
			            arg);
	}
}

static void use_environment(struct command_line *c, char *(*env)(const char *name))
{
	const struct {
		const char *variable, *flag;
		const char **field;
	} pairs[] = {
		{ "CSI_ENDPOINT", "bind-address", &c->flags->bind_address },
		{ "KUBECONFIG", "kubeconfig", &c->flags->kubeconfig },
	};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		const char *value = env(pairs[i].variable);
		const struct flag_row *row = find(pairs[i].flag, strlen(pairs[i].flag));

		if (!c->given[row - rows] && !str_empty(value))
			*pairs[i].field = value;
	}
}

int flags_parse(struct flags *f, int argc, char *const argv[], char *(*env)(const char *name),
                struct flags_report *report)
{
	struct command_line c = { .argv = argv + (argc > 0), .flags = f, .report = report };

	memset(f, 0, sizeof(*f));
	f->socket_gid = (gid_t)-1;
	set_defaults(f);
	parse_all(&c);
	use_environment(&c, env);
	if (c.ignored.n) {
		char *list AUTO(free) = strs_join(&c.ignored, " ");

		strs_addf(&report->warnings, "flags without effect in this driver: %s", list);
	}
	strs_clear(&c.ignored);
	if (!f->help && !f->version)
		flags_check(f, &report->errors);
	else if (!report->usage)
		strs_clear(&report->errors);
	return report->errors.n ? -1 : 0;
}

void flags_clear(struct flags *f)
{
	free(f->socket_path);
	free(f->socket_dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].kind == FLAG_LIST)
			strs_clear((struct strs *)(void *)((char *)f + rows[i].offset));
	memset(f, 0, sizeof(*f));
}

void flags_report_clear(struct flags_report *report)
{
	strs_clear(&report->errors);
	strs_clear(&report->warnings);
	report->usage = false;
}
