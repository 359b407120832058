/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of all tests: this program is started again with names in CK_RUN_CASE. */
#include "test/lib/suite.h"

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

/* Runs this program with the name; returns its exit status and the start of its output. */
static int run_case(const char *name, char *output, size_t size)
{
	char exe[512], command[1024];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	FILE *pipe;
	int status;

	ck_assert(n > 0);
	exe[n] = '\0';
	snprintf(command, sizeof(command), "CK_RUN_CASE='%s' '%s' 2>&1", name, exe);
	pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	output[fread(output, 1, size - 1, pipe)] = '\0';
	status = pclose(pipe);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
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

SUITE("suite", LOOP(one_of_a_loop, 3), single, a_name_selects_one_test_with_all_its_rows,
      a_name_that_no_test_has_fails_and_the_names_are_told);
