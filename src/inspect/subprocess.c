/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child writes its exit status to a pipe; after that, the parent does not wait for a child that
 * does not end. The child is killed when its parent ends. This file uses _Fork() instead of
 * spawn.h, because the child is this program and needs the caller's memory. This is safe, because
 * there are no threads and no gRPC yet.
 */
#include "inspect/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define REAP_MS 200

static _Noreturn void subprocess_child(int (*fn)(int argc, char *const argv[]), int argc,
                                       char *const argv[], int out)
{
	unsigned char status = (unsigned char)fn(argc, argv);

	fflush(NULL);
	/*
	 * A hung thread would keep these files open, and their readers would wait for the end of
	 * the data.
	 */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	IGNORE_RESULT(write(out, &status, 1));
	_exit(status);
}

/* A child that does not end is left to the process that adopts orphans. */
static void subprocess_reap(pid_t pid)
{
	for (int i = 0; i < REAP_MS && waitpid(pid, NULL, WNOHANG) == 0; i++)
		usleep(1000);
}

static int subprocess_end_as(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int run_in_subprocess(int (*fn)(int argc, char *const argv[]), int argc, char *const argv[])
{
	unsigned char status;
	pid_t parent = getpid(), pid;
	int ends[2];
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fn(argc, argv);
	pid = _Fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != parent)
			_exit(EXIT_FAILURE);
		subprocess_child(fn, argc, argv, ends[1]);
	}
	close(ends[1]);
	do
		n = pid < 0 ? 0 : read(ends[0], &status, 1);
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (pid < 0)
		return fn(argc, argv);
	if (n != 1)
		return subprocess_end_as(pid);
	subprocess_reap(pid);
	return status;
}
