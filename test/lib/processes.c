/* SPDX-License-Identifier: Apache-2.0 */
/* See processes.h. Owns the children until processes_run() returns. */
#include "test/lib/processes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"

static void print_failures(SRunner *runner, unsigned number)
{
	int n = srunner_ntests_failed(runner);
	TestResult **failures = srunner_failures(runner);

	for (int i = 0; i < n; i++)
		fprintf(stderr, "process %u: %s:%d: %s\n", number, tr_lfile(failures[i]),
		        tr_lno(failures[i]), tr_msg(failures[i]));
	free(failures);
}

/* The names are passed, since the runner would take them from CK_RUN_CASE and find no test. */
static bool run_alone(const TTest *work, unsigned number)
{
	Suite *suite = suite_create("process");
	TCase *tcase = tcase_create(work->name);
	SRunner *runner;
	bool ok;

	tcase_add_loop_test(tcase, work, (int)number, (int)number + 1);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run(runner, "process", work->name, CK_SILENT);
	print_failures(runner, number);
	ok = srunner_ntests_run(runner) == 1 && srunner_ntests_failed(runner) == 0;
	srunner_free(runner);
	return ok;
}

/*
 * A failed process leaves its cleanup to its atexit() functions. Otherwise a leak checker would
 * report copies inherited from the parent.
 */
static void end(bool ok)
{
	if (ok)
		_exit(EXIT_SUCCESS);
	exit(EXIT_FAILURE);
}

static bool has_ended_well(pid_t pid, unsigned number)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid) {
		perror("waitpid");
		return false;
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "process %u: ended by signal %d\n", number, WTERMSIG(status));
	return status == 0;
}

unsigned processes_run(const TTest *work, unsigned n)
{
	pid_t *children = xcalloc(n, sizeof(*children));
	unsigned failed = 0;

	fflush(stdout); /* otherwise each child would print the unwritten output */
	for (unsigned i = 0; i < n; i++) {
		children[i] = fork();
		if (children[i] == 0)
			end(run_alone(work, i));
		if (children[i] < 0)
			perror("fork");
	}
	for (unsigned i = 0; i < n; i++)
		failed += children[i] < 0 || !has_ended_well(children[i], i);
	free(children);
	return failed;
}
