/* SPDX-License-Identifier: Apache-2.0 */
/* A command that leaves a thread hanging in the kernel ends, and so does its output. */
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/deadline.h"
#include "inspect/subprocess.h"
#include "test/lib/skip.h"

static char dir[64];
static int server = -1;
static pid_t server_pid;

/* Reads each request, and answers only the first: a waiting thread cannot be killed. */
static _Noreturn void swallow(void)
{
	static char request[1 << 20];
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} reply = { { sizeof(reply), 0, 0 },
		    { .major = 7, .minor = 31, .max_readahead = 65536, .max_write = 65536 } };

	if (read(server, request, sizeof(request)) <= 0)
		_exit(1);
	reply.head.unique = ((struct fuse_in_header *)request)->unique;
	if (write(server, &reply, sizeof(reply)) != sizeof(reply))
		_exit(1);
	while (read(server, request, sizeof(request)) > 0)
		;
	_exit(0);
}

static void begin(void)
{
	char options[100];

	snprintf(dir, sizeof(dir), "/tmp/test_subprocess.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(server, 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", server);
	ck_assert_int_eq(mount("hung", dir, "fuse", MS_NOSUID | MS_NODEV, options), 0);
	server_pid = fork();
	if (server_pid == 0)
		swallow();
	close(server);
}

static void end(void)
{
	kill(server_pid, SIGKILL);
	waitpid(server_pid, NULL, 0);
	ck_assert_int_eq(umount2(dir, MNT_FORCE | MNT_DETACH), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}

static void *hang(void *arg)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/file", dir);
	access(path, F_OK);
	return arg;
}

static int leaves_a_thread(int argc, char *const argv[])
{
	pthread_t thread;

	(void)argv;
	ck_assert_int_eq(pthread_create(&thread, NULL, hang, NULL), 0);
	usleep(300000);
	puts("said");
	return argc;
}

static int is_killed(int argc, char *const argv[])
{
	(void)argv;
	raise(SIGUSR1);
	return argc;
}

/* Runs it in a separate process; returns its wait status, -1: it has not ended in time. */
static int run(int (*fn)(int argc, char *const argv[]), char *said, size_t n)
{
	struct deadline limit = wait_limit();
	int ends[2], status = -1;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(0);
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		_exit(run_in_subprocess(fn, 7, NULL));
	}
	close(ends[1]);
	while (waitpid(pid, &status, WNOHANG) == 0 && wait_a_moment(limit))
		;
	memset(said, 0, n);
	ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_ge(read(ends[0], said, n - 1), 0);
	if (status >= 0) /* the end of the output, not just a pause in it */
		ck_assert_int_eq(read(ends[0], said + strlen(said), 1), 0);
	close(ends[0]);
	return status;
}

START_TEST(it_ends_although_one_of_its_threads_does_not)
{
	char said[20];
	int status;

	SKIP_UNLESS_FUSE();
	begin();
	status = run(leaves_a_thread, said, sizeof(said));
	end();
	ck_assert_int_ne(status, -1);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
	ck_assert_str_eq(said, "said\n");
}
END_TEST

START_TEST(it_is_killed_as_its_child_was)
{
	char said[20];
	int status = run(is_killed, said, sizeof(said));

	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGUSR1);
}
END_TEST

SUITE("subprocess", it_ends_although_one_of_its_threads_does_not, it_is_killed_as_its_child_was);
