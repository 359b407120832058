/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server on real sockets: its answers, and that no client can lock out others. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "web/web_server.h"

static atomic_int slow_begun, slow_at_once, slow_made, slow_may_end, lone_begun, lone_may_end;

/* No time limit is reached except the one that a test is about. */
#define NEVER 600000
static const struct web_tuning patient = {
	.head_ms = NEVER, .send_ms = NEVER, .make_ms = NEVER, .stop_ms = NEVER
};

static void fast(void *arg, struct web_answer *ret)
{
	str_add(&ret->body, arg);
}

static void large(void *arg, struct web_answer *ret)
{
	(void)arg;
	for (int i = 0; i < 100000; i++)
		str_add(&ret->body, "0123456789");
}

static void slow(void *arg, struct web_answer *ret)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	(void)arg;
	atomic_fetch_add(&slow_begun, 1);
	ck_assert_int_eq(atomic_fetch_add(&slow_at_once, 1), 0);
	while (!atomic_load(&slow_may_end))
		nanosleep(&pause, NULL);
	atomic_fetch_sub(&slow_at_once, 1);
	ret->status = 503;
	str_addf(&ret->body, "made %d times\n", atomic_fetch_add(&slow_made, 1) + 1);
}

static void lone(void *arg, struct web_answer *ret)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	(void)arg;
	atomic_store(&lone_begun, 1);
	while (!atomic_load(&lone_may_end))
		nanosleep(&pause, NULL);
	str_add(&ret->body, "for one client\n");
}

static const struct web_page pages[] = {
	{ "/fast", fast, (void *)"hello\n" },
	{ "/large", large, NULL },
	{ "/slow", slow, NULL },
	{ "/lone", lone, NULL },
};

static struct web_server *serve(const char *address, const struct web_tuning *tuning)
{
	struct web_server *s = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(web_server_start(address, pages, ARRAY_LEN(pages), tuning, &s, &err) == 0,
	              "%s", err.msg);
	return s;
}

static int client(const struct web_server *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	const char *colon = strrchr(web_server_address(s), ':');
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons((in_port_t)strtoul(colon + 1, NULL, 10));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* All bytes until the server closes; malloc'ed. */
static char *hear(int fd)
{
	struct timeval patience = { .tv_sec = 100 };
	struct str all = STR_INIT(8 << 20);
	char buf[4096];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		str_addn(&all, buf, (size_t)n);
	ck_assert_msg(n == 0, "the server did not close: %s", strerror(errno));
	return str_take(&all);
}

static void expect(const char *all, const char *text)
{
	ck_assert_msg(strstr(all, text) != NULL, "\"%s\" is not in: %.500s", text, all);
}

#define END " HTTP/1.1\r\n\r\n"

/* Sends the request on a separate connection. */
static void is_answered(const struct web_server *s, const char *request, const char *text)
{
	char *all AUTO(free) = NULL;
	int fd AUTO(fd) = client(s);

	say(fd, request);
	all = hear(fd);
	expect(all, text);
}

static void wait_until(const atomic_int *what, int is)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	while (atomic_load(what) < is)
		nanosleep(&pause, NULL);
}

START_TEST(a_page_is_served)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fd = client(s);
	char *all;

	say(fd, "GET /fast" END);
	all = hear(fd);
	expect(all, "HTTP/1.1 200 OK\r\n");
	expect(all, "\r\nContent-Length: 6\r\n");
	expect(all, "\r\nConnection: close\r\n");
	expect(all, "\r\n\r\nhello\n");
	free(all);
	close(fd);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

