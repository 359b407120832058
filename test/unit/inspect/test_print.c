/* SPDX-License-Identifier: Apache-2.0 */
/* The printed report, line by line. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/inspect.h"

static struct inspect_report report_of(const char *tree)
{
	struct inspect_report r = { .tree = NULL };
	struct err err = ERR_INIT;

	ck_assert_msg(json_parse("tree", tree, strlen(tree), &r.tree, &err) == 0, "%s", err.msg);
	return r;
}

static char *printed(const struct inspect_report *r)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	inspect_print(r, out);
	fclose(out);
	return text;
}

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
				   "VOLUMES: 1\n"
				   "  VOLUME CLAIM POD DEVICE FUNCTION STATE AGE\n"
				   "  pvc-1  -     -   -      -        -     -\n"
				   "  node           holders pid 1\n"
				   "\n"
				   "NODE\n"
				   "  id             n1\n"
				   "  vfs            idle 3\n"
				   "  mounts\n"
				   "    - path /a, gone\n"
				   "      device         nsid 1\n"
				   "    - path /b\\u001b, since 4 h\n";
	struct inspect_report r AUTO(inspect_report_clear) = report_of(tree);
	char *text AUTO(free) = NULL;

	inspect_finding(&r, "volume pvc-1", "end it", "it is held by %d", 7);
	text = printed(&r);
	ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(volumes_are_a_table_with_state_and_age)
{
	static const char tree[] =
		"{\"time\":\"T\",\"host\":\"h\",\"volumes\":["
		"{\"id\":\"a\",\"lastError\":{\"since\":90,\"age\":1},\"node\":{\"staged\":[{}]}},"
		"{\"id\":\"b\",\"node\":{\"device\":{\"name\":\"/dev/nvme0n1\",\"pci\":\"0000:3b:00.4\"},"
		"\"staged\":[{\"path\":\"/s\"}],\"published\":[{\"pod\":\"12345678-aaaa\"},{\"pod\":"
		"\"x\"}]}},"
		"{\"id\":\"c\",\"api\":{\"volume\":{\"age\":14400,\"ready\":true,\"claim\":\"ns/c\","
		"\"warning\":{\"reason\":\"Full\",\"message\":\"no\\nroom\",\"age\":5}},"
		"\"attachments\":[{\"ready\":false,\"pci\":\"0000:3b:00.5\"}]}},"
		"{\"id\":\"d\",\"api\":{\"volume\":{\"age\":0,\"ready\":true}}}]}";
	static const char want[] =
		"\nVOLUMES: 4\n"
		"  VOLUME CLAIM POD        DEVICE       FUNCTION     STATE     AGE\n"
		"  a      -     -          -            -            failing   1m\n"
		"  b      -     12345678+1 /dev/nvme0n1 0000:3b:00.4 published -\n"
		"  c      ns/c  -          -            0000:3b:00.5 attaching 4h\n"
		"  d      -     -          -            -            bound     0s\n"
		"\n"
		"EVENTS (Warnings of DPF)\n"
		"  DPUVolume c, 5 s ago, Full: no\\nroom\n";
	struct inspect_report r AUTO(inspect_report_clear) = report_of(tree);
	char *text AUTO(free) = printed(&r);

	ck_assert_str_eq(strstr(text, "\nVOLUMES"), want);
}
END_TEST

/* Names of full length, a long list of conditions, a byte that is cut within a character. */
START_TEST(no_line_but_a_findings_is_longer_than_120_columns)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *text AUTO(free) = NULL;
	char name[254];
	size_t n = 0;

	inspect_report_init(&r);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		struct json *v =
			inspect_volume(&r, i ? "pvc-11111111-2222-4333-8444-555555555555" : name);
		struct json *api = json_sub(v, "api"), *node = json_sub(v, "node");

		json_set_str(json_sub(api, "persistentVolume"), "claim",
		             "namespace-\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4/claim");
		json_set_str(json_sub(node, "device"), "name", "/dev/nvme1234n5678");
		json_set_str(json_sub(node, "device"), "pci", "0000:3b:00.4");
	}
	for (int i = 0; i < 40; i++) {
		char member[32];

		snprintf(member, sizeof(member), "state%d", i);
		json_set_int(json_sub(json_sub(r.tree, "node"), "vfs"), member, 123456789);
	}
	text = printed(&r);
	for (const char *line = text; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		ck_assert_msg(n <= 124, "%zu bytes: %.*s", n, (int)n, line);
		ck_assert(utf8_valid(line, n));
	}
	ck_assert_ptr_nonnull(strstr(text, "pvc-11111111-2222-4333-8444-555555555555 "));
	ck_assert_ptr_nonnull(strstr(text, "xxx~ "));
}
END_TEST

