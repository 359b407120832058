/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a test program: SUITE("json", test_a, LOOP(test_b, ARRAY_LEN(rows))). Each test is
 * a case of Check with its own name, so that CK_RUN_CASE=test_a runs only that one. A name that no
 * test has is a failure.
 */
#pragma once

#include <check.h>
#include <stddef.h>

#include "common/cleanup.h" /* ARRAY_LEN() */

struct suite {
	const char *name;
	/*
	 * Seconds that are ample for each test (each row of a loop) on an idle machine, without a
	 * sanitizer. suite.c multiplies them: the limit ends a test that hangs, never a slow one.
	 */
	double timeout;
	/*
	 * Both are optional and run in the process that starts the tests, not in a test. `before`
	 * sees the arguments of main(); anything but 0 is a failure, and no test runs. `after` runs
	 * if `before` returned 0, even if tests have failed.
	 */
	int (*before)(int argc, char **argv);
	void (*after)(void);
};

/* Runs the n tests and prints Check's summary. Returns what main() returns. */
int suite_main(const struct suite *suite, const TTest *const *tests, size_t n, int argc,
               char **argv);

/* Runs a test of the list n times, with 0 to n - 1 in its variable _i. Returns the test. */
const TTest *suite_loop(const TTest *test, size_t n);
#define LOOP(test, n) suite_loop((test), (n))

#define SUITE_AROUND(name_, timeout_, before_, after_, ...)                        \
	int main(int argc, char **argv)                                            \
	{                                                                          \
		const struct suite suite_ = { .name = (name_),                     \
			                      .timeout = (timeout_),               \
			                      .before = (before_),                 \
			                      .after = (after_) };                 \
		const TTest *const tests_[] = { __VA_ARGS__ };                     \
		return suite_main(&suite_, tests_, ARRAY_LEN(tests_), argc, argv); \
	}                                                                          \
	struct suite_semicolon_
#define SUITE_TIMEOUT(name, timeout, ...) SUITE_AROUND(name, timeout, NULL, NULL, __VA_ARGS__)
#define SUITE(name, ...) SUITE_TIMEOUT(name, 30, __VA_ARGS__)

/* ck_assert_str_eq with the row it belongs to. */
#define ROW_STR_EQ(what, got, want)                                                             \
	ck_assert_msg(strcmp((got), (want)) == 0, "%s: got \"%s\", want \"%s\"", (what), (got), \
	              (want))
