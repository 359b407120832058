/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command in a subprocess, because the command's threads may hang in the kernel. Such a
 * thread prevents its process, and every process that waits for that process, from ending.
 */
#pragma once

/*
 * Returns the exit status of fn(argc, argv), which runs in a child with the caller's standard
 * files. The child closes these files when fn has returned, even if its threads still hang. If a
 * signal kills the child, the caller kills itself with the same signal. The caller must not have
 * started a thread.
 */
int run_in_subprocess(int (*fn)(int argc, char *const argv[]), int argc, char *const argv[]);
