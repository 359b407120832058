/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts child processes; no other code of the driver starts any. Uses posix_spawn(3), because
 * fork(2) is not allowed in a process that runs gRPC.
 *
 * A child gets PATH=/usr/sbin:/usr/bin:/sbin:/bin (after directories that a test has set),
 * LC_ALL=C, stdin from /dev/null, stdout and stderr in one pipe, its own process group, default
 * signals, and no descriptor of the driver except the one given to spawn_run_fd(). Its
 * oom_score_adj is 1000, so when memory is short the kernel kills the child and not the driver; a
 * cgroup with memory.oom.group is still killed as a whole. Any thread.
 */
#pragma once

#include <sys/types.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"

/*
 * Runs argv[0] (looked up in that PATH) and waits for its end. Returns its exit status, 0 to 255,
 * which each tool defines for itself. `output` (may be NULL) receives stdout and stderr; bytes
 * beyond its maximum are dropped. Returns -1 if the child could not be started (NOT_FOUND: no such
 * program), was killed by a signal (INTERNAL), or if its process group was killed because the
 * deadline passed (DEADLINE) or the caller cancelled (CANCELLED). A killed child that is blocked in
 * the kernel does not end at once. In this case the call returns after SPAWN_END_MS, the message
 * has the child's pid, and a thread reaps the child when it has ended.
 */
int spawn_run(const struct strs *argv, struct deadline deadline, struct str *output,
              struct err *err) MUST_CHECK;
/*
 * Like spawn_run(), but the child has `fd` as its descriptor SPAWN_FD. The argument SPAWN_FD_PATH
 * is then the file that the driver holds open, even if that file's path now leads to another file.
 * fd -1: none.
 */
int spawn_run_fd(const struct strs *argv, int fd, struct deadline deadline, struct str *output,
                 struct err *err) MUST_CHECK;
struct spawn_input {
	const void *data;
	size_t n; /* at most PIPE_BUF bytes */
};
/*
 * Like spawn_run_fd(), but the child reads `input` from its standard input (NULL: /dev/null).
 */
int spawn_run_input(const struct strs *argv, int fd, const struct spawn_input *input,
                    struct deadline deadline, struct str *output, struct err *err) MUST_CHECK;
#define SPAWN_END_MS 500
#define SPAWN_FD 3
#define SPAWN_FD_PATH "/proc/self/fd/3"
/*
 * After this call, *at holds the pid of the child that this thread runs; 0 if it runs none. NULL:
 * stops the updates.
 */
void spawn_show_pid(_Atomic pid_t *at);
/*
 * Returns the last non-empty line of a tool's output, for error messages. Removes whitespace at the
 * end of `output`; the result points into `output`.
 */
const char *spawn_last_line(struct str *output);
/*
 * For tests: sets directories that are searched before the normal PATH; NULL: none. Not
 * thread-safe.
 */
void spawn_set_path(const char *dirs);
