/* SPDX-License-Identifier: Apache-2.0 */
/* The last errors of volumes in a report: which are findings, and that they come first. */
#include "test/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/failing.h"
#include "common/file.h"
#include "common/mem.h"
#include "inspect/inspect.h"
#include "test/lib/wait.h"

static char dir[64];
static struct inspect_report report;
static struct inspect_options options;

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_last_errors.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	inspect_report_init(&report);
	options = (struct inspect_options) { .flags.plugin_dir = dir };
}

static void end(void)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s'", dir);

	inspect_report_clear(&report);
	ck_assert_int_eq(system(command), 0);
}

static void put_file(const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, FAILING_FILE);
	struct err err = ERR_INIT;

	ck_assert_int_eq(file_replace(path, text, strlen(text), 0600, &err), 0);
}

/* ago: seconds since the last failed call of each of two volumes. */
static void put_errors(long ago, long ago_2)
{
	long now = (long)time(NULL);
	char *text AUTO(free) = xasprintf(
		"{\"errors\":[{\"volume\":\"pvc-1\",\"call\":\"NodeStageVolume\",\"code\":9,\"text\":"
		"\"/dev/nvme0n1: has another UUID\",\"first\":%ld,\"last\":%ld,\"count\":7},"
		"{\"volume\":\"pvc-2\",\"call\":\"NodeUnstageVolume\",\"code\":14,\"text\":\"busy\","
		"\"first\":%ld,\"last\":%ld,\"count\":1}]}",
		now - ago, now - ago, now - ago_2, now - ago_2);

	put_file(text);
}

static void read_errors(void)
{
	inspect_last_errors(&report, &options, wait_limit());
}

static const char *finding_text(const char *path)
{
	const char *text = json_str(report.tree, path);

	return text ? text : "(none)";
}

START_TEST(a_volume_that_fails_is_a_finding_with_call_code_text_and_number)
{
	const struct json *e;
	int64_t n = 0;
	struct err err = ERR_INIT;

	begin();
	put_errors(90, 60);
	inspect_volume(&report, "pvc-0");
	read_errors();
	ck_assert_uint_eq(report.n_findings, 2);
	ck_assert_str_eq(finding_text("findings.0.object"), "volume pvc-2");
	ck_assert_str_eq(finding_text("findings.1.object"), "volume pvc-1");
	ck_assert_ptr_nonnull(
		strstr(finding_text("findings.1.what"),
	               "NodeStageVolume fails with FAILED_PRECONDITION: "
	               "/dev/nvme0n1: has another UUID (failed calls: 7, the first "));
	e = json_member(inspect_volume_known(&report, "pvc-1"), "lastError");
	ck_assert_str_eq(json_str(e, "code"), "FAILED_PRECONDITION");
	ck_assert_int_eq(json_get_i64(e, "age", &n, &err), 0);
	ck_assert_int_ge(n, 90);
	end();
}
END_TEST

static const struct {
	const char *call;
	enum err_code code;
	const char *next;
	enum err_kind kind;
} next_steps[] = {
	{ "NodeGetVolumeStats", ERR_UNAVAILABLE, "read dmesg of the node", ERR_KIND_NONE },
	{ "NodeUnstageVolume", ERR_DEADLINE, "read dmesg of the node", ERR_KIND_NONE },
	{ "CreateVolume", ERR_DEADLINE, "check that the API server answers", ERR_KIND_NONE },
	{ "CreateVolume", ERR_INVALID, "create it again under the same name", ERR_KIND_NONE },
	{ "ControllerPublishVolume", ERR_EXHAUSTED, "delete a pod that uses another volume",
	  ERR_KIND_NONE },
	{ "ControllerPublishVolume", ERR_PRECONDITION, "get volumeattachments", ERR_KIND_NONE },
	{ "NodeStageVolume", ERR_PRECONDITION, "format no disk by hand", ERR_KIND_NONE },
	{ "NodeStageVolume", ERR_ABORTED, "wait until the process", ERR_KIND_NONE },
	{ "NodeUnpublishVolume", ERR_UNAVAILABLE, "end the processes", ERR_KIND_NONE },
	{ "NodeUnstageVolume", ERR_UNAVAILABLE, "end the processes", ERR_KIND_NONE },
	{ "NodeExpandVolume", ERR_INTERNAL, "error-texts.md", ERR_KIND_NONE },
	{ "NodeStageVolume", ERR_PRECONDITION, "has another volume's device",
	  ERR_KIND_WRONG_DEVICE },
	{ "NodeStageVolume", ERR_PRECONDITION, "find the owner of the data", ERR_KIND_HAS_DATA },
	{ "NodeStageVolume", ERR_PRECONDITION, "end the processes, mounts and loop devices",
	  ERR_KIND_HELD },
	{ "NodeUnstageVolume", ERR_UNAVAILABLE, "unless they have ended since", ERR_KIND_HELD },
};