START_TEST(a_volume_that_no_source_knows_has_no_table)
{
	struct inspect_report r AUTO(inspect_report_clear) = report_of(
		"{\"time\":\"T\",\"host\":\"h\",\"volumes\":[{\"id\":\"typo\",\"node\":{}}]}");
	char *text AUTO(free) = printed(&r);

	ck_assert_ptr_null(strstr(text, "VOLUMES"));
}
END_TEST

START_TEST(many_functions_are_a_summary_unless_the_node_is_asked_for)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *summary AUTO(free) = NULL, *whole AUTO(free) = NULL;
	struct json *list;

	inspect_report_init(&r);
	list = inspect_list(json_sub(r.tree, "node"), "functions");
	for (int i = 0; i < 250; i++) {
		struct json *f = json_object();

		json_set_str(f, "pci", "0000:3b:00.4");
		json_set_str(f, "driver", i < 3 ? "nvme" : "none");
		json_set_str(f, "volume", i < 2 ? "pvc-1" : NULL);
		json_append(list, f);
	}
	summary = printed(&r);
	ck_assert_ptr_nonnull(strstr(summary, "\nFUNCTIONS: 250 (2 with a volume, 3 with a driver, "
	                                      "0 hang); inspect node lists them\n"));
	ck_assert_ptr_null(strstr(summary, "0000:3b"));
	r.all_functions = true;
	whole = printed(&r);
	ck_assert_ptr_nonnull(
		strstr(whole, "0 hang)\n  FUNCTION     KIND DRIVER DISKS VOLUME STATE\n"));
	ck_assert_ptr_nonnull(strstr(whole, "0000:3b:00.4"));
}
END_TEST

/* ---- while the API server does not answer ---- */

START_TEST(the_hosts_part_is_printed_while_the_api_server_hangs)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_partial *p;
	char first[2000] = "", *text = NULL;
	size_t n = 0;
	int ends[2];
	FILE *out;

	ck_assert_int_eq(pipe(ends), 0);
	out = fdopen(ends[1], "w");
	inspect_report_init(&r);
	inspect_finding(&r, "volume pvc-1", "end it", "the first");
	p = inspect_partial_start(&r, 0, out);
	ck_assert_ptr_nonnull(p);
	while (!strstr(first, "has not answered yet")) {
		ssize_t got = read(ends[0], first + n, sizeof(first) - 1 - n);

		ck_assert_int_gt(got, 0);
		n += (size_t)got;
	}
	ck_assert_ptr_nonnull(strstr(first, "FINDINGS: 1\n  1. volume pvc-1: the first\n"));
	inspect_finding(&r, "API server", "wait", "the second");
	ck_assert(inspect_partial_stop(p));
	fclose(out);
	close(ends[0]);
	out = open_memstream(&text, &n);
	inspect_print_after(&r, 1, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "FINDINGS: 1 more\n  2. API server: the second\n"));
	ck_assert_ptr_null(strstr(text, "the first"));
	free(text);
}
END_TEST

START_TEST(an_api_server_that_answers_in_time_has_no_part_of_its_own)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	inspect_report_init(&r);
	ck_assert(!inspect_partial_stop(inspect_partial_start(&r, 3600 * 1000, out)));
	fclose(out);
	ck_assert_uint_eq(n, 0);
	free(text);
}
END_TEST

SUITE("print", findings_come_first_and_each_thing_has_its_line,
      volumes_are_a_table_with_state_and_age, no_line_but_a_findings_is_longer_than_120_columns,
      a_volume_that_no_source_knows_has_no_table,
      many_functions_are_a_summary_unless_the_node_is_asked_for,
      the_hosts_part_is_printed_while_the_api_server_hangs,
      an_api_server_that_answers_in_time_has_no_part_of_its_own);
