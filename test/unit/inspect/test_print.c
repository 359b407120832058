/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a report, line by line. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"

START_TEST(findings_come_first_and_each_thing_has_its_line)
{
	static const char tree[] =
		"{\"time\":\"T\",\"host\":\"h\",\"findings\":[],"
		"\"node\":{\"id\":\"n1\",\"none\":[],\"vfs\":{\"idle\":3},"
		"\"mounts\":[{\"path\":\"/a\",\"gone\":true,\"new\":false,\"device\":{\"nsid\":1}},"
		"{\"path\":\"/b\\u001b\",\"since\":14400}]},"
		"\"volumes\":[{\"id\":\"pvc-1\",\"node\":{\"modules\":\"\",\"holders\":\"pid 1\"}}]}";
	static const char want[] = "inspected T on h\n"
				   "\n"
				   "FINDINGS: 1\n"
				   "  1. volume pvc-1: it is held by 7\n"
				   "     next: end it\n"
				   "\n"
				   "NODE\n"
				   "  id             n1\n"
				   "  vfs            idle 3\n"
				   "  mounts\n"
				   "    - path /a, gone\n"
				   "      device         nsid 1\n"
				   "    - path /b\\u001b, since 4 h\n"
				   "\n"
				   "VOLUMES: 1\n"
				   "  pvc-1\n"
				   "    node           holders pid 1\n";
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct err err = ERR_INIT;
	char *text = NULL;
	size_t n;
	FILE *out;

	ck_assert_msg(json_parse("tree", tree, strlen(tree), &r.tree, &err) == 0, "%s", err.msg);
	inspect_finding(&r, "volume pvc-1", "end it", "it is held by %d", 7);
	out = open_memstream(&text, &n);
	inspect_print(&r, out);
	fclose(out);
	ck_assert_str_eq(text, want);
	free(text);
}
END_TEST

SUITE("print", findings_come_first_and_each_thing_has_its_line);
