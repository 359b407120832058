/* SPDX-License-Identifier: Apache-2.0 */
/* The main loop that every unit test shares: Check's runner and its summary line. */
#include "test/lib/suite.h"

#include <stdlib.h>

/* A case of its own per test, so that CK_RUN_CASE picks one by name. */
static TCase *tcase_of(const TTest *test, double timeout)
{
	TCase *tcase = tcase_create(test->name);

	tcase_set_timeout(tcase, timeout);
	tcase_add_test(tcase, test);
	return tcase;
}

int suite_run(const char *name, double timeout, const TTest *const *tests, size_t n)
{
	Suite *suite = suite_create(name);
	SRunner *runner;
	int failed;

	for (size_t i = 0; i < n; i++)
		suite_add_tcase(suite, tcase_of(tests[i], timeout));
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
