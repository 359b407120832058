/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by flags.c (the table and its parser), flags_check.c (which values are refused) and
 * flags_help.c (--help and the table of docs/flags.md).
 */
#pragma once

#include "flags/flags.h"

enum flag_kind {
	FLAG_GROUP, /* a title, no flag */
	FLAG_STRING,
	FLAG_WORD,
	FLAG_BOOL,
	FLAG_INT,
	FLAG_FLOAT,
	FLAG_DURATION,
	FLAG_OCTAL,
	FLAG_LIST,
};

struct flag_row {
	enum flag_kind kind;
	bool ignored;  /* a row IGNORED(): no field, no effect */
	size_t offset; /* of the field in struct flags */
	const char *name, *default_, *modes, *value, *text;
};

/* All rows of flags.def, in its order. */
const struct flag_row *flag_rows(size_t *ret_n);
/* Adds a line to `errors` for each value that is refused, and fills the derived fields. */
void flags_check(struct flags *f, struct strs *errors);
/* The path of an endpoint URL, malloc'ed; INVALID_ARGUMENT says what to write instead. */
int flags_endpoint_path(const char *url, char **ret, struct err *err) MUST_CHECK;
