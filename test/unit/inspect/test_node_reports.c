/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of nodes in another report: which are taken over, and how they name their node. */
#include "test/lib/suite.h"

#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "inspect/inspect.h"

#define FINDING(object) "{\"object\":\"" object "\",\"what\":\"w of " object "\",\"next\":\"n\"}"

static char path[64];
static struct inspect_report report;
static struct inspect_options options;

static void begin(const char *text)
{
	int fd AUTO(fd) = -1;

	snprintf(path, sizeof(path), "/tmp/test_node_reports.XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	inspect_report_init(&report);
	options = (struct inspect_options) { .node_reports = STRS_INIT };
	strs_add(&options.node_reports, path);
}

static void end(void)
{
	unlink(path);
	strs_clear(&options.node_reports);
	inspect_report_clear(&report);
}

static const char *text_of(const char *at)
{
	const char *text = json_str(report.tree, at);

	return text ? text : "(none)";
}

/* "the reason why it is not mounted" is a finding of the node, which the controller cannot know. */
START_TEST(a_report_has_the_findings_of_nodes_about_its_volumes)
{
	begin("{\"time\":\"2026-01-01T00:00:00Z\",\"host\":\"h\",\"node\":{\"id\":\"n1\"},"
	      "\"findings\":[" FINDING("volume v1") "," FINDING("volume v10") "," FINDING(
		      "this node") "," FINDING("API server") ",{\"object\":\"volume v1\"},7]}");
	options.volume_id = "v1";
	inspect_read_node_reports(&report, &options);
	ck_assert_uint_eq(report.n_findings, 2);
	ck_assert_str_eq(text_of("findings.0.object"),
	                 "volume v1 on node n1 (as it was at 2026-01-01T00:00:00Z)");
	ck_assert_str_eq(text_of("findings.0.what"), "w of volume v1");
	ck_assert_str_eq(text_of("findings.0.next"), "n");
	ck_assert_str_eq(text_of("findings.1.object"),
	                 "node n1 (as it was at 2026-01-01T00:00:00Z)");
	end();
}
END_TEST

START_TEST(without_a_subject_all_volumes_are_taken)
{
	begin("{\"host\":\"h\",\"findings\":[" FINDING("volume v1") "," FINDING("volume v2") "]}");
	inspect_read_node_reports(&report, &options);
	ck_assert_uint_eq(report.n_findings, 2);
	ck_assert_ptr_nonnull(strstr(text_of("findings.1.object"), "volume v2 on node h"));
	end();
}
END_TEST

/* The API server does not attach v2 to the node any more, and the node still has it. */
START_TEST(the_report_of_a_node_has_all_its_volumes)
{
	begin("{\"host\":\"h\",\"findings\":[" FINDING("volume v1") "," FINDING("volume v2") "]}");
	options.subject = INSPECT_NODE;
	options.resolved = true;
	strs_add(&options.volumes, "v1");
	inspect_read_node_reports(&report, &options);
	ck_assert_uint_eq(report.n_findings, 2);
	strs_clear(&options.volumes);
	end();
}
END_TEST

START_TEST(a_file_that_is_no_report_is_a_finding)
{
	static const char *const texts[] = { "", "{", "[]", "{\"volumes\":[]}" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		begin(texts[i]);
		inspect_read_node_reports(&report, &options);
		ck_assert_msg(report.n_findings == 1, "%s", texts[i]);
		ck_assert_str_eq(text_of("findings.0.object"), path);
		ck_assert_uint_eq(json_count(report.node_reports), 0);
		end();
	}
}
END_TEST

SUITE("node_reports", a_report_has_the_findings_of_nodes_about_its_volumes,
      without_a_subject_all_volumes_are_taken, the_report_of_a_node_has_all_its_volumes,
      a_file_that_is_no_report_is_a_finding);
