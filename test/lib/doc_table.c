/* SPDX-License-Identifier: Apache-2.0 */
/* See doc_table.h; owns nothing. */
#include "test/lib/doc_table.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"

void doc_table_check(const char *doc, const char *name, const char *table)
{
	char *first AUTO(free) = xasprintf("<!-- %s: begin -->\n", name);
	char *last AUTO(free) = xasprintf("<!-- %s: end -->\n", name);
	char *text AUTO(free) = NULL, *want AUTO(free) = NULL, *begin, *end;
	struct err err = ERR_INIT;

	if (file_read(doc, 1 << 20, &text, NULL, &err))
		ck_abort_msg("%s (run from the top of the repository)", err.msg);
	begin = strstr(text, first);
	end = strstr(text, last);
	ck_assert_msg(begin && end && begin < end, "%s has no place for the table %s", doc, name);
	begin += strlen(first);
	want = xasprintf("%.*s%s%s", (int)(begin - text), text, table, end);
	if (getenv("UPDATE_DOCS") && strcmp(want, text) != 0)
		ck_assert_int_eq(file_replace(doc, want, strlen(want), 0644, &err), 0);
	else
		ck_assert_msg(strcmp(want, text) == 0,
		              "%s: the table %s differs; UPDATE_DOCS=1 before this test writes it",
		              doc, name);
}
