/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that respect no limit: raw HTTP/2 frames against a server in a separate process. The
 * server must close each row's connection; during the attack it answers another client with little
 * memory, and afterwards it uses as much memory as before. With FIGURES in the environment, prints
 * the memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/mem.h"
#include "common/sanitizer.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define MEMORY_COUNTS (!SANITIZED) /* otherwise freed memory stays, and more is used */

enum frame_type {
	DATA = 0,
	HEADERS = 1,
	RST_STREAM = 3,
	SETTINGS = 4,
	PING = 6,
	WINDOW_UPDATE = 8,
	CONTINUATION = 9
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

#define PEAK_KB (64 * 1024) /* above that of before */
#define REST_KB (16 * 1024)

/* Frames are collected and sent in large pieces. */
struct attacker {
	int fd;
	bool reads; /* reads the server's bytes */
	bool closed;
	size_t n;
	uint8_t buf[64 * 1024];
};

static int connect_raw(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* Sends all collected frames; records whether the server has closed. */
static void flush(struct attacker *a)
{
	struct deadline until = wait_limit();
	char answers[64 * 1024];

	for (size_t at = 0; at < a->n && !a->closed && deadline_left_ms(until);) {
		struct pollfd p = { .fd = a->fd,
			            .events = (short)(POLLOUT | (a->reads ? POLLIN : 0)) };
		ssize_t n = send(a->fd, a->buf + at, a->n - at, MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			poll(&p, 1, 100);
		else
			a->closed = true;
		while (a->reads && recv(a->fd, answers, sizeof(answers), 0) > 0)
			;
	}
	a->n = 0;
}

static void frame(struct attacker *a, enum frame_type type, int flags, uint32_t stream,
                  const void *payload, size_t n)
{
	uint8_t head[9] = {
		(uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,
		(uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
		(uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream
	};

	if (a->n + sizeof(head) + n > sizeof(a->buf))
		flush(a);
	memcpy(a->buf + a->n, head, sizeof(head));
	if (n)
		memcpy(a->buf + a->n + sizeof(head), payload, n);
	a->n += sizeof(head) + n;
}

static void headers(struct attacker *a, uint32_t stream, const char *path)
{
	/* From HPACK's static table: POST, http; then literals without indexing. */
	static const char first[] = "\x83\x86\x04", rest[] = "\x01\x09localhost\x0f\x10\x10"
							     "application/grpc\0\2te\x08trailers";
	size_t n_path = strlen(path);
	char block[200];

	memcpy(block, first, 3);
	block[3] = (char)n_path;
	memcpy(block + 4, path, n_path);
	memcpy(block + 4 + n_path, rest, sizeof(rest) - 1);
	frame(a, HEADERS, END_HEADERS, stream, block, 4 + n_path + sizeof(rest) - 1);
}

static void begin(struct attacker *a, bool acknowledges)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

	memcpy(a->buf, preface, sizeof(preface) - 1);
	a->n = sizeof(preface) - 1;
	frame(a, SETTINGS, 0, 0, NULL, 0);
	if (acknowledges)
		frame(a, SETTINGS, ACK, 0, NULL, 0);
}

/* ---- attacks ---- */

static void many_streams(struct attacker *a)
{
	begin(a, false);
	for (uint32_t i = 0; i < 20000 && !a->closed; i++)
		headers(a, 2 * i + 1, PROBE);
}

static void header_only_streams(struct attacker *a)
{
	begin(a, false);
	for (uint32_t i = 0; i < 400 && !a->closed; i++)
		headers(a, 2 * i + 1, STAGE);
}

static void large_block(struct attacker *a)
{
	char part[16000];

	for (size_t i = 0; i < sizeof(part); i += 5)
		memcpy(part + i, "\0\1z\1v", 5);
	begin(a, false);
	frame(a, HEADERS, 0, 1, part, sizeof(part));
	for (int i = 0; i < 1000 && !a->closed; i++)
		frame(a, CONTINUATION, 0, 1, part, sizeof(part));
}

static void pings(struct attacker *a)
{
	begin(a, true);
	for (int i = 0; i < 50000 && !a->closed; i++)
		frame(a, PING, 0, 0, "12345678", 8);
}

static void resets(struct attacker *a)
{
	begin(a, true);
	a->reads = true;
	for (uint32_t i = 0; i < 70000 && !a->closed; i++) {
		headers(a, 2 * i + 1, PROBE);
		frame(a, RST_STREAM, 0, 2 * i + 1, "\0\0\0\x08", 4);
	}
}

static void settings(struct attacker *a)
{
	begin(a, false);
	for (int i = 0; i < 200000 && !a->closed; i++)
		frame(a, SETTINGS, 0, 0, "\0\x04\0\x10\0\0", 6);
}

static void empty_data(struct attacker *a)
{
	begin(a, true);
	headers(a, 1, STAGE);
	for (int i = 0; i < 200000 && !a->closed; i++)
		frame(a, DATA, 0, 1, NULL, 0);
}

static void calls_without_reading(struct attacker *a)
{
	begin(a, true);
	for (uint32_t i = 0; i < 50000 && !a->closed; i++) {
		headers(a, 2 * i + 1, PROBE);
		frame(a, DATA, END_STREAM, 2 * i + 1, "\0\0\0\0", 5);
	}
}

static void a_strange_message(struct attacker *a)
{
	begin(a, true);
	headers(a, 1, PROBE);
	frame(a, DATA, END_STREAM, 1, "\2\0\0\0", 5);
}

/* The flow-control windows that the server grants, read from its frames. */
struct windows {
	int64_t all, stream, initial;
	uint32_t id; /* of the stream */
	size_t n;
	uint8_t buf[64 * 1024];
};

static int64_t number(const uint8_t *p, size_t n)
{
	int64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void take_setting(struct windows *w, const uint8_t *p)
{
	if (number(p, 2) != 4) /* SETTINGS_INITIAL_WINDOW_SIZE */
		return;
	w->stream += number(p + 2, 4) - w->initial;
	w->initial = number(p + 2, 4);
}

static void take_frame(struct windows *w, const uint8_t *head, size_t n)
{
	if (head[3] == SETTINGS)
		for (size_t at = 0; at + 6 <= n; at += 6)
			take_setting(w, head + 9 + at);
	if (head[3] != WINDOW_UPDATE)
		return;
	if (number(head + 5, 4) == 0)
		w->all += number(head + 9, 4);
	else if (number(head + 5, 4) == w->id)
		w->stream += number(head + 9, 4);
}

/* Reads the server's bytes; waits if none have arrived. */
static void read_windows(struct attacker *a, struct windows *w)
{
	struct pollfd p = { .fd = a->fd, .events = POLLIN };
	size_t at = 0, length = 0;
	ssize_t n;

	poll(&p, 1, 100);
	n = recv(a->fd, w->buf + w->n, sizeof(w->buf) - w->n, 0);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		a->closed = true;
	w->n += n > 0 ? (size_t)n : 0;
	for (; at + 9 <= w->n; at += 9 + length) {
		length = (size_t)number(w->buf + at, 3);
		if (at + 9 + length > w->n)
			break;
		take_frame(w, w->buf + at, length);
	}
	memmove(w->buf, w->buf + at, w->n - at);
	w->n -= at;
}

/*
 * Sends all but the last byte of a message, within the server's windows; stops when the windows are
 * used up.
 */
static void unfinished_message(struct attacker *a, struct windows *w, uint32_t stream)
{
	struct deadline until = deadline_in_ms(2000);
	static const uint8_t zeros[16384];
	uint8_t first[16384] = { 0, 0, 0x10, 0, 0 };
	int64_t left = 5 + 1024 * 1024 - 1;

	w->id = stream;
	w->stream = w->initial;
	headers(a, stream, STAGE);
	for (bool begun = false; left && !a->closed && deadline_left_ms(until); begun = true) {
		size_t n = left < 16384 ? (size_t)left : 16384;

		while (w->all < (int64_t)n || w->stream < (int64_t)n) {
			flush(a);
			read_windows(a, w);
			if (a->closed || !deadline_left_ms(until))
				return;
		}
		frame(a, DATA, 0, stream, begun ? zeros : first, n);
		w->all -= (int64_t)n;
		w->stream -= (int64_t)n;
		left -= (int64_t)n;
	}
}

static void unfinished_messages(struct attacker *a)
{
	struct windows *w AUTO(free) = xcalloc(1, sizeof(*w));

	w->all = w->initial = 65535;
	begin(a, true);
	for (uint32_t i = 0; i < 150 && !a->closed; i++)
		unfinished_message(a, w, 2 * i + 1);
}

static const struct {
	const char *what;
	void (*attack)(struct attacker *a);
	int connections;
} attacks[] = {
	{ "20,000 streams on one connection", many_streams, 1 },
	{ "400 streams of headers only", header_only_streams, 1 },
	{ "one header block of 16 MB", large_block, 1 },
	{ "50,000 PINGs on each of 16 connections", pings, 16 },
	{ "70,000 streams opened and reset", resets, 1 },
	{ "200,000 SETTINGS", settings, 1 },
	{ "200,000 empty DATA frames", empty_data, 1 },
	{ "50,000 calls whose answers are not read", calls_without_reading, 1 },
	{ "a message whose first byte is 2", a_strange_message, 1 },
	{ "150 messages without their end on each of 2 connections", unfinished_messages, 2 },
};

/* ---- the other client, and the server's memory ---- */

static long rss_kb(pid_t pid)
{
	char *path AUTO(free) = xasprintf("/proc/%d/status", (int)pid);
	FILE *f AUTO(fclose) = fopen(path, "r");
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			return strtol(line + 6, NULL, 10);
	return -1;
}

struct run {
	const char *path;
	int row;
	_Atomic int left; /* connections that still attack */
	_Atomic int closed;
};

static void *attack(void *arg)
{
	struct run *run = arg;
	struct attacker *a AUTO(free) = xcalloc(1, sizeof(*a));
	struct pollfd p = { .events = POLLIN };
	struct deadline until = wait_limit();
	char answers[4096];
	ssize_t n = 1;

	a->fd = p.fd = connect_raw(run->path);
	attacks[run->row].attack(a);
	flush(a);
	run->left--;
	while (!a->closed && n != 0 && deadline_left_ms(until)) {
		poll(&p, 1, 100);
		n = recv(a->fd, answers, sizeof(answers), 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			a->closed = true;
	}
	run->closed += a->closed;
	close(a->fd);
	return NULL;
}

START_TEST(a_client_without_limits_is_closed_and_the_others_are_served)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct run run = { .row = _i, .left = attacks[_i].connections };
	pthread_t threads[16];
	long before, peak, after;
	pid_t pid;

	rpc_fixture_init(&f);
	run.path = f.path;
	pid = server_spawn(&f, NULL, 0, 1000);
	f.client = rpc_client_new(&(struct rpc_client_options) { .path = f.path });
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	before = peak = rss_kb(pid);
	for (int i = 0; i < attacks[_i].connections; i++)
		pthread_create(&threads[i], NULL, attack, &run);
	for (int i = 0; i < 20 || run.left; i++) {
		ck_assert_msg(probe(f.client, WAIT_LIMIT_MS) == ERR_OK, "Probe beside %s",
		              attacks[_i].what);
		after = rss_kb(pid);
		peak = after > peak ? after : peak;
		sleep_ms(5);
	}
	for (int i = 0; i < attacks[_i].connections; i++)
		pthread_join(threads[i], NULL);
	/* Memory is released a second later. */
	for (int i = 0; i < 500 && (after = rss_kb(pid)) > before + REST_KB / 2; i++)
		sleep_ms(10);
	if (getenv("FIGURES"))
		printf("%s: RSS %ld, %ld, %ld kB; %d of %d closed\n", attacks[_i].what, before,
		       peak, after, run.closed, attacks[_i].connections);
	ck_assert_msg(run.closed == attacks[_i].connections, "%s: %d of %d are closed",
	              attacks[_i].what, run.closed, attacks[_i].connections);
	ck_assert_msg(!MEMORY_COUNTS || peak < before + PEAK_KB, "%s: %ld kB, at its peak %ld kB",
	              attacks[_i].what, before, peak);
	ck_assert_msg(!MEMORY_COUNTS || after < before + REST_KB, "%s: %ld kB, then %ld kB",
	              attacks[_i].what, before, after);
	kill(pid, SIGTERM);
	ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

SUITE_TIMEOUT("rpc attacks", 120,
              LOOP(a_client_without_limits_is_closed_and_the_others_are_served,
                   ARRAY_LEN(attacks)));
