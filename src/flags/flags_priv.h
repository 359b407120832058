/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by flags.c (the table and its errors), flags_check.c (which values are refused) and
 * flags_help.c (--help and the table of docs/flags.md).
 */
#pragma once

#include "common/option_table.h"
#include "flags/flags.h"

/* All rows of flags.def, in its order. */
const struct option_row *flag_rows(size_t *ret_n);
/* Adds a line to `errors` for each value that is refused, and fills the derived fields. */
void flags_check(struct flags *f, struct strs *errors);
/* The path of an endpoint URL, malloc'ed; INVALID_ARGUMENT says what to write instead. */
int flags_endpoint_path(const char *url, char **ret, struct err *err) MUST_CHECK;
