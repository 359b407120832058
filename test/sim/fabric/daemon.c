/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends snap-share. Ends only processes whose command line shows that they are ours. */
#include "test/sim/fabric/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/str.h"

#define PROGRAM "snap-share"
#define START_MS 10000
#define END_MS 10000
#define COMMAND_MAX 8192

extern char **environ;

/* In the folder of this program, or in one above it, where the test programs have it. */
static char *find_program(struct err *err)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	for (char *slash = strrchr(exe, '/'); slash; slash = strrchr(exe, '/')) {
		char *program = NULL;

		*slash = '\0';
		program = xasprintf("%s/" PROGRAM, exe);
		if (path_exists(program))
			return program;
		free(program);
	}
	err_set(err, ERR_NOT_FOUND,
	        "a virtio-fs device needs " PROGRAM " beside snap-sim: make it with make sim");
	return NULL;
}

/* It leads its own process group, so that Ctrl-C ends snap-sim first. */
static int spawn(const char *const *argv, int out, pid_t *ret, struct err *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
	                                              POSIX_SPAWN_SETPGROUP);
	rc = posix_spawn(ret, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
	                 environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return rc ? err_sys(err, rc, "start %s", argv[0]) : 0;
}

/* It prints one line when mounted; if it cannot mount, it ends without a line. */
static bool is_mounted(int out)
{
	struct pollfd p = { .fd = out, .events = POLLIN };
	char line[16];

	return poll(&p, 1, START_MS) == 1 && read(out, line, sizeof(line)) > 0;
}

static int start(struct daemon *d, const char *tag, const char *folder, struct err *err)
{
	char *program AUTO(free) = find_program(err);
	const char *const argv[] = { program, "--tag", tag, folder, d->at, NULL };
	char *pid AUTO(free) = NULL;
	int out[2];
	bool mounted = false;

	if (!program)
		return -1;
	if (pipe2(out, O_CLOEXEC))
		return err_sys(err, errno, "make a pipe");
	if (spawn(argv, out[1], &d->pid, err) == 0) {
		close(TAKE_FD(out[1]));
		mounted = is_mounted(out[0]);
		if (!mounted)
			err_set(err, ERR_INTERNAL, PROGRAM " does not serve %s at %s", folder,
			        d->at);
	}
	close(out[0]);
	if (out[1] >= 0)
		close(out[1]);
	pid = xasprintf("%d\n", (int)d->pid);
	return mounted ? file_replace(d->pid_file, pid, strlen(pid), 0644, err) : -1;
}

int daemon_start(struct daemon *d, const char *root, const char *tag, const char *folder,
                 struct err *err)
{
	char *tags AUTO(free) = xasprintf("%s/tags", root);
	char *ids AUTO(free) = xasprintf("%s/daemons", root);

	*d = (struct daemon) { .at = xasprintf("%s/%s", tags, tag),
		               .pid_file = xasprintf("%s/%s", ids, tag) };
	if (dir_make(folder, 0755, err) || dir_make(d->at, 0755, err) || dir_make(ids, 0755, err) ||
	    start(d, tag, folder, err)) {
		daemon_end(d);
		return -1;
	}
	return 0;
}

int daemon_signal(struct daemon *d, int number, struct err *err)
{
	if (!d->pid)
		return err_set(err, ERR_PRECONDITION, "no daemon runs for this share");
	kill(d->pid, number);
	if (number != SIGKILL)
		return 0;
	waitpid(d->pid, NULL, 0);
	d->pid = 0;
	return file_remove(d->pid_file, err);
}

/* Only our daemons ever mount there; a killed daemon leaves a dead mount. */
static void unmount(const char *at)
{
	while (umount2(at, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		;
}

void daemon_end(struct daemon *d)
{
	struct err ignored = ERR_INIT;

	if (d->pid) {
		kill(d->pid, SIGTERM);
		kill(d->pid, SIGCONT);
		waitpid(d->pid, NULL, 0);
		d->pid = 0;
	}
	if (!d->at)
		return;
	unmount(d->at);
	rmdir(d->at);
	IGNORE_RESULT(file_remove(d->pid_file, &ignored));
	free(TAKE(d->at));
	free(TAKE(d->pid_file));
}

/* ---- what a killed snap-sim has left ---- */

/* Whether the process is the daemon of this mountpoint: its last argument says so. */
static bool is_ours(pid_t pid, const char *at)
{
	char *path AUTO(free) = xasprintf("/proc/%d/cmdline", (int)pid);
	char *command AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	size_t n = 0, length = strlen(at);

	if (file_read(path, COMMAND_MAX, &command, &n, &ignored))
		return false;
	return strstr(command, PROGRAM) && n > length + 1 && command[n - length - 2] == '\0' &&
	       memcmp(command + n - length - 1, at, length) == 0;
}

static void end_left(const char *pid_file, const char *at)
{
	struct deadline end = deadline_in_ms(END_MS);
	struct timespec moment = { .tv_nsec = 1000000 };
	char *text AUTO(free) = NULL;
	struct err ignored = ERR_INIT;
	uint64_t pid = 0;

	if (file_read_line(pid_file, 64, &text, &ignored) ||
	    parse_u64("pid", text, &pid, &ignored) || pid < 2 || pid > INT32_MAX ||
	    !is_ours((pid_t)pid, at))
		return;
	kill((pid_t)pid, SIGKILL);
	while (is_ours((pid_t)pid, at) && !deadline_passed(end))
		nanosleep(&moment, NULL);
}

/* For each name in a folder below a node's root. */
static void tidy_folder(const char *root, const char *folder, bool ids)
{
	char *path AUTO(free) = xasprintf("%s/%s", root, folder);
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (!path_exists(path) || dir_list(path, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char *at AUTO(free) = xasprintf("%s/tags/%s", root, names.v[i]);
		char *pid_file AUTO(free) = xasprintf("%s/daemons/%s", root, names.v[i]);

		if (ids)
			end_left(pid_file, at);
		else
			unmount(at);
	}
}

void daemon_tidy(const char *state)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err ignored = ERR_INIT;

	if (dir_list(state, &names, &ignored))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char *root AUTO(free) = xasprintf("%s/%s", state, names.v[i]);

		tidy_folder(root, "daemons", true);
		tidy_folder(root, "tags", false);
	}
}
