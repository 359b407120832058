/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of a volume, and their contradictions. */
#include "test/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/api_scan.h"
#include "test/lib/doc_table.h"

#define STAGED "\"staged\":[{\"path\":\"/s\"}]"
#define VF "\"function\":\"vf\",\"pci\":\"0000:3b:00.4\",\"nsid\":1,\"uuid\":\"AAAA\""
#define PF "\"function\":\"pf\",\"pci\":\"0000:3b:00.4\",\"nsid\":1,\"uuid\":\"AAAA\""
#define API(attachment) \
	"{\"volume\":{\"capacity\":1024},\"attachments\":[{\"name\":\"a\"," attachment "}]}"
#define HERE "\"node\":\"n1\",\"ready\":true,"
#define DISK(pci, nsid, uuid, size)                                                      \
	"{" STAGED ",\"device\":{\"pci\":\"" pci "\",\"nsid\":" nsid ",\"uuid\":\"" uuid \
	"\",\"size\":" size "}}"

#define HOT "\"hotplug\":true,\"age\":200," PF
#define SLOT(pci) "[{\"pci\":\"" pci "\",\"hotPlugged\":true}]"

/* says: part of the only finding; NULL: no finding. */
static const struct {
	const char *what, *node, *api, *says;
} rows[] = {
	{ "the same", DISK("0000:3b:00.4", "1", "aaaa", "1024"), API(HERE VF), NULL },
	{ "an address without its domain", DISK("3b:00.4", "1", "aaaa", "1024"), API(HERE VF),
	  NULL },
	{ "another function", DISK("0000:3b:00.5", "1", "aaaa", "1024"), API(HERE VF),
	  "DPUVolumeAttachment a has function 0000:3b:00.4, but the staged device has 0000:3b:00.5" },
	{ "a hot-plugged function that moved", DISK("0000:3b:00.5", "1", "aaaa", "1024"),
	  API(HERE PF), NULL },
	{ "a hot-plugged function whose UUID is not known", DISK("0000:3b:00.5", "1", "", "1024"),
	  API(HERE PF), "but the staged device has 0000:3b:00.5" },
	{ "another namespace id", DISK("0000:3b:00.4", "2", "aaaa", "1024"), API(HERE VF),
	  "has namespace id 1, but the staged device has 2" },
	{ "another UUID", DISK("0000:3b:00.4", "1", "bbbb", "1024"), API(HERE VF),
	  "has UUID AAAA, but the staged device has bbbb" },
	{ "a smaller device", DISK("0000:3b:00.4", "1", "aaaa", "512"), API(HERE VF),
	  "the device 512 bytes" },
	{ "another tag", "{" STAGED ",\"device\":{\"tag\":\"t2\"}}",
	  API(HERE "\"function\":\"pf\",\"tag\":\"t1\""),
	  "has tag t1, but the staged device has t2" },
	{ "not ready", "{" STAGED "}",
	  API("\"node\":\"n1\",\"ready\":false,\"reason\":\"is not attached: Ready=False\""),
	  "staged, but DPUVolumeAttachment a is not attached: Ready=False" },
	{ "being deleted", "{" STAGED "}", API(HERE "\"deleting\":50"),
	  "has been terminating for 50 s while the volume is staged" },
	{ "attached elsewhere", "{" STAGED "}", API("\"node\":\"n2\",\"ready\":true"),
	  "staged on this node, but attached to n2" },
	{ "detached", "{" STAGED "}", "{\"volume\":{}}",
	  "its DPUVolumeAttachment no longer exists" },
	{ "no volume", "{" STAGED "}", "{}", "there is no DPUVolume of this name" },
	{ "nothing is staged", "{\"staged\":[]}", "{}", NULL },
};

/* The attachment of a volume that is not staged, and the host's functions; NULL: not read. */
static const struct {
	const char *what, *api, *says, *functions;
} function_rows[] = {
	{ "a function that was not plugged again after a power cycle", API(HERE HOT),
	  "this host does not have its hot-plugged function 0000:3b:00.4: DPF does not plug "
	  "functions again after a power cycle of the host (its known issue 4734537)",
	  "[]" },
	{ "only functions of other volumes", API(HERE HOT),
	  "does not have its hot-plugged function",
	  "[{\"pci\":\"0000:3b:00.9\"},"
	  "{\"pci\":\"0000:3c:00.0\",\"hotPlugged\":true,\"volume\":\"v2\"}]" },
	{ "only the function of another attachment",
	  API(HERE HOT "},{\"name\":\"b\",\"node\":\"n1\",\"pci\":\"3c:00.0\""),
	  "does not have its hot-plugged function", SLOT("0000:3c:00.0") },
	{ "the function is there", API(HERE HOT), NULL, SLOT("0000:3b:00.4") },
	{ "it may be in another slot", API(HERE HOT), NULL, SLOT("0000:3c:00.0") },
	{ "the host was not read", API(HERE HOT), NULL, NULL },
	{ "it is being plugged", API(HERE "\"hotplug\":true,\"age\":100," PF), NULL, "[]" },
	{ "it is not ready",
	  API("\"node\":\"n1\",\"ready\":false,\"hotplug\":true,\"age\":200," PF), NULL, "[]" },
	{ "it is of another node", API("\"node\":\"n2\",\"ready\":true," HOT), NULL, "[]" },
	{ "it is being removed", API(HERE "\"deleting\":5," HOT), NULL, "[]" },
	{ "a VF", API(HERE "\"age\":200," VF), NULL, "[]" },
};

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(!json_parse("row", text, strlen(text), &j, &err), "%s: %s", text, err.msg);
	return j;
}

