/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_fixture.h. Owns the directories and child processes until exit. */
#include "test/lib/rpc_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "test/lib/wait.h"

extern char **environ;

/* Log lines are formatted as in the driver, but shown only with SHOW_LOG in the environment. */
static void ignore_line(void *arg, const char *line)
{
	(void)arg;
	if (getenv("SHOW_LOG"))
		fprintf(stderr, "%s\n", line);
}

/*
 * Children and directories of tests without cleanup: a failing assertion jumps out of the test
 * function.
 */
static pid_t children[16];
static char dirs[16][64];

static void remove_dir(const char *dir)
{
	DIR *d AUTO(closedir) = opendir(dir);

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, "..")) {
			char *path AUTO(free) = xasprintf("%s/%s", dir, e->d_name);

			remove(path);
		}
	rmdir(dir);
}

static void clean_up(void)
{
	for (size_t i = 0; i < ARRAY_LEN(children); i++)
		if (children[i])
			kill(children[i], SIGKILL);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (dirs[i][0])
			remove_dir(dirs[i]);
}

void child_started(pid_t pid)
{
	for (size_t i = 0; i < ARRAY_LEN(children); i++)
		if (!children[i]) {
			children[i] = pid;
			return;
		}
}

static void child_ended(pid_t pid)
{
	for (size_t i = 0; i < ARRAY_LEN(children); i++)
		if (children[i] == pid)
			children[i] = 0;
}

/* Replaces `before` by `now` ("" is a free entry). */
static void remember_dir(const char *before, const char *now)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (str_eq(dirs[i], before)) {
			snprintf(dirs[i], sizeof(dirs[i]), "%s", now);
			return;
		}
}

void rpc_fixture_init(struct rpc_fixture *f)
{
	static bool registered;

	if (!registered)
		registered = atexit(clean_up) == 0;
	log_setup(5, false);
	log_redirect(ignore_line, NULL);
	*f = (struct rpc_fixture) { .options = { .socket_group = (gid_t)-1 } };
	snprintf(f->dir, sizeof(f->dir), "/tmp/rpc-test.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	remember_dir("", f->dir);
	snprintf(f->path, sizeof(f->path), "%s/csi.sock", f->dir);
	f->options.path = f->path;
	stub_init(&f->stub);
}

void rpc_fixture_start(struct rpc_fixture *f)
{
	struct rpc_client_options client = { .path = f->path };
	struct err err = ERR_INIT;

	ck_assert_msg(rpc_server_start(&f->options, f->stub.services, ARRAY_LEN(f->stub.services),
	                               &f->server, &err) == 0,
	              "%s", err.msg);
	f->client = rpc_client_new(&client);
}

void rpc_fixture_clear(struct rpc_fixture *f)
{
	rpc_client_free(f->client);
	rpc_server_stop(f->server, 2000);
	stub_clear(&f->stub);
	remove_dir(f->dir);
	remember_dir(f->dir, "");
}

struct rpc_pending *stage_start(struct rpc_client *c, const char *volume, const char *what,
                                int timeout_ms)
{
	size_t n;
	uint8_t *in AUTO(free) = stub_request(volume, what, &n);

	return rpc_client_start(c, STAGE, in, n, timeout_ms);
}

int stage(struct rpc_client *c, const char *volume, const char *what, int timeout_ms, char *text)
{
	struct rpc_answer answer;
	int code = rpc_pending_wait(stage_start(c, volume, what, timeout_ms), &answer);

	if (text)
		memcpy(text, answer.text, sizeof(answer.text));
	rpc_answer_clear(&answer);
	return code;
}

int probe(struct rpc_client *c, int timeout_ms)
{
	struct rpc_answer answer;
	int code = rpc_client_call_bytes(c, PROBE, NULL, 0, timeout_ms, &answer);

	rpc_answer_clear(&answer);
	return code;
}

bool serves_again(struct rpc_client *c)
{
	struct deadline limit = wait_limit();

	do {
		if (probe(c, 5000) == ERR_OK)
			return true;
	} while (wait_a_moment(limit));
	return false;
}

void sleep_ms(int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

bool reaches(_Atomic int *counter, int n)
{
	struct deadline limit = wait_limit();

	while (*counter < n && wait_a_moment(limit))
		;
	return *counter >= n;
}

pid_t server_spawn(struct rpc_fixture *f, const char *environment, unsigned nofile, int grace_ms)
{
	const char *program = getenv("STUB_SERVER");
	char *command AUTO(free) =
		xasprintf("%s%u; exec env %s \"$0\" \"$1\" \"$2\"", nofile ? "ulimit -n " : ": ",
	                  nofile, environment ? environment : "");
	char *grace AUTO(free) = xasprintf("%d", grace_ms);
	char *const argv[] = { (char *)"sh", (char *)"-c", command, (char *)program,
		               f->path,      grace,        NULL };
	posix_spawn_file_actions_t actions;
	char word[6] = "";
	int out[2];
	pid_t pid;

	ck_assert_msg(program != NULL, "STUB_SERVER is not set");
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	ck_assert_int_eq(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), 0);
	child_started(pid);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	IGNORE_RESULT(read(out[0], word, 5));
	close(out[0]);
	ck_assert_str_eq(word, "ready");
	return pid;
}

int server_wait(pid_t pid)
{
	struct deadline limit = wait_limit();
	int status = -1;

	do {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			child_ended(pid);
			return status;
		}
	} while (wait_a_moment(limit));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	child_ended(pid);
	return -1;
}
