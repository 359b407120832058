/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a test. One that has been let go needs a moment to end, and no sleep is sure to be
 * as long.
 */
#pragma once

/* How many threads this process has. */
unsigned threads_running(void);

/* Waits until there are no more than n; fails the test when that takes 20 s. */
void threads_await(unsigned n);