START_TEST(each_error_has_a_next_step)
{
	char *text AUTO(free) = xasprintf(
		"{\"errors\":[{\"volume\":\"pvc-1\",\"call\":\"%s\",\"code\":%d,\"kind\":%d,"
		"\"text\":\"t\",\"first\":%ld,\"last\":%ld,\"count\":1}]}",
		next_steps[_i].call, next_steps[_i].code, next_steps[_i].kind, (long)time(NULL),
		(long)time(NULL));

	begin();
	put_file(text);
	read_errors();
	ck_assert_msg(strstr(finding_text("findings.0.next"), next_steps[_i].next) != NULL, "%s",
	              finding_text("findings.0.next"));
	end();
}
END_TEST

START_TEST(only_the_volume_that_is_asked_for_is_told)
{
	begin();
	put_errors(90, 60);
	options.volume_id = "pvc-1";
	read_errors();
	ck_assert_uint_eq(report.n_findings, 1);
	ck_assert_str_eq(finding_text("findings.0.object"), "volume pvc-1");
	ck_assert_ptr_null(inspect_volume_known(&report, "pvc-2"));
	end();
}
END_TEST

/*
 * kubelet has stopped retrying pvc-1: its error counts if the volume is requested or still staged.
 */
START_TEST(an_old_error_is_a_finding_of_a_volume_that_is_asked_for_or_still_here)
{
	static const struct {
		const char *member;
		bool asked;
		unsigned n;
	} rows[] = {
		{ NULL, false, 0 },      { "published", false, 0 }, { "staged", false, 1 },
		{ "records", false, 1 }, { NULL, true, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin();
		put_errors(100000, 100001);
		options.volume_id = rows[i].asked ? "pvc-1" : NULL;
		read_errors();
		if (rows[i].member)
			json_append(inspect_list(json_sub(inspect_volume(&report, "pvc-1"), "node"),
			                         rows[i].member),
			            json_object());
		inspect_find_old_errors(&report, &options);
		ck_assert_msg(report.n_findings == rows[i].n, "%zu: %u", i, report.n_findings);
		ck_assert_ptr_nonnull(
			json_member(inspect_volume_known(&report, "pvc-1"), "lastError"));
		end();
	}
}
END_TEST

START_TEST(no_file_is_no_finding_and_a_broken_one_is)
{
	begin();
	read_errors();
	ck_assert_uint_eq(report.n_findings, 0);
	put_file("{");
	read_errors();
	ck_assert_uint_eq(report.n_findings, 1);
	ck_assert_ptr_nonnull(strstr(finding_text("findings.0.what"), FAILING_FILE));
	end();
}
END_TEST

SUITE("last_errors", a_volume_that_fails_is_a_finding_with_call_code_text_and_number,
      LOOP(each_error_has_a_next_step, ARRAY_LEN(next_steps)),
      only_the_volume_that_is_asked_for_is_told,
      an_old_error_is_a_finding_of_a_volume_that_is_asked_for_or_still_here,
      no_file_is_no_finding_and_a_broken_one_is);
