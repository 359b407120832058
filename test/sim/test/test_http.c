/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API over real sockets: streams, broken answers, many clients, and a shutdown that does not
 * wait for clients.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "common/mem.h"
#include "test/lib/suite.h"
#include "test/sim/server/http_server.h"
#include "test/sim/test/harness.h"

#define PATIENCE_MS 100000

#define SERVED(w, s, ...)                                          \
	WORLD(w, "--no-dpf", "--no-fabric", "--v=0", __VA_ARGS__); \
	struct http_server *s AUTO(server_end) = serve(&(w))

static struct http_server *serve(struct sim_world *w)
{
	struct http_server *s = NULL;
	struct err err = ERR_INIT;

	ck_assert_msg(http_server_new(&w->sim, &s, &err) == 0, "%s", err.msg);
	return s;
}

static void server_end(struct http_server *s)
{
	http_server_free(s);
}
DEFINE_AUTO(struct http_server *, server_end);

/* A client's connection. */
struct client {
	int fd;
	struct str in;
};

static void client_open(struct client *c, struct http_server *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)http_server_port(s)),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	str_init(&c->in, 16 * 1024 * 1024);
	ck_assert_int_eq(connect(c->fd, (struct sockaddr *)&to, sizeof(to)), 0);
}

static void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(TAKE_FD(c->fd));
	str_clear(&c->in);
}
DEFINE_AUTO_VALUE(struct client, client_close);

static void send_text(struct client *c, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t done = send(c->fd, text, n, MSG_NOSIGNAL);

		if (done <= 0)
			return; /* the answer says why */
		text += done;
		n -= (size_t)done;
	}
}

static void request(struct client *c, const char *method, const char *path, const char *headers,
                    const char *body)
{
	char *text AUTO(free) =
		xasprintf("%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json\r\n"
	                  "Content-Length: %zu\r\n\r\n%s",
	                  method, path, headers, strlen(body), body);

	send_text(c, text);
}

/* Reads until the text arrives. False: the connection ended first. */
static bool read_until(struct client *c, const char *text)
{
	struct deadline end = deadline_in_ms(PATIENCE_MS);

	while (!strstr(c->in.ptr, text)) {
		struct pollfd fd = { .fd = c->fd, .events = POLLIN };
		char buf[65536];
		ssize_t n;

		ck_assert_msg(poll(&fd, 1, deadline_left_ms(end)) == 1, "no \"%s\" in: %s", text,
		              c->in.ptr);
		n = read(c->fd, buf, sizeof(buf));
		if (n <= 0)
			return false;
		str_addn(&c->in, buf, (size_t)n);
	}
	return true;
}

static void expect_end(struct client *c)
{
	ck_assert(!read_until(c, "there is no such text"));
}

static unsigned threads_now(void)
{
	DIR *dir AUTO(closedir) = opendir("/proc/self/task");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	return n;
}

/* The end of a thread has no event: polls every millisecond. */
static void until_threads(unsigned n)
{
	struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < PATIENCE_MS && threads_now() > n; i++)
		nanosleep(&moment, NULL);
	ck_assert_uint_le(threads_now(), n);
}

START_TEST(a_connection_serves_one_request_after_the_other)
{
	SERVED(w, s, "--token=secret");
	struct client c AUTO(client_close);
	char *body AUTO(free) = volume_json_text("v", "p");

	client_open(&c, s);
	request(&c, "POST", VOLUMES, "", body);
	ck_assert(read_until(&c, "\"code\":401"));
	request(&c, "POST", VOLUMES, "Authorization: Bearer secret\r\n", body);
	ck_assert(read_until(&c, "HTTP/1.1 201"));
	request(&c, "GET", VOLUMES "?fieldSelector=metadata.name%3Dv",
	        "Authorization: Bearer secret\r\n", "");
	ck_assert(read_until(&c, "DPUVolumeList"));
	ck_assert(read_until(&c, "\"name\":\"v\""));
}
END_TEST

START_TEST(a_watch_is_streamed_as_things_happen)
{
	SERVED(w, s, "--seed");
	struct client c AUTO(client_close);
	unsigned before = threads_now();

	client_open(&c, s);
	request(&c, "GET", VOLUMES "?watch=true&resourceVersion=1", "", "");
	ck_assert(read_until(&c, "chunked"));
	world_make_volume(&w, "first");
	ck_assert(read_until(&c, "\"name\":\"first\""));
	world_make_volume(&w, "second");
	ck_assert(read_until(&c, "\"name\":\"second\""));
	client_close(&c);
	until_threads(before);
}
END_TEST

START_TEST(answers_are_cut_where_faults_say)
{
	SERVED(w, s, "--seed");
	struct client half AUTO(client_close), none AUTO(client_close), watch AUTO(client_close);
	unsigned long length;

	world_make_volume(&w, "v");
	world_ok(&w, "POST", "/sim/faults", "{\"verb\":\"get\",\"cut\":true}", 200);
	client_open(&half, s);
	request(&half, "GET", VOLUMES "/v", "", "");
	expect_end(&half);
	ck_assert_ptr_nonnull(strstr(half.in.ptr, "Content-Length: "));
	length = strtoul(strstr(half.in.ptr, "Content-Length: ") + strlen("Content-Length: "), NULL,
	                 10);
	ck_assert_uint_eq(strlen(strstr(half.in.ptr, "\r\n\r\n") + 4), length / 2);
	world_ok(&w, "DELETE", "/sim/faults", NULL, 200);
	world_ok(&w, "POST", "/sim/faults", "{\"status\":500,\"cut\":true,\"hang\":false}", 200);
	client_open(&none, s);
	request(&none, "GET", VOLUMES "/v", "", "");
	expect_end(&none);
	world_ok(&w, "DELETE", "/sim/faults", NULL, 200);
	client_open(&watch, s);
	request(&watch, "GET", VOLUMES "?watch=true&resourceVersion=1", "", "");
	ck_assert(read_until(&watch, "\"name\":\"v\""));
	world_ok(&w, "POST", "/sim/faults", "{\"dropWatch\":true}", 200);
	expect_end(&watch);
	ck_assert_ptr_null(strstr(watch.in.ptr, "0\r\n\r\n"));
}
END_TEST

