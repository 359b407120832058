/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check's runner behind SUITE(), the main() of all test programs. Owns the list of loops.
 * SKIP_TESTS in the environment names tests, or single rows of them (TEST#2), that are skipped,
 * separated by spaces: run-suites.sh sets it.
 */
#include "test/lib/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sanitizer.h"

/* The arguments of LOOP() in the list of tests. All other tests run once. */
static struct {
	const TTest *test;
	int n;
} loops[32];
static size_t n_loops;

const TTest *suite_loop(const TTest *test, size_t n)
{
	if (n_loops == ARRAY_LEN(loops)) {
		fprintf(stderr, "%s: more loops than test/lib/suite.c has room for\n", test->name);
		exit(EXIT_FAILURE);
	}
	loops[n_loops].test = test;
	loops[n_loops++].n = (int)n;
	return test;
}

static int rows_of(const TTest *test)
{
	for (size_t i = 0; i < n_loops; i++) {
		if (loops[i].test == test)
			return loops[i].n;
	}
	return 1;
}

/*
 * For a machine with ten times as many busy threads as processors. Check's own
 * CK_TIMEOUT_MULTIPLIER multiplies it further (test/cross/run.sh).
 */
#define LOAD_FACTOR 4
#define SANITIZER_FACTOR (SANITIZED ? 4 : 1)

static bool is_word_of(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n) {
		if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	}
	return false;
}

static size_t words(const char *list)
{
	size_t n = 0;

	for (; *list; list += strcspn(list, " ")) {
		list += strspn(list, " ");
		n += *list != '\0';
	}
	return n;
}

/* NULL if the whole test is skipped. Adds the number of skipped tests and rows to *skipped. */
static TCase *tcase_of(const TTest *test, double timeout, const char *skip, size_t *skipped)
{
	TCase *tcase;
	char row[200];

	if (is_word_of(skip, test->name)) {
		++*skipped;
		return NULL;
	}
	tcase = tcase_create(test->name);
	tcase_set_timeout(tcase, timeout * LOAD_FACTOR * SANITIZER_FACTOR);
	for (int i = 0; i < rows_of(test); i++) {
		snprintf(row, sizeof(row), "%s#%d", test->name, i);
		if (is_word_of(skip, row))
			++*skipped;
		else
			tcase_add_loop_test(tcase, test, i, i + 1);
	}
	return tcase;
}

/* Without this a misspelt name in CK_RUN_CASE would pass with 0 checks. */
static int check_that_some_ran(const char *name, const TTest *const *tests, size_t n, int n_run)
{
	if (n_run)
		return 0;
	printf("%s: no test ran; CK_RUN_CASE takes one of:\n", name);
	for (size_t i = 0; i < n; i++)
		printf("  %s\n", tests[i]->name);
	return -1;
}

static int run_tests(const struct suite *suite, const TTest *const *tests, size_t n)
{
	Suite *cases = suite_create(suite->name);
	const char *skip = getenv("SKIP_TESTS") ? getenv("SKIP_TESTS") : "";
	size_t skipped = 0;
	SRunner *runner;
	int failed;

	for (size_t i = 0; i < n; i++) {
		TCase *tcase = tcase_of(tests[i], suite->timeout, skip, &skipped);

		if (tcase)
			suite_add_tcase(cases, tcase);
	}
	runner = srunner_create(cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	if (skipped < words(skip)) {
		printf("%s: of \"%s\" only %zu are its tests\n", suite->name, skip, skipped);
		failed = 1;
	}
	if (check_that_some_ran(suite->name, tests, n, srunner_ntests_run(runner) + (int)skipped))
		failed = 1;
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int suite_main(const struct suite *suite, const TTest *const *tests, size_t n, int argc,
               char **argv)
{
	int rc;

	if (suite->before && suite->before(argc, argv)) {
		fprintf(stderr, "%s: what the tests need could not be made\n", suite->name);
		return EXIT_FAILURE;
	}
	rc = run_tests(suite, tests, n);
	if (suite->after)
		suite->after();
	return rc;
}
