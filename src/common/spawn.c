/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs child processes, only by posix_spawn(3), which runs no atfork handlers and copies no address
 * space, so that it is safe with gRPC's threads. A child is watched by a pidfd in the caller's own
 * poll loop. So there is no SIGCHLD, no state shared between callers, and no thread, except for a
 * child that outlives SIGKILL. The only static variables are the tool directory of tests and each
 * thread's pointer to its child's pid. The output of a tool is not interpreted.
 */
#include "common/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/kill_point.h"
#include "common/limits.h"
#include "common/thread.h"

#define NORMAL_PATH "/usr/sbin:/usr/bin:/sbin:/bin"

/* Atomic, because a tool of an earlier test may still be starting. */
static const char *_Atomic extra_path;

static _Thread_local _Atomic pid_t *shown_pid;

void spawn_set_path(const char *dirs)
{
	extra_path = dirs;
}

void spawn_show_pid(_Atomic pid_t *at)
{
	shown_pid = at;
}

static void show_pid(pid_t pid)
{
	if (shown_pid)
		*shown_pid = pid;
}

/*
 * Searches for the program in path_list, because posix_spawnp() would use the PATH of the driver's
 * environment. A name with a slash is used unchanged.
 */
static int find_program(const char *path_list, const char *name, struct str *ret, struct err *err)
{
	if (strchr(name, '/')) {
		str_add(ret, name);
		return 0;
	}
	for (const char *dir = path_list; *dir;) {
		size_t n = strcspn(dir, ":");

		str_reset(ret);
		if (n && str_addn(ret, dir, n) && str_addf(ret, "/%s", name) &&
		    access(ret->ptr, X_OK) == 0)
			return 0;
		dir += n + (dir[n] == ':');
	}
	return err_set(err, ERR_NOT_FOUND, "program %s is not installed (looked in %s)", name,
	               path_list);
}

/* The descriptors of a child, in the driver's numbers. */
struct spawn_fds {
	int out; /* its 1 and 2 */
	int in;  /* its 0; -1: /dev/null */
	int fd;  /* its SPAWN_FD; -1: none */
};

/* The child gets descriptors 0, 1, 2, and with fd >= 0 also SPAWN_FD, and no others. */
static int plan_descriptors(posix_spawn_file_actions_t *plan, const struct spawn_fds *fds)
{
	int out = fds->out, fd = fds->fd;
	int rc = fds->in >= 0 ? posix_spawn_file_actions_adddup2(plan, fds->in, 0)
	                      : posix_spawn_file_actions_addopen(plan, 0, "/dev/null", O_RDONLY, 0);

	if (!rc)
		rc = posix_spawn_file_actions_adddup2(plan, out, 1);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(plan, out, 2);
	if (!rc && fd >= 0)
		rc = posix_spawn_file_actions_adddup2(plan, fd, SPAWN_FD);
	if (!rc)
		rc = posix_spawn_file_actions_addclosefrom_np(plan, fd >= 0 ? SPAWN_FD + 1 : 3);
	return rc;
}

static int plan_signals(posix_spawnattr_t *attr)
{
	sigset_t all, none;
	int rc;

	sigfillset(&all);
	sigemptyset(&none);
	rc = posix_spawnattr_setsigdefault(attr, &all);
	if (!rc)
		rc = posix_spawnattr_setsigmask(attr, &none);
	if (!rc)
		rc = posix_spawnattr_setpgroup(attr, 0);
	if (!rc)
		rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
		                                            POSIX_SPAWN_SETPGROUP);
	return rc;
}

static int spawn_start(const char *program, char **argv, const char *path_list,
                       const struct spawn_fds *fds, pid_t *ret)
{
	struct str path AUTO(str_clear) = STR_INIT(2 * PATH_MAX);
	char *envp[] = { NULL, (char *)"LC_ALL=C", NULL };
	posix_spawn_file_actions_t plan;
	posix_spawnattr_t attr;
	int rc;

	assert(fds->out > SPAWN_FD && (fds->fd < 0 || fds->fd > SPAWN_FD) &&
	       (fds->in < 0 || fds->in > SPAWN_FD));
	str_addf(&path, "PATH=%s", path_list);
	envp[0] = path.ptr;
	posix_spawn_file_actions_init(&plan);
	posix_spawnattr_init(&attr);
	rc = plan_descriptors(&plan, fds);
	if (!rc)
		rc = plan_signals(&attr);
	if (!rc)
		rc = posix_spawn(ret, program, &plan, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&plan);
	return rc;
}

