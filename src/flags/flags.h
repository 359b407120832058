/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line and the environment, as one struct generated from flags.def.
 *
 * Forms: --name=value, --name value, --name (a boolean), and the same with one dash; also -v2. A
 * name may have underscores in place of dashes. If a flag is given several times, the last value is
 * used. A flag takes precedence over the environment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/str.h"

#define FLAG_FIELD_STRING const char * /* borrowed from argv, the environment or flags.def */
#define FLAG_FIELD_WORD const char *   /* as for STRING; "true" if the flag has no value */
#define FLAG_FIELD_BOOL bool
#define FLAG_FIELD_INT int64_t
#define FLAG_FIELD_FLOAT double
#define FLAG_FIELD_DURATION int64_t
#define FLAG_FIELD_OCTAL mode_t
#define FLAG_FIELD_LIST struct strs

enum flags_question { ASK_NOTHING, ASK_READY, ASK_REGISTERED, ASK_PRE_STOP };

struct flags {
#define FLAG(kind, field, ...) FLAG_FIELD_##kind field;
#include "flags/flags.def"
	bool controller, node;        /* the services that --mode names */
	char *socket_path;            /* the path in bind_address */
	char *socket_dir;             /* its directory; the default of plugin_dir */
	char *canonical[2];           /* kubelet_dir and plugin_dir with symbolic links resolved */
	gid_t socket_gid;             /* (gid_t)-1: unchanged */
	enum flags_question question; /* set by --probe and --pre-stop */
};

/* The messages of the parser; each string of a list is a complete line for the operator. */
struct flags_report {
	struct strs errors;   /* why the driver cannot start */
	struct strs warnings; /* the ignored flags, in one line */
	bool usage;           /* the command line cannot be parsed: exit status 2, not 1 */
};

#define FLAGS_REPORT_INIT                                                  \
	{                                                                  \
		.errors = STRS_INIT, .warnings = STRS_INIT, .usage = false \
	}

/*
 * Fills *f from defaults, argv[1..] and env (getenv, or a test's), and checks it. Returns 0, or -1
 * with all errors in report->errors, not only the first: errors of arguments that cannot be parsed
 * or, if all can be parsed, errors of values. A command (COMMAND of flags.def) is refused here,
 * because main.c runs commands. With --help or --version nothing is checked, with --probe only the
 * endpoint, with --pre-stop only the directories. Call flags_clear() afterwards, even after -1.
 */
int flags_parse(struct flags *f, int argc, char *const argv[], char *(*env)(const char *name),
                struct flags_report *report) MUST_CHECK;
void flags_clear(struct flags *f);
void flags_report_clear(struct flags_report *report);

/* Prints --help: the list of all flags, 100 columns wide. */
void flags_print_help(FILE *out);
/* Prints the list as a Markdown table for docs/reference/flags.md; `make lint` compares the two. */
void flags_print_markdown(FILE *out);
