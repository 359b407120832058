/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command whose threads may hang in the kernel, in a process of its own: a thread that nothing
 * ends keeps its process, and the one that waits for that process, for as long.
 */
#pragma once

/*
 * The exit status of fn(argc, argv), which runs in a child with the caller's standard files; they
 * are closed when it has returned, and threads of it may still hang. When the child is killed, the
 * caller is killed in the same way. Only for a process that has no threads yet.
 */
int run_apart(int (*fn)(int argc, char *const argv[]), int argc, char *const argv[]);
