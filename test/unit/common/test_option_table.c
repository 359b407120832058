/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of options, and which word is the value of which option. Numbers: test/unit/flags. */
#include "test/lib/suite.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/option_table.h"
#include "common/str.h"

static struct fields {
	bool all, color;
	const char *file, *probe;
	int64_t level, patience;
	struct strs each, list;
} fields;

#define AT(member) offsetof(struct fields, member)
static const struct option_row rows[] = {
	{ .kind = OPTION_GROUP, .text = "A title" },
	{ .kind = OPTION_SWITCH, .name = "all", .letter = 'a', .offset = AT(all) },
	{ .kind = OPTION_BOOL, .name = "use-color", .offset = AT(color), .default_ = "true" },
	{ .kind = OPTION_STRING, .name = "file", .letter = 'f', .offset = AT(file) },
	{ .kind = OPTION_WORD, .name = "probe", .offset = AT(probe), .default_ = "false" },
	{ .kind = OPTION_INT, .name = "v", .offset = AT(level), .default_ = "3" },
	{ .kind = OPTION_SECONDS, .name = "timeout", .offset = AT(patience), .default_ = "120" },
	{ .kind = OPTION_STRINGS, .name = "each", .offset = AT(each) },
	{ .kind = OPTION_LIST, .name = "list", .offset = AT(list), .default_ = "d" },
	{ .kind = OPTION_STRING, .name = "old", .ignored = true },
};

/* "name=value" for each field that differs from its default, or the first error. */
static char *read_line(const char *line)
{
	char words[200], *argv[16] = { NULL }, *save = NULL;
	struct option_table t = {
		.rows = rows, .n = ARRAY_LEN(rows), .fields = &fields, .argv = argv
	};
	struct str s AUTO(str_clear) = STR_INIT(500);
	char *each AUTO(free) = NULL, *list AUTO(free) = NULL;
	struct option_arg arg;
	struct err err = ERR_INIT;
	int rc = 0, n = 0;

	strs_clear(&fields.each);
	strs_clear(&fields.list);
	fields = (struct fields) { .file = "" };
	option_defaults(&t);
	snprintf(words, sizeof(words), "%s", line);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	while (*t.argv && !rc) {
		rc = option_next(&t, &arg);
		if (rc)
			str_addf(&s, "%s: %d", arg.word, rc);
		else if ((rc = option_store(&t, arg.row, arg.value, &err)) != 0)
			str_add(&s, err.msg);
	}
	each = strs_join(&fields.each, "+");
	list = strs_join(&fields.list, "+");
	if (!rc)
		str_addf(&s, "%s%s f=%s p=%s v=%d t=%d e=%s l=%s", fields.all ? "all" : "",
		         fields.color ? "" : "plain", fields.file, fields.probe, (int)fields.level,
		         (int)fields.patience, each, list);
	return str_take(&s);
}

static const struct {
	const char *line, *result;
} lines[] = {
	{ "", " f= p=false v=3 t=120000 e= l=d" },
	{ "--all -f x", "all f=x p=false v=3 t=120000 e= l=d" },
	{ "-a -f=x", "all f=x p=false v=3 t=120000 e= l=d" },
	{ "-file x --use_color=false", "plain f=x p=false v=3 t=120000 e= l=d" },
	{ "--file --all", " f=--all p=false v=3 t=120000 e= l=d" },
	{ "--use-color --probe --all", "all f= p=true v=3 t=120000 e= l=d" },
	{ "--probe=ready -v2", " f= p=ready v=2 t=120000 e= l=d" },
	{ "-v 5 --timeout=1", " f= p=false v=5 t=1000 e= l=d" },
	{ "--each a,b --each=c --list=a,,b --list c", " f= p=false v=3 t=120000 e=a,b+c l=a+b+c" },
	{ "--old x --file=a --file b", " f=b p=false v=3 t=120000 e= l=d" },
	{ "-", "-: 1" },
	{ "--", "--: 1" },
	{ "-f2", "-f2: 1" },
	{ "--v2", "--v2: 1" },
	{ "--files=x", "--files=x: 1" },
	{ "--file", "--file: 2" },
	{ "--all=true", "--all=true: 3" },
	{ "--timeout 0", "--timeout: 0 is not between 1 and 86400 seconds" },
	{ "--timeout=86401", "--timeout: 86401 is not between 1 and 86400 seconds" },
	{ "--use-color=x", "--use-color: \"x\" is not true or false" },
};

START_TEST(every_form_is_read)
{
	char *got AUTO(free) = read_line(lines[_i].line);

	ck_assert_msg(str_eq(got, lines[_i].result), "%s: %s", lines[_i].line, got);
	strs_clear(&fields.each);
	strs_clear(&fields.list);
}
END_TEST

SUITE("option table", LOOP(every_form_is_read, ARRAY_LEN(lines)));
