/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table in a document (doc_table.h) whose lines are made by tests that each run in a process of
 * their own. For SUITE_AROUND(): doc_lines_begin() and doc_lines_end() around all tests.
 */
#pragma once

#include <stddef.h>

#include "common/str.h"

int doc_lines_begin(int argc, char **argv);
void doc_lines_end(void);
/* Line i of the table, with its newline. */
void doc_lines_put(size_t i, const char *line);
/* `head` and the n lines are the table `name` of the document. */
void doc_lines_check(const char *doc, const char *name, const char *head, size_t n);
/*
 * Adds an error's text without what differs between runs: the folder `root`, numbers of loop and
 * anonymous devices, tenths of seconds.
 */
void doc_lines_plain(const char *root, const char *text, struct str *ret);
