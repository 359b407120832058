/* SPDX-License-Identifier: Apache-2.0 */
/* One suite, one case, one program: SUITE("json", test_a, test_b) is its main(). */
#pragma once

#include <check.h>
#include <stddef.h>

/*
 * Runs the tests, each with `timeout` seconds (0: Check's default), prints Check's summary; the
 * exit code of main.
 */
int suite_run(const char *name, double timeout, const TTest *const *tests, size_t n);

#define SUITE_TIMEOUT(name, timeout, ...)                                                      \
	int main(void)                                                                         \
	{                                                                                      \
		const TTest *const tests_[] = { __VA_ARGS__ };                                 \
		return suite_run((name), (timeout), tests_, sizeof(tests_) / sizeof(*tests_)); \
	}                                                                                      \
	struct suite_semicolon_
#define SUITE(name, ...) SUITE_TIMEOUT(name, 30, __VA_ARGS__)

/* ck_assert_str_eq with the row it belongs to. */
#define ROW_STR_EQ(what, got, want)                                                             \
	ck_assert_msg(strcmp((got), (want)) == 0, "%s: got \"%s\", want \"%s\"", (what), (got), \
	              (want))
