/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command in a subprocess, because its threads may hang in the kernel: such a thread keeps
 * its process, and every process that waits for it, from ending.
 */
#pragma once

/*
 * Returns the exit status of fn(argc, argv), which runs in a child with the caller's standard
 * files. The child closes them when fn has returned, although its threads may still hang. When a
 * signal kills the child, the caller kills itself by the same signal. The caller must not have
 * started a thread.
 */
int run_in_subprocess(int (*fn)(int argc, char *const argv[]), int argc, char *const argv[]);