START_TEST(a_request_may_hang_with_or_without_being_done)
{
	SERVED(w, s, "--seed");
	struct client done AUTO(client_close), not_done AUTO(client_close);
	unsigned before = threads_now();
	char *a AUTO(free) = volume_json_text("a", "p");
	char *b AUTO(free) = volume_json_text("b", "p");

	world_ok(&w, "POST", "/sim/faults",
	         "[{\"name\":\"^a$\",\"verb\":\"create\",\"hang\":true},"
	         "{\"name\":\"^b$\",\"verb\":\"create\",\"hang\":true,\"applied\":true}]",
	         200);
	client_open(&not_done, s);
	client_open(&done, s);
	request(&not_done, "POST", VOLUMES, "", a);
	request(&done, "POST", VOLUMES, "", b);
	world_wait(&w, "dpuvolumes/b", "metadata.name", "b");
	world_ok(&w, "GET", VOLUMES "/a", NULL, 404);
	ck_assert_uint_eq(done.in.len, 0);
	client_close(&done);
	client_close(&not_done);
	until_threads(before);
}
END_TEST

START_TEST(a_request_may_be_done_when_its_client_has_left)
{
	SERVED(w, s, "--seed");
	struct client c AUTO(client_close);
	char *a AUTO(free) = volume_json_text("a", "p");

	world_ok(&w, "POST", "/sim/faults",
	         "{\"verb\":\"create\",\"hang\":true,\"applied\":true,\"lateMs\":200}", 200);
	client_open(&c, s);
	request(&c, "POST", VOLUMES, "", a);
	client_close(&c);
	world_ok(&w, "GET", VOLUMES "/a", NULL, 404);
	world_wait(&w, "dpuvolumes/a", "metadata.name", "a");
}
END_TEST

START_TEST(a_body_that_is_too_large_is_refused)
{
	SERVED(w, s, "--seed");
	struct client c AUTO(client_close);
	size_t n = 4 * 1024 * 1024;
	char *body AUTO(free) = xmalloc(n + 1);

	memset(body, ' ', n);
	body[n] = '\0';
	client_open(&c, s);
	request(&c, "POST", VOLUMES, "", body);
	ck_assert(read_until(&c, "RequestEntityTooLarge"));
}
END_TEST

#define CLIENTS 8
#define EACH 25

static void *create_often(void *arg)
{
	struct http_server *s = ((void **)arg)[0];
	const char *prefix = ((void **)arg)[1];
	struct client c AUTO(client_close);

	client_open(&c, s);
	for (int i = 0; i < EACH; i++) {
		char *name AUTO(free) = xasprintf("%s%d", prefix, i);
		char *body AUTO(free) = volume_json_text(name, "p");

		str_reset(&c.in);
		request(&c, "POST", VOLUMES, "", body);
		ck_assert(read_until(&c, "}}"));
	}
	return NULL;
}

START_TEST(many_clients_are_served_at_once)
{
	SERVED(w, s, "--seed");
	static const char *const prefixes[CLIENTS] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	struct client watch AUTO(client_close);
	pthread_t threads[CLIENTS];
	struct api_answer a AUTO(answer_clear) = { 0 };
	void *args[CLIENTS][2];

	client_open(&watch, s);
	request(&watch, "GET", VOLUMES "?watch=true&resourceVersion=1", "", "");
	for (int i = 0; i < CLIENTS; i++) {
		args[i][0] = s;
		args[i][1] = (void *)prefixes[i];
		pthread_create(&threads[i], NULL, create_often, args[i]);
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	a = world_call(&w, "GET", VOLUMES, NULL);
	ck_assert_uint_eq(json_count(json_at(a.json, "items")), CLIENTS * EACH);
	for (int i = 0; i < CLIENTS; i++) {
		char *last AUTO(free) = xasprintf("\"name\":\"%s%d\"", prefixes[i], EACH - 1);

		ck_assert(read_until(&watch, last));
	}
}
END_TEST

START_TEST(the_end_does_not_wait_for_clients)
{
	struct client watch AUTO(client_close), hung AUTO(client_close), idle AUTO(client_close);

	{
		SERVED(w, s, "--seed");

		client_open(&watch, s);
		client_open(&hung, s);
		client_open(&idle, s);
		request(&watch, "GET", VOLUMES "?watch=true&resourceVersion=1", "", "");
		ck_assert(read_until(&watch, "chunked"));
		world_ok(&w, "POST", "/sim/faults", "{\"verb\":\"get\",\"hang\":true}", 200);
		request(&hung, "GET", VOLUMES "/v", "", "");
		eventfd_write(w.sim.stop_fd, 1);
	}
	expect_end(&watch);
	expect_end(&hung);
}
END_TEST

SUITE("sim http", a_connection_serves_one_request_after_the_other,
      a_watch_is_streamed_as_things_happen, answers_are_cut_where_faults_say,
      a_request_may_hang_with_or_without_being_done, a_request_may_be_done_when_its_client_has_left,
      a_body_that_is_too_large_is_refused, many_clients_are_served_at_once,
      the_end_does_not_wait_for_clients);
