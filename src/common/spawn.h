/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes: the only place of the driver that starts one (posix_spawn; fork is not
 * allowed in a process that runs gRPC).
 *
 * A child gets PATH=/usr/sbin:/usr/bin:/sbin:/bin (behind the directories that a test has set),
 * LC_ALL=C, stdin from /dev/null, stdout and stderr in one pipe, its own process group, default
 * signals, oom_score_adj 1000 (when memory is short the kernel chooses it, not the driver; a cgroup
 * with memory.oom.group ends as a whole all the same), and no descriptor of the driver except the
 * one given to spawn_run_fd(). Any thread.
 */
#pragma once

#include <sys/types.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"

/*
 * Runs argv[0] (looked up in that PATH) and waits for its end. Returns its exit status, 0 to 255:
 * each tool gives the numbers a meaning of its own, so the caller names them. `output` (may be
 * NULL) gets what it printed to both streams; what exceeds the maximum of `output` is dropped. -1:
 * it could not be started (NOT_FOUND: no such program), was killed by a signal (INTERNAL), or its
 * process group was killed because the deadline passed (DEADLINE) or the caller cancelled
 * (CANCELLED). A child that waits in the kernel does not end then: after SPAWN_END_MS the call
 * returns, the text has the child's pid, and a thread reaps the child when it has ended.
 */
int spawn_run(const struct strs *argv, struct deadline deadline, struct str *output,
              struct err *err) MUST_CHECK;
/*
 * The same; the child has `fd` as its descriptor SPAWN_FD. The argument SPAWN_FD_PATH is then the
 * file that the driver holds open, even when its name leads to another one by now. fd -1: none.
 */
int spawn_run_fd(const struct strs *argv, int fd, struct deadline deadline, struct str *output,
                 struct err *err) MUST_CHECK;
#define SPAWN_END_MS 500
#define SPAWN_FD 3
#define SPAWN_FD_PATH "/proc/self/fd/3"
/*
 * From now on the pid of the child that this thread runs is to be seen there, 0 when it runs none.
 * NULL: nowhere.
 */
void spawn_show_pid(_Atomic pid_t *at);
/*
 * Last non-empty line of a tool's output, for error texts. Points into `output`, from whose end
 * white space is removed.
 */
const char *spawn_last_line(struct str *output);
/* Tests: directories searched before the normal PATH; NULL = none. Not thread-safe. */
void spawn_set_path(const char *dirs);