static const struct {
	const char *text, *end;
} answers[] = {
	{ "GET /fast" END, "\r\n\r\nhello\n" },
	{ "HEAD /fast" END, "Content-Length: 6\r\nCache-Control: no-store\r\n"
	                    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" },
	{ "GET /fast HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", "hello\n" },
	{ "GET /fast" END "GET /none" END, "hello\n" },
	{ "GET /none" END, "no such page; the pages are /fast /large /slow /lone\n" },
};

START_TEST(a_connection_serves_one_request)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fd = client(s);
	char *all;

	say(fd, answers[_i].text);
	all = hear(fd);
	ck_assert_msg(str_has_suffix(all, answers[_i].end), "%s", all);
	ck_assert_ptr_null(strstr(all + 1, "HTTP/1.1 "));
	free(all);
	close(fd);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

START_TEST(a_request_may_come_in_pieces)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fd = client(s);
	char *all;

	for (const char *c = "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"; *c; c++) {
		ck_assert_int_eq(send(fd, c, 1, MSG_NOSIGNAL), 1);
		sched_yield();
	}
	shutdown(fd, SHUT_WR); /* a client that closes its half is answered, too */
	all = hear(fd);
	expect(all, "hello\n");
	free(all);
	close(fd);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

START_TEST(a_large_page_arrives_whole_at_a_slow_reader)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fd = client(s), small = 65536; /* less would wait for probes of a full window */
	char *all;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	say(fd, "GET /large" END);
	all = hear(fd);
	expect(all, "\r\nContent-Length: 1000000\r\n");
	ck_assert_uint_eq(strlen(strstr(all, "\r\n\r\n") + 4), 1000000);
	free(all);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(a_page_is_made_once_at_a_time_and_keeps_no_client_from_another)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int waiting[3];
	char *all;

	atomic_store(&slow_may_end, 0);
	for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
		waiting[i] = client(s);
		say(waiting[i], "GET /slow" END);
	}
	wait_until(&slow_begun, 1);
	is_answered(s, "GET /fast" END, "hello");
	close(TAKE_FD(waiting[1])); /* a client that has closed does not block others */
	atomic_store(&slow_may_end, 1);
	for (size_t i = 0; i < ARRAY_LEN(waiting); i += 2) {
		all = hear(waiting[i]);
		expect(all, "made ");
		free(all);
		close(waiting[i]);
	}
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

START_TEST(a_page_that_hangs_is_said)
{
	const struct web_tuning tuning = {
		.head_ms = NEVER, .send_ms = NEVER, .make_ms = 50, .stop_ms = NEVER
	};
	struct web_server *s = serve("127.0.0.1:0", &tuning);

	atomic_store(&slow_may_end, 0);
	is_answered(s, "GET /slow" END, "503 Service Unavailable");
	is_answered(s, "GET /slow" END, "/slow takes too long");
	atomic_store(&slow_may_end, 1);
	ck_assert_ptr_null(web_server_stop(s));
	ck_assert_int_eq(atomic_load(&slow_made), 1);
}
END_TEST

/* ---- clients that do harm ---- */

enum { MANY = 200 };

static void wait_for_writers(const int *fds)
{
	char c;

	for (size_t i = 0; i < 4; i++) /* the newest ones are not cut yet */
		ck_assert_int_eq(recv(fds[MANY - 1 - i], &c, 1, MSG_PEEK), 1);
}

static const struct {
	const char *what, *says;
	bool half_closed;
	void (*settle)(const int *fds);
} attacks[] = {
	{ "connect and say nothing", "", false, NULL },
	{ "half a request", "GET /fast HTTP/1.1\r\nHost: ", false, NULL },
	{ "ask for a large page, again and again, and read nothing",
	  "GET /large" END "GET /large" END "GET /large" END "GET /large" END, false,
	  wait_for_writers },
	{ "the same, half closed", "GET /large" END "GET /large" END, true, wait_for_writers },
	{ "ask for a page that hangs", "GET /slow" END, false, NULL },
	{ "are refused, and stay", "nonsense\r\n\r\n", false, NULL },
};

