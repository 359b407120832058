/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share a test's work. A child of fork() must not share Check with its parent: both
 * write into one file, and with CK_FORK=no a failing assertion jumps into the child's copy of the
 * runner, which reads that file while others write it ("Bad message type arg 8564", and no trace of
 * the failure). Here each has its own runner.
 */
#pragma once

#include <check.h>

/*
 * Runs `work` (a START_TEST() that is not in SUITE()) in n processes at once, with 0 to n - 1 in
 * its variable _i, and waits for all of them. If an assertion fails, its text goes to stderr, and
 * that process ends by exit(). Returns the number of processes that failed or could not be started.
 * From a test's thread, while no other thread runs.
 */
unsigned processes_run(const TTest *work, unsigned n);
