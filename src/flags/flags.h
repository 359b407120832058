/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line and the environment, as one struct made from flags.def.
 *
 * Forms: --name=value, --name value, --name (a boolean), and the same with one dash; -v2 too. A
 * name may be written with underscores for dashes. The last of several counts. A flag beats the
 * environment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/str.h"

#define FLAG_FIELD_STRING const char * /* borrowed from argv, the environment or flags.def */
#define FLAG_FIELD_BOOL bool
#define FLAG_FIELD_INT int64_t
#define FLAG_FIELD_FLOAT double
#define FLAG_FIELD_DURATION int64_t
#define FLAG_FIELD_OCTAL mode_t
#define FLAG_FIELD_LIST struct strs

struct flags {
#define FLAG(kind, field, ...) FLAG_FIELD_##kind field;
#include "flags/flags.def"
	bool controller, node; /* what --mode asks for */
	char *socket_path;     /* of the endpoint */
	char *socket_dir;      /* the default of plugin_dir */
	gid_t socket_gid;      /* (gid_t)-1: unchanged */
};

/* What the parser found wrong; each line is complete. */
struct flags_report {
	struct strs errors;   /* what makes a start impossible */
	struct strs warnings; /* what was taken without effect, in one line */
	bool usage; /* the command line itself could not be understood: exit status 2, not 1 */
};

#define FLAGS_REPORT_INIT                                                  \
	{                                                                  \
		.errors = STRS_INIT, .warnings = STRS_INIT, .usage = false \
	}

/*
 * Fills *f from defaults, argv[1..] and env (getenv, or a test's), and validates the whole. Returns
 * 0, or -1 when report->errors has lines: all that is wrong, not the first. With --help or
 * --version nothing is validated, with --probe only the endpoint. flags_clear() in both cases.
 */
int flags_parse(struct flags *f, int argc, char *const argv[], char *(*env)(const char *name),
                struct flags_report *report) MUST_CHECK;
void flags_clear(struct flags *f);
void flags_report_clear(struct flags_report *report);

/* The list for people, 100 columns wide. */
void flags_print_help(FILE *out);
/* The same as a table of Markdown: README.md has it, and `make lint` compares. */
void flags_print_markdown(FILE *out);