START_TEST(what_is_staged_is_compared_with_what_is_attached)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_options o = { .flags = { .node_id = "n1" } };
	struct api_scan l = { .r = &r, .o = &o };
	const char *says;

	inspect_report_init(&r);
	json_set(inspect_volume(&r, "v1"), "node", parse(rows[_i].node));
	json_set(inspect_volume(&r, "v1"), "api", parse(rows[_i].api));
	api_find_contradictions(&l);
	ck_assert_msg(r.n_findings == (rows[_i].says ? 1 : 0), "%s: %u findings", rows[_i].what,
	              r.n_findings);
	says = json_str(r.tree, "findings.0.what");
	if (rows[_i].says)
		ck_assert_msg(strstr(says, rows[_i].says) != NULL, "%s: %s", rows[_i].what, says);
}
END_TEST

START_TEST(a_function_that_the_host_does_not_have_was_not_plugged_again)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_options o = { .flags = { .node_id = "n1" } };
	struct api_scan l = { .r = &r, .o = &o };
	const char *says = function_rows[_i].says;

	inspect_report_init(&r);
	json_set(inspect_volume(&r, "v1"), "api", parse(function_rows[_i].api));
	if (function_rows[_i].functions)
		json_set(json_sub(r.tree, "node"), "functions", parse(function_rows[_i].functions));
	api_find_contradictions(&l);
	ck_assert_msg(r.n_findings == (says ? 1 : 0), "%s: %u findings", function_rows[_i].what,
	              r.n_findings);
	if (says)
		ck_assert_msg(strstr(json_str(r.tree, "findings.0.what"), says) != NULL, "%s: %s",
		              function_rows[_i].what, json_str(r.tree, "findings.0.what"));
}
END_TEST

START_TEST(a_file_of_another_host_is_compared_too)
{
	struct inspect_report r AUTO(inspect_report_clear) = { .tree = NULL };
	struct inspect_options o = { .node_reports = STRS_INIT };
	struct api_scan l = { .r = &r, .o = &o };
	char path[] = "/tmp/test_api_compare.XXXXXX";
	int fd AUTO(fd) = mkstemp(path);
	const char *text =
		"{\"findings\":[],\"time\":\"2026-01-01T00:00:00Z\",\"node\":{\"id\":\"n1\"},"
		"\"volumes\":[{\"id\":\"v1\",\"node\":" DISK("0000:3b:00.5", "1", "aaaa",
	                                                     "1024") "}]}";

	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	strs_add(&o.node_reports, path);
	inspect_report_init(&r);
	json_set(inspect_volume(&r, "v1"), "api", parse(API(HERE VF)));
	inspect_read_node_reports(&r, &o);
	unlink(path);
	api_find_contradictions(&l);
	ck_assert_uint_eq(r.n_findings, 1);
	ck_assert_str_eq(json_str(r.tree, "findings.0.object"),
	                 "volume v1 on node n1 (as it was at 2026-01-01T00:00:00Z)");
	inspect_read_node_reports(&r, &o);
	ck_assert_ptr_nonnull(strstr(json_str(r.tree, "findings.1.what"), "No such file"));
	strs_clear(&o.node_reports);
}
END_TEST

START_TEST(the_page_has_the_contradictions)
{
	struct str table AUTO(str_clear) = STR_INIT(16 * 1024);

	str_add(&table, "| contradiction | `inspect` says |\n| --- | --- |\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].says)
			str_addf(&table, "| %s | %s |\n", rows[i].what, rows[i].says);
	str_addf(&table, "| %s | %s |\n", function_rows[0].what, function_rows[0].says);
	doc_table_check("test/reports/inspect.md", "contradictions", table.ptr);
}
END_TEST

SUITE("api_compare", LOOP(what_is_staged_is_compared_with_what_is_attached, ARRAY_LEN(rows)),
      LOOP(a_function_that_the_host_does_not_have_was_not_plugged_again, ARRAY_LEN(function_rows)),
      a_file_of_another_host_is_compared_too, the_page_has_the_contradictions);
