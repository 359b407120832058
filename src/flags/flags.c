/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags: the table of flags.def, read by common/option_table.h.
 *
 * This file reports values that cannot be parsed; flags_check.c reports values that are out of
 * range or inconsistent. Both add to one list of errors, so that an operator sees all errors at
 * once. Only argv and the environment are read. No files, no threads.
 */
#include "flags/flags.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "flags/flags_priv.h"

#define HELP_AT offsetof(struct flags, help)

static const struct option_row rows[] = {
#define GROUP(title_) { .kind = OPTION_GROUP, .text = (title_) },
#define FLAG(kind_, field_, name_, default__, value_, text_)                \
	{ .kind = OPTION_##kind_,                                           \
	  .letter = offsetof(struct flags, field_) == HELP_AT ? 'h' : '\0', \
	  .offset = offsetof(struct flags, field_),                         \
	  .name = (name_),                                                  \
	  .default_ = (default__),                                          \
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

const struct flag_command *flag_commands(size_t *ret_n)
{
	static const struct flag_command commands[] = {
#define COMMAND(id_, word_, usage_, text_) { (word_), (usage_), (text_) },
#include "flags/flags.def"
	};

	*ret_n = ARRAY_LEN(commands);
	return commands;
}

/*
 * Refuses a first argument that is neither a flag nor a command; the arguments after it belong to
 * the same command.
 */
static void flags_refuse_command(const char *word, struct strs *errors)
{
	struct str all AUTO(str_clear) = STR_INIT(1000);
	size_t n;
	const struct flag_command *commands = flag_commands(&n);

	for (size_t i = 0; i < n; i++) {
		if (str_resembles(word, commands[i].word)) {
			strs_addf(errors, "\"%s\" is not a command; write %s", word,
			          commands[i].word);
			return;
		}
		str_addf(&all, "%s%s", i ? ", " : "", commands[i].word);
	}
	strs_addf(errors, "\"%s\" is not a command; the commands are %s (--help)", word, all.ptr);
}

static void flags_refuse_word(const char *word, const struct option_row *before,
                              struct strs *errors)
{
	size_t n;
	const struct flag_command *commands = flag_commands(&n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(word, commands[i].word)) {
			strs_addf(errors, "\"%s\" follows a flag; write the command first", word);
			return;
		}
	if (before && (before->kind == OPTION_BOOL || before->kind == OPTION_WORD))
		strs_addf(errors, "unexpected argument \"%s\"; write --%s=%s", word, before->name,
		          word);
	else
		strs_addf(errors, "unexpected argument \"%s\"; a flag begins with --", word);
}

static void flags_refuse_flag(struct option_table *t, const char *word, struct strs *errors)
{
	const struct option_row *meant = option_meant(t, word);

	strs_addf(errors, "unknown flag %s%s%s", word, meant ? "; write --" : "",
	          meant ? meant->name : "");
	/* The next argument is its value. */
	if (!strchr(word, '=') && *t->argv && **t->argv != '-')
		t->argv++;
}

/*
 * Returns true for a flag that replaces --mode. If the value of such a flag is invalid, --mode is
 * not reported as missing.
 */
static bool replaces_mode(const struct option_row *row)
{
	static const size_t fields[] = { offsetof(struct flags, help),
		                         offsetof(struct flags, version),
		                         offsetof(struct flags, pre_stop_ms) };

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (row->offset == fields[i])
			return true;
	return false;
}

/* Reads the flag at t->argv; adds the first use of a flag without effect to `ignored`. */
static void flags_read_next(struct option_table *t, const struct option_row **before,
                            struct strs *ignored, struct flags_report *report)
{
	const char *word = *t->argv;
	struct option_arg arg;
	struct err err = ERR_INIT;
	int rc;

	if (*word != '-' || !word[1] || str_eq(word, "--")) {
		report->usage = true;
		flags_refuse_word(*t->argv++, *before, &report->errors);
		return;
	}
	rc = option_next(t, &arg);
	*before = strchr(word, '=') ? NULL : arg.row;
	report->usage |= rc != 0;
	if (rc == OPTION_UNKNOWN)
		flags_refuse_flag(t, word, &report->errors);
	else if (rc)
		strs_addf(&report->errors, "--%s needs a value", arg.row->name);
	else if (arg.row->ignored && !t->given[arg.row - rows])
		strs_addf(ignored, "--%s", arg.row->name);
	if (!rc && option_store(t, arg.row, arg.value, &err)) {
		strs_add(&report->errors, err.msg);
		report->usage |= replaces_mode(arg.row);
	}
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

/*
 * Converts the directories once to the form in which mountinfo shows them, because they are
 * compared with paths of mountinfo while the driver runs.
 */
static void flags_spell_dirs(struct flags *f)
{
	const char **dirs[] = { &f->kubelet_dir, &f->plugin_dir };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (**dirs[i] == '/')
			*dirs[i] = f->canonical[i] = path_canonical(*dirs[i]);
}

int flags_parse(struct flags *f, int argc, char *const argv[], char *(*env)(const char *name),
                struct flags_report *report)
{
	struct option_table t = {
		.rows = rows, .n = ARRAY_LEN(rows), .fields = f, .argv = argv + (argc > 0)
	};
	struct strs ignored AUTO(strs_clear) = STRS_INIT;
	const struct option_row *before = NULL;

	memset(f, 0, sizeof(*f));
	f->socket_gid = (gid_t)-1;
	option_defaults(&t);
	if (*t.argv && **t.argv && **t.argv != '-') {
		flags_refuse_command(*t.argv, &report->errors);
		report->usage = true;
		return -1;
	}
	while (*t.argv)
		flags_read_next(&t, &before, &ignored, report);
	flags_read_environment(&t, f, env);
	if (ignored.n) {
		char *list AUTO(free) = strs_join(&ignored, " ");

		strs_addf(&report->warnings, "flags without effect in this driver: %s", list);
	}
	/* An unknown argument may have been any flag, so no flag is reported as missing. */
	if (report->usage && !f->help && !f->version)
		return -1;
	if (!f->help && !f->version)
		flags_check(f, &report->errors);
	else if (!report->usage)
		strs_clear(&report->errors);
	flags_spell_dirs(f);
	return report->errors.n ? -1 : 0;
}

void flags_clear(struct flags *f)
{
	free(f->socket_path);
	free(f->socket_dir);
	for (size_t i = 0; i < ARRAY_LEN(f->canonical); i++)
		free(f->canonical[i]);
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
