/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by flags.c (the table and its errors), flags_check.c (which values are refused) and
 * flags_help.c (--help and the table of docs/reference/flags.md).
 */
#pragma once

#include "common/option_table.h"
#include "flags/flags.h"

struct flag_command {
	const char *word, *usage, *text;
};
/* Returns all commands of flags.def, in the order of the file. */
const struct flag_command *flag_commands(size_t *ret_n);
/* Returns all rows of flags.def, in the order of the file. */
const struct option_row *flag_rows(size_t *ret_n);
/* Adds a line to `errors` for each refused value, and sets the derived fields. */
void flags_check(struct flags *f, struct strs *errors);
/*
 * Sets *ret to the path of an endpoint URL, malloc'ed; INVALID_ARGUMENT names the accepted format.
 */
int flags_endpoint_path(const char *url, char **ret, struct err *err) MUST_CHECK;