static void attack(const struct web_server *s, int i, int *fds)
{
	int small = 4096;

	for (size_t n = 0; n < MANY; n++) {
		fds[n] = client(s);
		setsockopt(fds[n], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
		/* One that was already cut cannot receive anything. */
		IGNORE_RESULT(send(fds[n], attacks[i].says, strlen(attacks[i].says), MSG_NOSIGNAL));
		if (attacks[i].half_closed)
			shutdown(fds[n], SHUT_WR);
	}
	if (attacks[i].settle)
		attacks[i].settle(fds);
}

/* No time limit of the server has passed: it can only evict. */
START_TEST(many_clients_keep_no_probe_out)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fds[MANY];

	atomic_store(&slow_may_end, 0);
	attack(s, _i, fds);
	for (int probe = 0; probe < 20; probe++)
		is_answered(s, "GET /fast" END, "hello");
	atomic_store(&slow_may_end, 1);
	for (size_t n = 0; n < MANY; n++)
		close(fds[n]);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

/* Whatever the others do: no other client waits for its page. */
START_TEST(a_client_that_waits_for_its_page_is_cut_last)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fds[MANY], fd = client(s);
	char *all;

	say(fd, "GET /lone" END);
	wait_until(&lone_begun, 1);
	atomic_store(&slow_may_end, 0);
	attack(s, _i, fds);
	is_answered(s, "GET /fast" END, "hello"); /* all others have been accepted */
	atomic_store(&lone_may_end, 1);
	all = hear(fd);
	expect(all, "for one client\n");
	free(all);
	close(fd);
	atomic_store(&slow_may_end, 1);
	for (size_t n = 0; n < MANY; n++)
		close(fds[n]);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

START_TEST(a_server_stops_beside_clients_that_hang)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fds[MANY];

	atomic_store(&slow_may_end, 1);
	attack(s, _i, fds);
	ck_assert_ptr_null(web_server_stop(s));
	for (size_t n = 0; n < MANY; n++)
		close(fds[n]);
}
END_TEST

/* Each of them reconnects as soon as it was cut. */
static void *come_again(void *arg)
{
	const struct web_server *s = arg;

	while (!atomic_load(&slow_may_end)) {
		int fds[64];

		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			fds[i] = client(s);
		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			close(fds[i]);
	}
	return NULL;
}

START_TEST(a_flood_of_connections_keeps_no_probe_out)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	pthread_t threads[2];

	atomic_store(&slow_may_end, 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_again, s), 0);
	for (int probe = 0; probe < 20; probe++)
		is_answered(s, "GET /fast" END, "hello");
	atomic_store(&slow_may_end, 1);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

/* ---- the end ---- */

START_TEST(a_server_waits_for_a_page_that_is_made)
{
	struct web_server *s = serve("127.0.0.1:0", &patient);
	int fd = client(s);

	atomic_store(&slow_may_end, 0);
	say(fd, "GET /slow" END);
	wait_until(&slow_begun, 1);
	close(fd);
	atomic_store(&slow_may_end, 1);
	ck_assert_ptr_null(web_server_stop(s));
	ck_assert_int_eq(atomic_load(&slow_made), 1);
}
END_TEST

START_TEST(a_page_that_hangs_keeps_what_it_needs)
{
	static struct web_server *s; /* found by the leak checker: it stays */
	const struct web_tuning tuning = {
		.head_ms = NEVER, .send_ms = NEVER, .make_ms = NEVER, .stop_ms = 50
	};
	int fd;

	s = serve("127.0.0.1:0", &tuning);
	fd = client(s);
	atomic_store(&slow_may_end, 0);
	say(fd, "GET /slow" END);
	wait_until(&slow_begun, 1);
	ck_assert_ptr_eq(web_server_stop(s), s);
	close(fd);
	atomic_store(&slow_may_end, 1);
	wait_until(&slow_made, 1);
}
END_TEST

static const struct {
	const char *text, *status;
} wrongs[] = {
	{ "POST /fast HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", "405 Method Not Allowed" },
	{ "GET /fast HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", "400 Bad Request" },
	{ "nonsense\r\n\r\n", "400 Bad Request" },
};

