/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server on real sockets: what it answers, and that no client can keep it from others. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "web/web_server.h"

static atomic_int slow_begun, slow_made, slow_may_end;

/* Until when web_server_stop() waits for each thread that makes a page. */
static struct timespec until[8];
static size_t n_until;

/* In place of the C library's. What is waited for ends now. */
int pthread_timedjoin_np(pthread_t thread, void **ret, const struct timespec *end)
{
	ck_assert_uint_lt(n_until, ARRAY_LEN(until));
	until[n_until++] = *end;
	atomic_store(&slow_may_end, 1);
	return pthread_join(thread, ret);
}

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
	while (!atomic_load(&slow_may_end))
		nanosleep(&pause, NULL);
	ret->status = 503;
	str_addf(&ret->body, "made %d times\n", atomic_fetch_add(&slow_made, 1) + 1);
}

static const struct web_page pages[] = {
	{ "/fast", fast, (void *)"hello\n", false },
	{ "/large", large, NULL, false },
	{ "/slow", slow, NULL, true },
	{ "/slow-too", slow, NULL, true },
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

/* All that comes until the server closes, or for 300 ms; malloc'ed. */
static char *hear(int fd, bool until_closed)
{
	struct timeval patience = { .tv_sec = until_closed ? 10 : 0, .tv_usec = 300000 };
	struct str all = STR_INIT(8 << 20);
	char buf[4096];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		str_addn(&all, buf, (size_t)n);
	ck_assert_msg(!until_closed || n == 0, "the server did not close");
	return str_take(&all);
}

/* Reads up to `text`, by which the server's answer ends. */
static void hear_until(int fd, const char *text)
{
	struct timeval patience = { .tv_sec = 10 };
	struct str all = STR_INIT(4096);
	char c;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while (!all.ptr || !str_has_suffix(all.ptr, text)) {
		ck_assert_int_eq(recv(fd, &c, 1, 0), 1);
		str_addn(&all, &c, 1);
	}
	str_clear(&all);
}

static void expect(const char *all, const char *text)
{
	ck_assert_msg(strstr(all, text) != NULL, "\"%s\" is not in: %.500s", text, all);
}

#define CLOSE " HTTP/1.1\r\nConnection: close\r\n\r\n"

START_TEST(a_page_is_served)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s);
	char *all;

	say(fd, "GET /fast" CLOSE);
	all = hear(fd, true);
	expect(all, "HTTP/1.1 200 OK\r\n");
	expect(all, "\r\nContent-Length: 6\r\n");
	expect(all, "\r\n\r\nhello\n");
	free(all);
	close(fd);
	ck_assert_ptr_null(web_server_stop(s));
}
END_TEST

START_TEST(a_connection_serves_many_requests_in_their_order)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s);
	char *all;

	atomic_store(&slow_may_end, 1);
	say(fd,
	    "GET /slow HTTP/1.1\r\n\r\nHEAD /fast HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\nGE");
	say(fd, "T /fast HTTP/1.1\r\n\r\n");
	all = hear(fd, false);
	expect(all, "503 Service Unavailable");
	expect(all, "made 1 times\nHTTP/1.1 200 OK");
	expect(all, "Content-Length: 6\r\nCache-Control: no-store\r\nX-Content-Type-Options: "
	            "nosniff\r\n\r\nHTTP/1.1 404 Not Found"); /* HEAD has no body */
	expect(all, "there is no such page; there are /fast /large /slow /slow-too\n");
	ck_assert(str_has_suffix(all, "hello\n"));
	free(all);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(a_large_page_arrives_whole_at_a_slow_reader)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s), small = 4096;
	char *all;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	say(fd, "GET /large" CLOSE);
	all = hear(fd, true);
	expect(all, "\r\nContent-Length: 1000000\r\n");
	ck_assert_uint_eq(strlen(strstr(all, "\r\n\r\n") + 4), 1000000);
	free(all);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(a_slow_page_is_made_once_and_keeps_nobody_waiting)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int waiting[3], other = client(s);
	char *all;

	atomic_store(&slow_may_end, 0);
	for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
		waiting[i] = client(s);
		/* With the first answer the server has read the second request, too. */
		say(waiting[i], "GET /fast HTTP/1.1\r\n\r\nGET /slow" CLOSE);
		hear_until(waiting[i], "hello\n");
	}
	say(other, "GET /fast" CLOSE);
	all = hear(other, true);
	expect(all, "hello");
	free(all);
	close(TAKE_FD(waiting[1])); /* who has gone is in nobody's way */
	atomic_store(&slow_may_end, 1);
	for (size_t i = 0; i < ARRAY_LEN(waiting); i += 2) {
		all = hear(waiting[i], true);
		expect(all, "made 1 times");
		free(all);
		close(waiting[i]);
	}
	close(other);
	web_server_stop(s);
}
END_TEST

