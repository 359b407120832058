/* SPDX-License-Identifier: Apache-2.0 */
/* See doc_lines.h. Each line is a file in a folder that the program owns. */
#include "test/lib/doc_lines.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "test/lib/doc_table.h"
#include "test/lib/nvme_world.h"

#define LINE_MAX_BYTES 8192

static char dir[] = "/tmp/doc-lines-XXXXXX";

int doc_lines_begin(int argc, char **argv)
{
	(void)argc, (void)argv;
	return mkdtemp(dir) ? 0 : -1;
}

void doc_lines_end(void)
{
	run_tool("rm -r %s", dir);
}

static char *path_of(size_t i)
{
	return xasprintf("%s/%03zu", dir, i);
}

void doc_lines_put(size_t i, const char *line)
{
	char *path AUTO(free) = path_of(i);
	struct err err = ERR_INIT;

	ck_assert_msg(file_replace(path, line, strlen(line), 0600, &err) == 0, "%s", err.msg);
}

void doc_lines_check(const char *doc, const char *name, const char *head, size_t n)
{
	struct str table AUTO(str_clear) = STR_INIT(1 << 20);
	struct err err = ERR_INIT;

	str_add(&table, head);
	for (size_t i = 0; i < n; i++) {
		char *path AUTO(free) = path_of(i);
		char *line AUTO(free) = NULL;

		ck_assert_msg(file_read(path, LINE_MAX_BYTES, &line, NULL, &err) == 0, "%s",
		              err.msg);
		str_add(&table, line);
	}
	doc_table_check(doc, name, table.ptr);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

void doc_lines_plain(const char *root, const char *text, struct str *ret)
{
	static const char seconds[] = " for N s";
	size_t n = strlen(root);

	for (const char *p = text; *p;) {
		if (strncmp(p, root, n) == 0) {
			p += n;
		} else if ((str_has_prefix(p, " 7:") || str_has_prefix(p, " 0:")) &&
		           is_digit(p[3])) {
			str_addf(ret, "%.3sN", p);
			p += 3 + strspn(p + 3, "0123456789");
		} else if (str_has_prefix(p, " for ") && is_digit(p[5]) && p[6] == '.') {
			str_add(ret, seconds);
			p += strlen(" for 1.2 s");
		} else {
			str_addn(ret, p++, 1);
		}
	}
}