START_TEST(what_cannot_be_served_is_answered_and_closed)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s);
	char *all;

	say(fd, wrongs[_i].text);
	all = hear(fd);
	expect(all, wrongs[_i].status);
	expect(all, "Connection: close\r\n");
	free(all);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(a_head_that_is_too_long_is_refused)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s);
	char *all, *filler = xcalloc(1, WEB_HEAD_MAX + 1);

	memset(filler, 'a', WEB_HEAD_MAX);
	say(fd, "GET /fast HTTP/1.1\r\nX: ");
	say(fd, filler);
	all = hear(fd);
	expect(all, "431 Request Header Fields Too Large");
	free(all);
	free(filler);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(clients_that_take_too_long_are_left)
{
	const struct web_tuning tuning = {
		.head_ms = 100, .send_ms = 100, .make_ms = NEVER, .stop_ms = NEVER
	};
	struct web_server *s = serve("127.0.0.1:0", &tuning);
	const struct timespec pause = { .tv_nsec = 5000000 };
	int silent = client(s), half = client(s), dripping = client(s), small = 4096;
	int deaf = client(s);
	char *all, c;
	ssize_t n;

	setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	say(deaf, "GET /large" END);
	say(half, "GET /fa");
	while ((n = recv(dripping, &c, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
		IGNORE_RESULT(send(dripping, "G", 1, MSG_NOSIGNAL));
		nanosleep(&pause, NULL);
	}
	ck_assert_int_le(n, 0);
	all = hear(silent);
	ck_assert_str_eq(all, "");
	free(all);
	all = hear(half);
	ck_assert_str_eq(all, "");
	free(all);
	while (recv(deaf, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		sched_yield();
	ck_assert_ptr_null(web_server_stop(s));
	close(silent);
	close(half);
	close(dripping);
	close(deaf);
}
END_TEST

START_TEST(an_address_that_is_taken_is_said)
{
	struct web_server *s = serve("127.0.0.1:0", NULL), *second = NULL;
	struct err err = ERR_INIT;

	ck_assert_int_eq(web_server_start(web_server_address(s), pages, ARRAY_LEN(pages), NULL,
	                                  &second, &err),
	                 -1);
	ck_assert_ptr_null(second);
	expect(err.msg, "--http-endpoint=127.0.0.1:");
	expect(err.msg, "Address already in use");
	web_server_stop(s);
}
END_TEST

START_TEST(every_address_is_served)
{
	struct web_server *s = serve(":0", NULL);
	int fd = client(s);
	char *all;

	say(fd, "GET /fast" END);
	all = hear(fd);
	expect(all, "hello");
	free(all);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(a_unix_socket_replaces_a_dead_one_only)
{
	char dir[] = "/tmp/test-web-XXXXXX";
	char *path AUTO(free) = NULL, *address AUTO(free) = NULL, *all;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct web_server *s, *second = NULL;
	struct err err = ERR_INIT;
	struct stat st;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	path = xasprintf("%s/x.sock", dir);
	address = xasprintf("unix:%s", path);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	close(fd); /* its file stays, and no process listens */
	s = serve(address, NULL);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	say(fd, "GET /fast" END);
	all = hear(fd);
	expect(all, "hello");
	free(all);
	close(fd);
	ck_assert_int_eq(web_server_start(address, pages, 1, NULL, &second, &err), -1);
	expect(err.msg, "another process serves");
	web_server_stop(s);
	ck_assert_int_eq(access(path, F_OK), -1);
	err_clear(&err);
	fd = creat(path, 0600);
	close(fd);
	ck_assert_int_eq(web_server_start(address, pages, 1, NULL, &second, &err), -1);
	expect(err.msg, "is not a socket");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

SUITE("web_server", a_page_is_served, LOOP(a_connection_serves_one_request, ARRAY_LEN(answers)),
      a_request_may_come_in_pieces, a_large_page_arrives_whole_at_a_slow_reader,
      a_page_is_made_once_at_a_time_and_keeps_no_client_from_another, a_page_that_hangs_is_said,
      LOOP(many_clients_keep_no_probe_out, ARRAY_LEN(attacks)),
      LOOP(a_client_that_waits_for_its_page_is_cut_last, ARRAY_LEN(attacks)),
      LOOP(a_server_stops_beside_clients_that_hang, ARRAY_LEN(attacks)),
      a_flood_of_connections_keeps_no_probe_out, a_server_waits_for_a_page_that_is_made,
      a_page_that_hangs_keeps_what_it_needs,
      LOOP(what_cannot_be_served_is_answered_and_closed, ARRAY_LEN(wrongs)),
      a_head_that_is_too_long_is_refused, clients_that_take_too_long_are_left,
      an_address_that_is_taken_is_said, every_address_is_served,
      a_unix_socket_replaces_a_dead_one_only);
