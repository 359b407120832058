/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in documents that a test generates, so that the document stays true. */
#pragma once

/*
 * In the file `doc` (below the top of the repository) the text between the lines
 * "<!-- NAME: begin -->" and "<!-- NAME: end -->" must be `table`. With UPDATE_DOCS in the
 * environment it is written there instead.
 */
void doc_table_check(const char *doc, const char *name, const char *table);