/*
 * Makes the kernel kill the tool, not the driver, when the pod's memory is exhausted: only mkfs and
 * e2fsck of a huge filesystem need that much, and their failure can be reported. If kubelet has set
 * memory.oom.group for the container, this has no effect, because the whole container is killed.
 * For a child that has already ended, the file does not exist and is not needed.
 */
static void offer_to_oom(pid_t pid)
{
	char path[64];
	int fd AUTO(fd) = -1;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		IGNORE_RESULT(write(fd, "1000", strlen("1000")));
}

/*
 * Reads all available output, even if `output` is full, because a full pipe would block the child.
 * Returns false at the end of the output.
 */
static bool spawn_drain(int fd, struct str *output)
{
	char buf[4096];

	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n > 0)
			str_addn(output, buf, (size_t)n); /* drops bytes that do not fit */
		else if (n == 0)
			return false;
		else if (errno != EINTR)
			return errno == EAGAIN;
	}
}

static void wake_fd(void *arg)
{
	uint64_t one = 1;

	/* The write fails only if the eventfd is already readable. */
	IGNORE_RESULT(write(*(int *)arg, &one, sizeof(one)));
}

/* Blocks until the child has ended (returns 0) or the deadline has passed (returns -1 with err). */
static int spawn_watch(int pidfd, int out, int wake, struct deadline d, struct str *output,
                       struct err *err, const char *what)
{
	struct pollfd fds[] = {
		{ .fd = pidfd, .events = POLLIN },
		{ .fd = out, .events = POLLIN },
		{ .fd = wake, .events = POLLIN },
	};

	for (;;) {
		int left = deadline_left_ms(d);
		int n = poll(fds, ARRAY_LEN(fds), left == INT_MAX ? -1 : left);

		if (n < 0 && errno != EINTR)
			return err_sys(err, errno, "%s: poll", what);
		if (fds[1].revents && !spawn_drain(out, output))
			fds[1].fd = -1;
		if (fds[0].revents)
			return 0;
		if (deadline_check(d, err, what))
			return -1;
	}
}

static int killed(const char *name, int signal, struct err *err)
{
	const char *abbreviation = sigabbrev_np(signal);
	const char *hint =
		signal == SIGKILL
			? "; if the kernel did that because it ran out of memory (see its log), the driver's pod needs a higher memory limit"
			: "";

	return err_set(err, ERR_INTERNAL, "%s: killed by signal %d (SIG%s)%s", name, signal,
	               abbreviation ? abbreviation : "?", hint);
}

/*
 * Waits for a child that has received SIGKILL. Returns false if it has not ended within
 * SPAWN_END_MS. Without a pidfd, polls.
 */
static bool ends_soon(pid_t pid, int pidfd)
{
	struct deadline end = deadline_in_ms(SPAWN_END_MS);
	struct pollfd fd = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		pid_t rc = waitpid(pid, NULL, WNOHANG);

		if (rc == pid || (rc < 0 && errno != EINTR))
			return true;
		if (deadline_passed(end))
			return false;
		(void)poll(&fd, 1, pidfd < 0 ? 10 : deadline_left_ms(end));
	}
}

static void reap(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
}

static void *reaper_main(void *pid)
{
	reap((pid_t)(intptr_t)pid, NULL);
	return NULL;
}

/*
 * Starts a thread that reaps a child in an uninterruptible sleep. Without the thread, the child
 * would stay a zombie after its end.
 */
static int leave_to_reaper(pid_t pid, struct err *err)
{
	struct err why = *err;

	IGNORE_RESULT(thread_start(reaper_main, (void *)(intptr_t)pid));
	err_clear(err);
	return err_set(err, why.code,
	               "%s; its process %d was killed, but has not ended: it waits in the kernel "
	               "for its filesystem or device (see /proc/%d/stack)",
	               why.msg, (int)pid, (int)pid);
}

/*
 * Waits for the child and reaps it. If the deadline passes first, its process group is killed, and
 * the wait ends soon after that, even if the child does not end.
 */