START_TEST(a_page_that_hangs_keeps_nobody_from_the_others)
{
	const struct web_tuning tuning = { .make_ms = 100 };
	struct web_server *s = serve("127.0.0.1:0", &tuning);
	int patient, other;
	char *all;

	atomic_store(&slow_may_end, 0);
	for (size_t i = 0; i < WEB_CONNECTIONS; i++) {
		int fd = client(s);

		say(fd, "GET /slow" CLOSE);
		close(fd); /* as a probe whose time is over */
	}
	other = client(s);
	say(other, "GET /fast" CLOSE);
	all = hear(other, true);
	expect(all, "hello");
	free(all);
	patient = client(s);
	say(patient, "GET /slow HTTP/1.1\r\n\r\n");
	all = hear(patient, true);
	expect(all, "503 Service Unavailable");
	expect(all, "/slow is being made for too long");
	free(all);
	atomic_store(&slow_may_end, 1);
	close(patient);
	close(other);
	ck_assert_ptr_null(web_server_stop(s));
	ck_assert_int_eq(atomic_load(&slow_made), 1);
}
END_TEST

START_TEST(a_server_stops_while_a_page_is_made)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fd = client(s);
	char *all;

	atomic_store(&slow_may_end, 0);
	say(fd, "GET /slow" CLOSE);
	all = hear(fd, false);
	ck_assert_str_eq(all, "");
	free(all);
	atomic_store(&slow_may_end, 1);
	ck_assert_ptr_null(web_server_stop(s));
	ck_assert_int_eq(atomic_load(&slow_made), 1);
	close(fd);
}
END_TEST

START_TEST(a_stop_waits_once_for_all_pages_together)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fds[] = { client(s), client(s) };

	atomic_store(&slow_may_end, 0);
	say(fds[0], "GET /slow" CLOSE);
	say(fds[1], "GET /slow-too" CLOSE);
	while (atomic_load(&slow_begun) < 2)
		nanosleep(&pause, NULL);
	n_until = 0;
	ck_assert_ptr_null(web_server_stop(s));
	ck_assert_uint_eq(n_until, 2);
	ck_assert_int_eq(until[0].tv_sec, until[1].tv_sec);
	ck_assert_int_eq(until[0].tv_nsec, until[1].tv_nsec);
	close(fds[0]);
	close(fds[1]);
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
	all = hear(fd, true);
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
	all = hear(fd, true);
	expect(all, "431 Request Header Fields Too Large");
	free(all);
	free(filler);
	close(fd);
	web_server_stop(s);
}
END_TEST

START_TEST(who_says_nothing_is_left)
{
	const struct web_tuning tuning = { .head_ms = 100, .idle_ms = 150, .send_ms = 100 };
	struct web_server *s = serve("127.0.0.1:0", &tuning);
	int silent = client(s), half = client(s), idle = client(s);
	char *all;

	say(half, "GET /fa");
	say(idle, "GET /fast HTTP/1.1\r\n\r\n");
	all = hear(silent, true);
	ck_assert_str_eq(all, "");
	free(all);
	all = hear(half, true);
	ck_assert_str_eq(all, "");
	free(all);
	all = hear(idle, true);
	expect(all, "hello");
	free(all);
	close(silent);
	close(half);
	close(idle);
	web_server_stop(s);
}
END_TEST

START_TEST(many_idle_connections_keep_no_new_one_out)
{
	struct web_server *s = serve("127.0.0.1:0", NULL);
	int fds[WEB_CONNECTIONS * 2];
	int64_t since = monotonic_ns();
	char *all;

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = client(s);
	say(fds[ARRAY_LEN(fds) - 1], "GET /fast" CLOSE);
	all = hear(fds[ARRAY_LEN(fds) - 1], true);
	expect(all, "hello");
	free(all);
	/* At once, not when the others have had their time. */
	ck_assert_int_lt(monotonic_ns() - since, INT64_C(5000000000));
	all = hear(fds[0], true); /* the one that has been idle for longest */
	ck_assert_str_eq(all, "");
	free(all);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	web_server_stop(s);
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

	say(fd, "GET /fast" CLOSE);
	all = hear(fd, true);
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
	close(fd); /* its file stays, and nobody listens */
	s = serve(address, NULL);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	say(fd, "GET /fast" CLOSE);
	all = hear(fd, true);
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
	expect(err.msg, "is no socket");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

SUITE("web_server", a_page_is_served, a_connection_serves_many_requests_in_their_order,
      a_large_page_arrives_whole_at_a_slow_reader,
      a_slow_page_is_made_once_and_keeps_nobody_waiting,
      a_page_that_hangs_keeps_nobody_from_the_others, a_server_stops_while_a_page_is_made,
      a_stop_waits_once_for_all_pages_together,
      LOOP(what_cannot_be_served_is_answered_and_closed, ARRAY_LEN(wrongs)),
      a_head_that_is_too_long_is_refused, who_says_nothing_is_left,
      many_idle_connections_keep_no_new_one_out, an_address_that_is_taken_is_said,
      every_address_is_served, a_unix_socket_replaces_a_dead_one_only);
