/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of all tests: this program is started again with names in CK_RUN_CASE. */
#include "test/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(one_of_a_loop)
{
	ck_assert_int_lt(_i, 3);
}
END_TEST

START_TEST(single)
{
	ck_assert_int_eq(_i, 0);
}
END_TEST

/* Runs this program with the names; returns its exit status and the start of its output. */
static int run_with(const char *run, const char *skip, char *output, size_t size)
{
	char command[1024];
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "CK_RUN_CASE='%s' SKIP_TESTS='%s' '%s' 2>&1", run, skip,
	         program_invocation_name);
	pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	output[fread(output, 1, size - 1, pipe)] = '\0';
	status = pclose(pipe);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int run_case(const char *name, char *output, size_t size)
{
	return run_with(name, "", output, size);
}

START_TEST(a_name_selects_one_test_with_all_its_rows)
{
	static const struct {
		const char *name, *summary;
	} rows[] = {
		{ "one_of_a_loop", "Checks: 3, Failures: 0" },
		{ "single", "Checks: 1, Failures: 0" },
	};
	char output[4096];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ck_assert_int_eq(run_case(rows[i].name, output, sizeof(output)), 0);
		ck_assert_msg(strstr(output, rows[i].summary) != NULL, "%s: %s", rows[i].name,
		              output);
	}
}
END_TEST

START_TEST(a_name_that_no_test_has_fails_and_the_names_are_told)
{
	char output[4096];

	ck_assert_int_eq(run_case("singel", output, sizeof(output)), 1);
	ck_assert_msg(strstr(output, "no test ran") && strstr(output, "\n  single\n"), "%s",
	              output);
}
END_TEST

START_TEST(names_of_tests_that_are_skipped)
{
	static const struct {
		const char *run, *skip, *said;
		int status;
	} rows[] = {
		{ "single", "one_of_a_loop", "Checks: 1, Failures: 0", 0 },
		{ "one_of_a_loop", "one_of_a_loop#1 one_of_a_loop#0", "Checks: 1, Failures: 0", 0 },
		{ "one_of_a_loop", "one_of_a_loop#3", "only 0 are its tests", 1 },
		{ "single", "one_of", "only 0 are its tests", 1 },
		{ "single", "  single  one_of_a_loop ", "Checks: 0, Failures: 0", 0 },
		{ "single", "one_of_a_loop gone", "only 1 are its tests", 1 },
	};
	char output[4096];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int status = run_with(rows[i].run, rows[i].skip, output, sizeof(output));

		ck_assert_msg(status == rows[i].status && strstr(output, rows[i].said), "%s: %s",
		              rows[i].skip, output);
	}
}
END_TEST

SUITE("suite", LOOP(one_of_a_loop, 3), single, a_name_selects_one_test_with_all_its_rows,
      a_name_that_no_test_has_fails_and_the_names_are_told, names_of_tests_that_are_skipped);
