/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener without gRPC: the connections that it passes on, and its data about them. (Names,
 * modes and refusals: test/rpc/test_socket.c.)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "rpc/listener.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

/* The connection preface and an empty SETTINGS. */
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
static const char preface[] = PREFACE SETTINGS;
#define PREFACE_LEN (sizeof(preface) - 1)

struct taker {
	char dir[40], path[64];
	struct listener *listener;
	atomic_int n;
	int fds[32];
};

/* a thread that holds it blocks the listener's thread */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

static void take(void *arg, int fd)
{
	struct taker *t = arg;

	t->fds[t->n] = fd;
	t->n++;
	WITH_LOCK(&busy);
}

static int unread_ms = 20000;
static _Atomic bool warned; /* about a connection that was refused */

static void look_at_line(void *arg, const char *line)
{
	(void)arg;
	if (strstr(line, "refused a connection"))
		warned = true;
}

static void taker_start_with(struct taker *t, mode_t mode, unsigned max, unsigned own_places)
{
	struct listener_options options = { .path = t->path,
		                            .mode = mode,
		                            .group = (gid_t)-1,
		                            .max_connections = max,
		                            .own_places = own_places,
		                            .preface_timeout_ms = 300,
		                            .ack_timeout_ms = 10000,
		                            .unread_timeout_ms = unread_ms,
		                            .connected = take,
		                            .arg = t };
	struct err err = ERR_INIT;

	warned = false;
	log_redirect(look_at_line, NULL);
	*t = (struct taker) { .n = 0 };
	snprintf(t->dir, sizeof(t->dir), "/tmp/listener-test.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(t->dir));
	snprintf(t->path, sizeof(t->path), "%s/s", t->dir);
	ck_assert_msg(listener_new(&options, &t->listener, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(listener_run(t->listener, &err), 0);
}

static void taker_start(struct taker *t, unsigned max)
{
	taker_start_with(t, 0600, max, 0);
}

static void taker_stop(struct taker *t)
{
	for (int i = 0; i < t->n; i++)
		close(t->fds[i]);
	t->listener = listener_free(t->listener);
	ck_assert_ptr_null(t->listener);
	ck_assert_int_eq(rmdir(t->dir), 0); /* it is empty */
}

static int connect_to_n(const struct taker *t, const char *words, size_t n)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, t->path, sizeof(t->path));
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	if (n)
		ck_assert_int_eq(send(fd, words, n, MSG_NOSIGNAL), (ssize_t)n);
	return fd;
}

static int connect_to(const struct taker *t, const char *words)
{
	return connect_to_n(t, words, strlen(words));
}

/* Like an HTTP/2 client. */
static int connect_client(const struct taker *t)
{
	return connect_to_n(t, preface, PREFACE_LEN);
}

static bool taken(struct taker *t, int n)
{

	WAIT_UNTIL(t->n >= n);
	return t->n >= n;
}

START_TEST(a_connection_is_handed_over_with_all_it_said)
{
	/* A PING, which is relayed, */
	static const char ping[] = "\0\0\10\6\0\0\0\0\0abcdefgh";
	struct taker t;
	char said[100] = "";
	int fd;

	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert_int_eq(send(fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL), sizeof(ping) - 1);
	ck_assert(taken(&t, 1));
	for (size_t n = 0; n < PREFACE_LEN + sizeof(ping) - 1;) {
		ssize_t k = recv(t.fds[0], said + n, sizeof(said) - n, 0);

		ck_assert(k > 0 || errno == EAGAIN);
		n += k > 0 ? (size_t)k : 0;
	}
	ck_assert_mem_eq(said, preface, PREFACE_LEN);
	ck_assert_mem_eq(said + PREFACE_LEN, ping, sizeof(ping) - 1);
	/* and gRPC's bytes, too. */
	ck_assert_int_eq(send(t.fds[0], ping, 3, MSG_NOSIGNAL), 3);
	ck_assert_int_eq(recv(fd, said, 3, MSG_WAITALL), 3);
	ck_assert_int_eq(listener_peer_pid(t.listener, t.fds[0]), getpid());
	ck_assert_int_eq(listener_peer_pid(t.listener, 12345), 0);
	close(fd);
	taker_stop(&t);
}
END_TEST

START_TEST(the_last_answer_arrives_though_grpc_has_gone)
{
	static char answer[400 * 1024], got[sizeof(answer)];
	struct taker t;
	size_t sent = 0, n = 0;
	ssize_t k;
	int fd;

	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert(taken(&t, 1));
	memset(answer, 0x77, sizeof(answer));
	/* As much as the socket pair accepts, which is more than the client's socket does. */
	while (sent < sizeof(answer) &&
	       (k = send(t.fds[0], answer + sent, sizeof(answer) - sent, MSG_NOSIGNAL)) > 0)
		sent += (size_t)k;
	ck_assert_uint_gt(sent, 100000);
	close(t.fds[0]);
	t.n = 0;
	while ((k = recv(fd, got + n, sizeof(got) - n, 0)) > 0)
		n += (size_t)k;
	ck_assert_uint_eq(n, sent);
	ck_assert_mem_eq(got, answer, sent);
	close(fd);
	taker_stop(&t);
}
END_TEST

/* Sends answers until the listener has closed its end (EPIPE), for at least 15 s. */
static bool is_closed_while_it_gets_answers(const struct taker *t)
{
	static char answer[4096];

	for (int i = 0; i < 3000; i++) {
		if (send(t->fds[0], answer, sizeof(answer), MSG_NOSIGNAL) > 0)
			continue;
		if (errno != EAGAIN)
			return true;
		nanosleep(&(struct timespec) { .tv_nsec = 5000000 }, NULL);
	}
	return false;
}

START_TEST(who_does_not_read_is_closed)
{
	struct taker t;
	int fd;

	unread_ms = 300;
	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert(taken(&t, 1));
	ck_assert(is_closed_while_it_gets_answers(&t));
	unread_ms = 20000;
	close(fd);
	taker_stop(&t);
}
END_TEST

START_TEST(who_does_not_read_does_not_keep_a_stop_waiting)
{
	struct taker t;
	int fd;

	unread_ms = 600000;
	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert(taken(&t, 1));
	listener_stop(t.listener);
	ck_assert(is_closed_while_it_gets_answers(&t));
	unread_ms = 20000;
	close(fd);
	taker_stop(&t);
}
END_TEST

START_TEST(a_slow_reader_is_not_closed)
{
	static char answer[64 * 1024], got[1024];
	struct taker t;
	size_t sent = 0, n = 0;
	int fd;

	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert(taken(&t, 1));
	while (sent < 16 * sizeof(answer)) { /* more than both sockets hold */
		ssize_t k = send(t.fds[0], answer, sizeof(answer), MSG_NOSIGNAL);

		if (k > 0) {
			sent += (size_t)k;
			continue;
		}
		ck_assert_int_eq(errno, EAGAIN);
		k = recv(fd, got, sizeof(got), 0);
		ck_assert_int_gt(k, 0);
		n += (size_t)k;
	}
	while (n < sent) {
		ssize_t k = recv(fd, got, sizeof(got), 0);

		ck_assert_int_gt(k, 0);
		n += (size_t)k;
	}
	close(fd);
	taker_stop(&t);
}
END_TEST

START_TEST(silence_and_nonsense_are_not_handed_over)
{
	struct taker t;
	char byte;
	int silent, odd;

	taker_start(&t, 4);
	silent = connect_to(&t, "");
	odd = connect_to(&t, "PRI * HTTP/3");
	ck_assert_int_eq(recv(odd, &byte, 1, 0) > 0, 0);
	ck_assert_int_eq(recv(silent, &byte, 1, 0), 0);
	ck_assert_int_eq(t.n, 0);
	close(silent);
	close(odd);
	taker_stop(&t);
}
END_TEST

START_TEST(a_number_that_is_used_again_is_another_connection)
{
	struct taker t;

	taker_start(&t, 2);
	for (int i = 0; i < 20; i++) {
		int fd = connect_client(&t);

		ck_assert(taken(&t, i + 1));
		close(fd);
		close(t.fds[i]); /* without notifying the listener, which must detect it */
	}
	t.n = 0;
	taker_stop(&t);
}
END_TEST

START_TEST(a_closed_number_that_became_something_else_does_not_count)
{
	struct taker t;
	int a, b, c, other;

	taker_start(&t, 2);
	a = connect_client(&t);
	b = connect_client(&t);
	ck_assert(taken(&t, 2));
	close(t.fds[0]);
	other = dup2(STDERR_FILENO, t.fds[0]);
	ck_assert_int_eq(other, t.fds[0]);
	c = connect_client(&t);
	ck_assert(taken(&t, 3));
	close(a);
	close(b);
	close(c);
	taker_stop(&t);
}
END_TEST

START_TEST(connections_made_before_it_runs_are_served)
{
	struct taker t;
	struct listener_options options = { .path = t.path,
		                            .mode = 0600,
		                            .group = (gid_t)-1,
		                            .max_connections = 4,
		                            .preface_timeout_ms = 300,
		                            .ack_timeout_ms = 10000,
		                            .unread_timeout_ms = unread_ms,
		                            .connected = take,
		                            .arg = &t };
	struct err err = ERR_INIT;
	int fd;

	t = (struct taker) { .n = 0 };
	snprintf(t.dir, sizeof(t.dir), "/tmp/listener-test.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(t.dir));
	snprintf(t.path, sizeof(t.path), "%s/s", t.dir);
	ck_assert_int_eq(listener_new(&options, &t.listener, &err), 0);
	fd = connect_client(&t);
	ck_assert_int_eq(listener_run(t.listener, &err), 0);
	ck_assert(taken(&t, 1));
	close(fd);
	taker_stop(&t);
}
END_TEST

static void *sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

/*
 * A process that listens at the path, as a driver or, for `raw`, as another program does. Told to,
 * its first thread ends and leaves the other one.
 */
static pid_t listen_in_a_process(char *path, bool raw, const int go[2], const int ready[2])
{
	const struct listener_options options = {
		.path = path, .mode = 0600, .group = (gid_t)-1, .max_connections = 4
	};
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct err err = ERR_INIT;
	struct listener *l;
	pthread_t thread;
	pid_t pid = fork();
	char byte = 0;
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (raw ? bind(fd, (const struct sockaddr *)&address, sizeof(address)) || listen(fd, 8)
	        : listener_new(&options, &l, &err))
		_exit(1);
	if (pthread_create(&thread, NULL, sleep_on, NULL) || write(ready[1], &byte, 1) != 1 ||
	    read(go[0], &byte, 1) != 1)
		_exit(1);
	syscall(SYS_exit, 0);
	_exit(1);
}

/* Connects until the backlog is full. A connection keeps its place after its client has ended. */
static void fill_backlog(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, rc;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	do {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		rc = connect(fd, (const struct sockaddr *)&address, sizeof(address));
		ck_assert(rc == 0 || errno == EAGAIN);
		close(fd);
	} while (!rc);
}

/* Does it answer at last, when its process cannot end? */
static const struct {
	bool raw, full, answers;
} killed[] = {
	{ .raw = false, .full = false, .answers = false },
	{ .raw = false, .full = true, .answers = false },
	{ .raw = true, .full = false, .answers = false },
	/* Nothing tells whose socket it is. */
	{ .raw = true, .full = true, .answers = true },
};

START_TEST(a_killed_process_that_cannot_end_does_not_answer)
{
	char dir[] = "/tmp/listener-test.XXXXXX", path[64], byte = 0;
	int go[2], ready[2];
	pid_t pid;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	ck_assert(pipe(go) == 0 && pipe(ready) == 0);
	ck_assert(!listener_answers(path));
	pid = listen_in_a_process(path, killed[_i].raw, go, ready);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	if (killed[_i].full)
		fill_backlog(path);
	ck_assert(listener_answers(path));
	ck_assert_int_eq(write(go[1], &byte, 1), 1);
	/*
	 * A connection that is never accepted stays in the backlog. A full backlog counts as an
	 * answer.
	 */
	WAIT_UNTIL(process_has_ended(pid));
	ck_assert(listener_answers(path) == killed[_i].answers);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(!listener_answers(path));
	unlink(path);
	rmdir(dir);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
}
END_TEST

START_TEST(one_that_never_ran_is_freed_and_its_name_removed)
{
	struct taker t;

	taker_start(&t, 4);
	listener_stop(t.listener);
	ck_assert_int_ne(access(t.path, F_OK), 0);
	taker_stop(&t); /* a second stop does nothing */
	ck_assert_ptr_null(listener_free(NULL));
}
END_TEST

/* Like a tool that the driver has just started, before its exec(). */
static pid_t start_holder_of_all(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* even if the test fails */
	pause();
	_exit(0);
}

START_TEST(a_connection_of_which_a_child_holds_a_copy_is_not_heard_of_again)
{
	struct timespec while_it_is_freed = { .tv_nsec = 100000000 };
	struct taker t;
	pid_t holder;
	int fd, other;

	taker_start(&t, 4);
	fd = connect_client(&t);
	ck_assert(taken(&t, 1));
	holder = start_holder_of_all();
	shutdown(fd, SHUT_RDWR);
	shutdown(t.fds[0], SHUT_RDWR);
	while (listener_peer_pid(t.listener, t.fds[0]))
		sched_yield();
	nanosleep(&while_it_is_freed, NULL);
	close(fd);
	close(t.fds[0]);
	/* The last copies of the other ends are closed, which wakes the listener's ends. */
	kill(holder, SIGKILL);
	ck_assert_int_eq(waitpid(holder, NULL, 0), holder);
	other = connect_client(&t);
	ck_assert(taken(&t, 2));
	close(other);
	close(t.fds[1]);
	t.n = 0;
	taker_stop(&t);
}
END_TEST

static void *stop_it(void *arg)
{
	listener_stop(arg);
	return NULL;
}

/* The thread sees both at once, the stop first. */
START_TEST(a_connection_that_begins_to_speak_during_the_stop_does_no_harm)
{
	struct taker t;
	pthread_t stopper;
	int idle, other;

	taker_start(&t, 4);
	idle = connect_to(&t, "");
	{
		WITH_LOCK(&busy);
		other = connect_client(&t);
		ck_assert(taken(&t, 1));
		ck_assert_int_eq(pthread_create(&stopper, NULL, stop_it, t.listener), 0);
		nanosleep(&(struct timespec) { .tv_nsec = 100000000 }, NULL);
		IGNORE_RESULT(send(idle, preface, PREFACE_LEN, MSG_NOSIGNAL));
	}
	pthread_join(stopper, NULL);
	close(idle);
	close(other);
	taker_stop(&t);
}
END_TEST

/* ---- permission to connect ---- */

#define STRANGER 65534

/*
 * Is a connection of another user's process passed on? It bypasses the mode, like one with a
 * capability.
 */
static bool stranger_is_served(struct taker *t)
{
	char byte;
	pid_t pid;
	int status, fd;

	ck_assert_int_eq(chmod(t->dir, 0755), 0);
	ck_assert_int_eq(chmod(t->path, 0666), 0);
	pid = fork();
	if (!pid) {
		if (setuid(STRANGER))
			_exit(2);
		fd = connect_to(t, "");
		/* It may have been closed already. */
		IGNORE_RESULT(send(fd, preface, PREFACE_LEN, MSG_NOSIGNAL));
		/* Closed by the listener: refused. After the parent's check: served. */
		_exit(recv(fd, &byte, 1, 0) != 1);
	}
	for (int i = 0; i < 2000 && !t->n; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			ck_assert_int_eq(WEXITSTATUS(status), 1);
			return false;
		}
		nanosleep(&(struct timespec) { .tv_nsec = 5000000 }, NULL);
	}
	ck_assert_int_eq(send(t->fds[0], "x", 1, MSG_NOSIGNAL), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	return true;
}

static const struct {
	const char *what;
	mode_t mode;
	bool served;
} strangers[] = {
	{ "only the owner", 0600, false },
	{ "others may read, which is no right to connect", 0644, false },
	{ "the group", 0660, true },
	{ "everybody", 0666, true },
};

START_TEST(a_stranger_is_served_only_where_the_mode_lets_him_in)
{
	struct taker t;
	bool served;

	SKIP_UNLESS_ROOT("a process of another user");
	taker_start_with(&t, strangers[_i].mode, 4, 0);
	served = stranger_is_served(&t);
	ck_assert_msg(served == strangers[_i].served, "%s", strangers[_i].what);
	ck_assert_msg(warned != served, "%s: a refusal is logged", strangers[_i].what);
	taker_stop(&t);
}
END_TEST

START_TEST(places_are_kept_for_processes_of_this_program)
{
	char word[8] = "";
	struct taker t;
	int fds[4], extra;
	FILE *other;
	char *command AUTO(free) = NULL;

	taker_start_with(&t, 0600, 2, 2);
	for (int i = 0; i < 2; i++) {
		fds[i] = connect_client(&t);
		ck_assert(taken(&t, i + 1));
	}
	/* The limit is reached for another program, */
	command = xasprintf("python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); "
	                    "s.connect(\"%s\"); print(len(s.recv(1)))' 2>&1",
	                    t.path);
	other = popen(command, "r");
	ck_assert(other && fgets(word, sizeof(word), other));
	ck_assert_str_eq(word, "0\n");
	ck_assert_int_eq(pclose(other), 0);
	ck_assert_msg(warned, "another program got a place");
	/* not yet for ours, */
	for (int i = 2; i < 4; i++) {
		fds[i] = connect_client(&t);
		ck_assert_msg(taken(&t, i + 1), "connection %d is not taken", i + 1);
	}
	/* which has one too. */
	extra = connect_to(&t, "");
	ck_assert_int_eq(recv(extra, word, 1, 0), 0);
	close(extra);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	taker_stop(&t);
}
END_TEST

SUITE("listener", who_does_not_read_is_closed, a_slow_reader_is_not_closed,
      the_last_answer_arrives_though_grpc_has_gone,
      LOOP(a_stranger_is_served_only_where_the_mode_lets_him_in, ARRAY_LEN(strangers)),
      places_are_kept_for_processes_of_this_program, a_connection_is_handed_over_with_all_it_said,
      silence_and_nonsense_are_not_handed_over, a_number_that_is_used_again_is_another_connection,
      a_closed_number_that_became_something_else_does_not_count,
      connections_made_before_it_runs_are_served,
      LOOP(a_killed_process_that_cannot_end_does_not_answer, ARRAY_LEN(killed)),
      one_that_never_ran_is_freed_and_its_name_removed,
      a_connection_of_which_a_child_holds_a_copy_is_not_heard_of_again,
      a_connection_that_begins_to_speak_during_the_stop_does_no_harm,
      who_does_not_read_does_not_keep_a_stop_waiting);
