/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of a command line into the fields of a struct, as described by a table with a
 * row for each option. The driver, `host` and `inspect` each have a table, and format their own
 * errors and --help.
 *
 * Forms: --name=value, --name value, and the same with one dash or with the option's letter; -v2
 * for a number. A name may have underscores in place of dashes. If an option is repeated, the last
 * value counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum option_kind {
	OPTION_GROUP,    /* a title of --help, not an option */
	OPTION_SWITCH,   /* bool; takes no value */
	OPTION_BOOL,     /* bool; "true" without a value; never takes the next argument */
	OPTION_WORD,     /* const char *, borrowed; "true" without a value, like OPTION_BOOL */
	OPTION_STRING,   /* const char *, borrowed */
	OPTION_STRINGS,  /* struct strs; each use adds a string */
	OPTION_LIST,     /* struct strs; separated by commas, repeatable; replaces the default */
	OPTION_INT,      /* int64_t */
	OPTION_FLOAT,    /* double, 0 or more */
	OPTION_DURATION, /* int64_t, milliseconds: 110s, 1m30s, 1.5h */
	OPTION_SECONDS,  /* int64_t, milliseconds: 1 to 86400 seconds, without a unit */
	OPTION_OCTAL,    /* mode_t */
};

struct option_row {
	enum option_kind kind;
	char letter;          /* '\0': none */
	bool ignored;         /* accepted; has no field */
	unsigned commands;    /* a mask defined by the table's owner */
	size_t offset;        /* offset of the field */
	const char *name;     /* without dashes */
	const char *default_; /* as on the command line; NULL: the field stays unchanged */
	const char *value;    /* how --help shows the value */
	const char *text;     /* the meaning, or a group's title */
};

#define OPTION_ROWS_MAX 128
/* One parse of one command line; one thread. */
struct option_table {
	const struct option_row *rows;
	size_t n;
	void *fields;                /* the struct that `offset` refers to */
	char *const *argv;           /* the remaining arguments, then NULL */
	bool given[OPTION_ROWS_MAX]; /* rows that option_store() has stored */
};

struct option_arg {
	const char *word;             /* as typed */
	const struct option_row *row; /* NULL: unknown */
	const char *value;            /* NULL: none */
};

enum { OPTION_UNKNOWN = 1, OPTION_NO_VALUE, OPTION_EXTRA_VALUE };

/* Stores the default of each row; a default must be valid. */
void option_defaults(struct option_table *t);
/* Returns the option with this name or letter, of n bytes; NULL if not found. */
const struct option_row *option_find(const struct option_table *t, const char *name, size_t n);
/* Returns the row that an unknown option was probably meant to be (str_resembles()), or NULL. */
const struct option_row *option_meant(const struct option_table *t, const char *word);
/*
 * Reads the option at t->argv, which begins with a dash, and its value, and advances t->argv.
 * Stores nothing. Returns non-zero if the option is unknown, lacks its value, or is a switch with a
 * value.
 */
int option_next(struct option_table *t, struct option_arg *ret) MUST_CHECK;
/* Stores the value in the row's field. INVALID_ARGUMENT if it is not a value of this kind. */
int option_store(struct option_table *t, const struct option_row *row, const char *value,
                 struct err *err) MUST_CHECK;
