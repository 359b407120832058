/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the list of flags: --help for a terminal, a Markdown table for docs/reference/flags.md.
 *
 * Both are printed from the rows of flags.def, so neither can differ from the flags that the parser
 * accepts.
 */
#include "flags/flags_priv.h"

#include <string.h>

#include "common/cleanup.h"

#define COLUMNS 100
#define INDENT 38

/* Adds "--wait-timeout=TIME". */
static void spell(struct str *s, const struct option_row *row)
{
	str_addf(s, "--%s", row->name);
	if (row->kind == OPTION_WORD)
		str_addf(s, "[=%s]", row->value);
	else if (!str_empty(row->value))
		str_addf(s, "=%s", row->value);
	else if (row->kind == OPTION_BOOL && str_eq(row->default_, "true"))
		str_add(s, "=false");
}

/* Prints the text, broken at spaces; the cursor is already at column INDENT. */
static void help_wrap(FILE *out, const char *text)
{
	size_t column = INDENT;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column + n + 1 > COLUMNS) {
			fprintf(out, "\n%*s", INDENT, "");
			column = INDENT;
		}
		fprintf(out, "%s%.*s", column > INDENT ? " " : "", (int)n, text);
		column += n + (column > INDENT);
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

static void help_print_row(FILE *out, const struct option_row *row)
{
	struct str left AUTO(str_clear) = STR_INIT(200);
	struct str right AUTO(str_clear) = STR_INIT(1000);

	spell(&left, row);
	str_add(&right, row->text);
	if (!str_empty(row->default_) && !((row->kind == OPTION_BOOL || row->kind == OPTION_WORD) &&
	                                   str_eq(row->default_, "false")))
		str_addf(&right, " (default %s)", row->default_);
	if (left.len + 3 < INDENT) /* at least two spaces, where packaging/tables.awk splits */
		fprintf(out, "  %-*s", INDENT - 2, left.ptr);
	else
		fprintf(out, "  %s\n%*s", left.ptr, INDENT, "");
	help_wrap(out, right.ptr);
}

static void help_print_commands(FILE *out)
{
	size_t n;
	const struct flag_command *commands = flag_commands(&n);

	for (size_t i = 0; i < n; i++) {
		char left[INDENT];

		snprintf(left, sizeof(left), "%s %s", commands[i].word, commands[i].usage);
		fprintf(out, "  %-*s", INDENT - 2, left);
		help_wrap(out, commands[i].text);
	}
}

/* Adds "--a, --b": all flags that have no effect. */
static void list_ignored(struct str *s, const struct option_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].ignored)
			str_addf(s, "%s--%s", s->len ? ", " : "", rows[i].name);
}

void flags_print_help(FILE *out)
{
	struct str ignored AUTO(str_clear) = STR_INIT(4000);
	size_t n;
	const struct option_row *rows = flag_rows(&n);

	fputs("snap-csi-plugin " SNAP_CSI_VERSION
	      ": CSI driver for storage on NVIDIA BlueField DPUs\n\n"
	      "usage: snap-csi-plugin --mode=controller --namespace=NAME [flags]\n"
	      "       snap-csi-plugin --mode=node --node-id=NAME [flags]\n"
	      "       snap-csi-plugin COMMAND\n"
	      "\n"
	      "Commands:\n",
	      out);
	help_print_commands(out);
	for (size_t i = 0; i < n; i++)
		if (rows[i].kind == OPTION_GROUP)
			fprintf(out, "\n%s\n", rows[i].text);
		else if (!rows[i].ignored)
			help_print_row(out, &rows[i]);
	list_ignored(&ignored, rows, n);
	fprintf(out, "  %-*s", INDENT - 2, "(no effect)");
	help_wrap(out, ignored.ptr);
	fputs("\nexit status: 0 after SIGTERM or SIGINT, 1 cannot serve, 2 invalid flag,\n"
	      "             3 a call still ran 25 s after SIGTERM (the log names it)\n",
	      out);
}

void flags_print_markdown(FILE *out)
{
	struct str ignored AUTO(str_clear) = STR_INIT(4000);
	size_t n;
	const struct option_row *rows = flag_rows(&n);

	for (size_t i = 0; i < n; i++) {
		const struct option_row *r = &rows[i];
		const char *quote = str_empty(r->default_) ? "" : "`";

		if (r->kind == OPTION_GROUP && !rows[i + 1].ignored)
			fprintf(out,
			        "%s## %s\n\n| Flag | Default | Meaning |\n| --- | --- | --- |\n",
			        i ? "\n" : "", r->text);
		if (r->kind == OPTION_GROUP || r->ignored)
			continue;
		fprintf(out, "| `--%s` | %s%s%s | %s |\n", r->name, quote, r->default_, quote,
		        r->text);
	}
	list_ignored(&ignored, rows, n);
	fprintf(out,
	        "\nAccepted without effect, so that command lines of the Go plugin keep working: %s.\n",
	        ignored.ptr);
}
