/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags: the table of flags.def, read by common/option_table.h.
 *
 * This file reports values that cannot be parsed, flags_check.c values that make no sense. Both add
 * to one list of errors, so that an operator sees all of them at once. Only argv and the
 * environment are read; no file, no thread.
 */
#include "flags/flags.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "flags/flags_priv.h"

#define HELP_AT offsetof(struct flags, help)

static const struct option_row rows[] = {
#define GROUP(title_) { .kind = OPTION_GROUP, .text = (title_) },
#define FLAG(kind_, field_, name_, default__, modes_, value_, text_)        \
	{ .kind = OPTION_##kind_,                                           \
	  .letter = offsetof(struct flags, field_) == HELP_AT ? 'h' : '\0', \
	  .offset = offsetof(struct flags, field_),                         \
	  .name = (name_),                                                  \
	  .default_ = (default__),                                          \
	  .modes = (modes_),                                                \
	  .value = (value_),                                                \
	  .text = (text_) },
#define IGNORED(kind_, name_, text_) \
	{ .kind = OPTION_##kind_, .ignored = true, .name = (name_), .text = (text_) },
#include "flags/flags.def"
};

const struct option_row *flag_rows(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(rows);
	return rows;
}

/* Reads the flag at t->argv; adds the first use of one without effect to `ignored`. */
static void flags_read_next(struct option_table *t, struct strs *ignored,
                            struct flags_report *report)
{
	const char *word = *t->argv;
	bool is_flag = *word == '-' && word[1] && !str_eq(word, "--");
	struct option_arg arg;
	struct err err = ERR_INIT;
	int rc = is_flag ? option_next(t, &arg) : OPTION_UNKNOWN;

	report->usage |= rc != 0;
	if (!is_flag)
		strs_addf(&report->errors,
		          "unexpected argument \"%s\" (a boolean is set by --flag=false)",
		          *t->argv++);
	else if (rc == OPTION_UNKNOWN)
		strs_addf(&report->errors, "unknown flag %s", word);
	else if (rc)
		strs_addf(&report->errors, "--%s needs a value", arg.row->name);
	else if (arg.row->ignored && !t->given[arg.row - rows])
		strs_addf(ignored, "--%s", arg.row->name);
	if (!rc && option_store(t, arg.row, arg.value, &err))
		strs_add(&report->errors, err.msg);
}

static void flags_read_environment(const struct option_table *t, struct flags *f,
                                   char *(*env)(const char *name))
{
	const struct {
		const char *variable, *flag;
		const char **field;
	} pairs[] = {
		{ "CSI_ENDPOINT", "bind-address", &f->bind_address },
		{ "KUBECONFIG", "kubeconfig", &f->kubeconfig },
	};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		const char *value = env(pairs[i].variable);

		if (!t->given[option_find(t, pairs[i].flag, strlen(pairs[i].flag)) - rows] &&
		    !str_empty(value))
			*pairs[i].field = value;
	}
}

int flags_parse(struct flags *f, int argc, char *const argv[], char *(*env)(const char *name),
                struct flags_report *report)
{
	struct option_table t = {
		.rows = rows, .n = ARRAY_LEN(rows), .fields = f, .argv = argv + (argc > 0)
	};
	struct strs ignored AUTO(strs_clear) = STRS_INIT;

	memset(f, 0, sizeof(*f));
	f->socket_gid = (gid_t)-1;
	option_defaults(&t);
	while (*t.argv)
		flags_read_next(&t, &ignored, report);
	flags_read_environment(&t, f, env);
	if (ignored.n) {
		char *list AUTO(free) = strs_join(&ignored, " ");

		strs_addf(&report->warnings, "flags without effect in this driver: %s", list);
	}
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
		if (rows[i].kind == OPTION_LIST)
			strs_clear((struct strs *)(void *)((char *)f + rows[i].offset));
	memset(f, 0, sizeof(*f));
}

void flags_report_clear(struct flags_report *report)
{
	strs_clear(&report->errors);
	strs_clear(&report->warnings);
	report->usage = false;
}
