/* SPDX-License-Identifier: Apache-2.0 */
/* See share.h. Owns the pipe to mount-helper.sh, which ends when this program does. */
#include "test/lib/share.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

#define HELPER "test/lib/share/mount-helper.sh"

static struct {
	pid_t pid;
	int in; /* its stdin: it ends when this closes */
} helper = { .in = -1 };

/* snap-share of the build folder that this program is in; malloc'ed. */
static char *share_program(void)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	for (const char *at = exe; (at = strstr(at, "/test/")); at++) {
		char *program AUTO(free) = xasprintf("%.*s/snap-share", (int)(at - exe), exe);

		if (path_exists(program))
			return TAKE(program);
	}
	ck_abort_msg("there is no snap-share beside %s", exe);
}

/* *ret_out is the read end of its output, *ret_in (or NULL) the write end of its input. */
static pid_t run(const char *const *argv, int *ret_out, int *ret_in, bool dies_with_us)
{
	int out[2], in[2] = { -1, -1 };
	pid_t parent = getpid(), pid;

	if (pipe2(out, O_CLOEXEC) || (ret_in && pipe2(in, O_CLOEXEC)))
		abort(); /* Check's own assertions work only in a running test */
	pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0) {
		if (dies_with_us && (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent))
			_exit(127);
		if (dup2(out[1], 1) < 0 || (ret_in && dup2(in[0], 0) < 0))
			_exit(127);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(out[1]);
	*ret_out = out[0];
	if (ret_in) {
		close(in[0]);
		*ret_in = in[1];
	}
	return pid;
}

/* Waits for the line that reports readiness; false if it ended without it. */
static bool says(int fd, const char *word)
{
	char text[64] = "";
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(text) - 1 && !strchr(text, '\n') &&
	       (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[strcspn(text, "\n")] = '\0';
	return str_eq(text, word);
}

void share_start(struct share *s, const char *tag, const char *folder, const char *mountpoint)
{
	char *program AUTO(free) = share_program();
	const char *const argv[] = { program, "--tag", tag, folder, mountpoint, NULL };
	struct err err = ERR_INIT;
	int out AUTO(fd) = -1;

	ck_assert_msg(dir_make(mountpoint, 0755, &err) == 0, "%s", err.msg);
	*s = (struct share) { .mountpoint = xstrdup(mountpoint) };
	s->pid = run(argv, &out, NULL, true);
	ck_assert_msg(says(out, "mounted"), "%s does not serve tag %s at %s", program, tag,
	              mountpoint);
}

void share_signal(struct share *s, int number)
{
	ck_assert_int_eq(kill(s->pid, number), 0);
	if (number == SIGSTOP || number == SIGCONT)
		s->stopped = number == SIGSTOP;
	if (number != SIGKILL)
		return;
	ck_assert_int_eq(waitpid(s->pid, NULL, 0), s->pid);
	s->pid = 0;
}

void share_end(struct share *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		/* Only after that: while the leak checker examines the daemon, it stops both. */
		if (s->stopped)
			kill(s->pid, SIGCONT);
		waitpid(s->pid, NULL, 0);
		s->pid = 0;
	}
	if (s->mountpoint)
		umount2(s->mountpoint, MNT_DETACH); /* it was killed */
	free(TAKE(s->mountpoint));
}

int mount_helper_install(int argc, char **argv)
{
	const char *const command[] = { HELPER, NULL };
	int out AUTO(fd) = -1;

	(void)argc;
	(void)argv;
	if (geteuid() != 0 || helper.pid > 0)
		return 0;
	helper.pid = run(command, &out, &helper.in, false);
	if (says(out, "installed"))
		return 0;
	fprintf(stderr, HELPER " has not installed mount.snapsim\n");
	mount_helper_remove();
	return 1;
}

void mount_helper_remove(void)
{
	if (helper.pid <= 0)
		return;
	close(TAKE_FD(helper.in));
	waitpid(helper.pid, NULL, 0);
	helper.pid = 0;
}

void mount_helper_tags(const char *folder)
{
	ck_assert_int_eq(setenv("SNAP_SIM_TAGS", folder, 1), 0);
}