static int finish(pid_t pid, int out, int wake, struct deadline d, struct str *output,
                  const char *name, struct err *err)
{
	int pidfd AUTO(fd) = (int)syscall(SYS_pidfd_open, pid, 0);
	int status = 0, rc;

	rc = pidfd < 0 ? err_sys(err, errno, "%s: pidfd_open", name)
	               : spawn_watch(pidfd, out, wake, d, output, err, name);
	if (rc) {
		kill(-pid, SIGKILL);
		return ends_soon(pid, pidfd) ? -1 : leave_to_reaper(pid, err);
	}
	reap(pid, &status);
	/* The tool has ended, so output of the tool's own children is not awaited. */
	(void)spawn_drain(out, output);
	if (WIFSIGNALED(status))
		return killed(name, WTERMSIG(status), err);
	return WEXITSTATUS(status);
}

/*
 * Duplicates the descriptor to a number above SPAWN_FD, because dup2() in the child overwrites 0 to
 * SPAWN_FD.
 */
static int raise_fd(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD + 1);

	close(fd);
	return high;
}

/*
 * Returns the end of a pipe that has the input, or -1. The input fits into an empty pipe, so the
 * write does not block.
 */
static int input_pipe(const struct spawn_input *input)
{
	int from AUTO(fd) = -1, to AUTO(fd) = -1, ends[2];

	assert(input->n <= PIPE_BUF);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	from = ends[0];
	to = ends[1];
	if (write(to, input->data, input->n) != (ssize_t)input->n)
		return -1;
	return raise_fd(TAKE_FD(from));
}

int spawn_run_input(const struct strs *argv, int fd, const struct spawn_input *input,
                    struct deadline d, struct str *output, struct err *err)
{
	struct str path_list AUTO(str_clear) = STR_INIT(PATH_MAX);
	struct str program AUTO(str_clear) = STR_INIT(PATH_MAX);
	struct str ignored AUTO(str_clear) = STR_INIT(LIMIT_SPAWN_OUTPUT);
	const char *extra = extra_path ? extra_path : kill_point_tools();
	int wake AUTO(fd) = -1, in AUTO(fd) = -1, out AUTO(fd) = -1, kept AUTO(fd) = -1;
	int given AUTO(fd) = -1;
	int ends[2], rc;
	pid_t pid;

	assert(argv->n > 0);
	if (deadline_check(d, err, argv->v[0]))
		return -1;
	str_addf(&path_list, "%s%s" NORMAL_PATH, extra ? extra : "", extra ? ":" : "");
	if (find_program(path_list.ptr, argv->v[0], &program, err))
		return -1;
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, errno, "%s: pipe", argv->v[0]);
	in = ends[0];
	out = raise_fd(ends[1]);
	kept = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD + 1) : -1;
	given = input ? input_pipe(input) : -1;
	if (out < 0 || (fd >= 0 && kept < 0) || (input && given < 0) ||
	    fcntl(in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, errno, "%s: pipe", argv->v[0]);

	rc = spawn_start(program.ptr, argv->v, path_list.ptr,
	                 &(const struct spawn_fds) { .out = out, .in = given, .fd = kept }, &pid);
	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start %s", program.ptr);
	show_pid(pid);
	offer_to_oom(pid);
	close(TAKE_FD(out)); /* otherwise the pipe would never reach its end */
	if (cancel_on_set(d.cancel, wake_fd, &wake))
		wake_fd(&wake);
	rc = finish(pid, in, wake, d, output ? output : &ignored, argv->v[0], err);
	show_pid(0);
	(void)cancel_on_set(d.cancel, NULL, NULL);
	return rc;
}

int spawn_run_fd(const struct strs *argv, int fd, struct deadline d, struct str *output,
                 struct err *err)
{
	return spawn_run_input(argv, fd, NULL, d, output, err);
}

int spawn_run(const struct strs *argv, struct deadline d, struct str *output, struct err *err)
{
	return spawn_run_fd(argv, -1, d, output, err);
}

const char *spawn_last_line(struct str *output)
{
	char *end = output->ptr + output->len, *line;

	while (end > output->ptr && strchr(" \t\r\n", end[-1]))
		end--;
	if (output->len > (size_t)(end - output->ptr)) {
		*end = '\0';
		output->len = (size_t)(end - output->ptr);
	}
	line = strrchr(output->ptr, '\n');
	return line ? line + 1 : output->ptr;
}
