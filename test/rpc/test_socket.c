/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket itself: its path, its mode, the bytes that a client must send first, the number of
 * connections. Raw connections, no client library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/file.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

static int connect_raw(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Does the server send bytes (1), close (0), or neither (-1) within ms? */
static int answer_within(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	if (poll(&p, 1, ms) == 0)
		return -1;
	return recv(fd, &byte, 1, 0) == 1;
}

static int try_start(struct rpc_fixture *f, struct err *err)
{
	return rpc_server_start(&f->options, f->stub.services, ARRAY_LEN(f->stub.services),
	                        &f->server, err);
}

static size_t names_in(const char *dir)
{
	struct strs names AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(dir_list(dir, &names, &err), 0);
	return names.n;
}

START_TEST(the_mode_is_0600)
{
	SETUP(f);
	struct stat st;

	ck_assert_int_eq(lstat(f.path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_eq(names_in(f.dir), 1); /* no temporary name is left */
}
END_TEST

START_TEST(mode_and_group_can_be_chosen)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct stat st;

	rpc_fixture_init(&f);
	f.options.socket_mode = 0660;
	f.options.socket_group = getgid();
	rpc_fixture_start(&f);
	ck_assert_int_eq(lstat(f.path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0660);
	ck_assert_uint_eq(st.st_gid, getgid());
}
END_TEST

START_TEST(the_umask_does_not_matter)
{
	mode_t before = umask(0);
	SETUP(f);
	struct stat st;

	umask(before);
	ck_assert_int_eq(lstat(f.path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(a_file_at_the_path_is_refused_and_kept)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	char *text AUTO(free) = NULL;
	struct err err = ERR_INIT;

	rpc_fixture_init(&f);
	ck_assert_int_eq(file_replace(f.path, "precious", 8, 0644, &err), 0);
	ck_assert_int_eq(try_start(&f, &err), -1);
	ck_assert_int_eq(err.code, ERR_PRECONDITION);
	ck_assert_msg(strstr(err.msg, "is a regular file, not a socket") != NULL, "%s", err.msg);
	err_clear(&err);
	ck_assert_int_eq(file_read(f.path, 100, &text, NULL, &err), 0);
	ck_assert_str_eq(text, "precious");
	ck_assert_uint_eq(names_in(f.dir), 1);
}
END_TEST

START_TEST(a_symbolic_link_at_the_path_is_refused_and_kept)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct err err = ERR_INIT;
	struct stat st;

	rpc_fixture_init(&f);
	ck_assert_int_eq(symlink("/nowhere", f.path), 0);
	ck_assert_int_eq(try_start(&f, &err), -1);
	ck_assert_msg(strstr(err.msg, "is a symbolic link, not a socket") != NULL, "%s", err.msg);
	ck_assert(lstat(f.path, &st) == 0 && S_ISLNK(st.st_mode));
}
END_TEST

START_TEST(a_directory_at_the_path_is_refused)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct err err = ERR_INIT;

	rpc_fixture_init(&f);
	ck_assert_int_eq(mkdir(f.path, 0700), 0);
	ck_assert_int_eq(try_start(&f, &err), -1);
	ck_assert_msg(strstr(err.msg, "is a directory, not a socket") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(a_path_that_no_socket_can_have_is_refused)
{
	char long_name[200];
	const char *const paths[] = { "", "/tmp/", "/nonexistent-directory/csi.sock", long_name };
	const int codes[] = { ERR_INVALID, ERR_INVALID, ERR_NOT_FOUND, ERR_INVALID };

	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[0] = '/';
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct rpc_fixture f AUTO(rpc_fixture_clear);
		struct err err = ERR_INIT;

		rpc_fixture_init(&f);
		f.options.path = paths[i];
		ck_assert_int_eq(try_start(&f, &err), -1);
		ck_assert_msg((int)err.code == codes[i], "%s: %d %s", paths[i], (int)err.code,
		              err.msg);
	}
}
END_TEST

START_TEST(a_relative_path_serves)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	char before[PATH_MAX];

	rpc_fixture_init(&f);
	ck_assert_ptr_nonnull(getcwd(before, sizeof(before)));
	ck_assert_int_eq(chdir(f.dir), 0);
	f.options.path = "csi.sock";
	rpc_fixture_start(&f);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
	rpc_server_stop(f.server, 1000);
	f.server = NULL;
	ck_assert_int_ne(access(f.path, F_OK), 0);
	ck_assert_int_eq(chdir(before), 0);
}
END_TEST

START_TEST(a_foreign_file_is_not_removed_by_a_stop)
{
	SETUP(f);
	struct err err = ERR_INIT;

	ck_assert_int_eq(unlink(f.path), 0);
	ck_assert_int_eq(file_replace(f.path, "x", 1, 0600, &err), 0);
	rpc_server_stop(f.server, 1000);
	f.server = NULL;
	ck_assert_int_eq(access(f.path, F_OK), 0);
}
END_TEST

/* ---- the preface ---- */

static void setup_impatient(struct rpc_fixture *f, unsigned max_connections)
{
	rpc_fixture_init(f);
	f->options.preface_timeout_ms = 400;
	f->options.max_connections = max_connections;
	rpc_fixture_start(f);
}

START_TEST(a_silent_client_is_closed)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	setup_impatient(&f, 0);
	fd = connect_raw(f.path);
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 0);
	ck_assert_int_eq(probe(f.client, WAIT_LIMIT_MS), ERR_OK);
}
END_TEST

START_TEST(a_client_that_stops_in_the_middle_is_closed)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	setup_impatient(&f, 0);
	fd = connect_raw(f.path);
	ck_assert_int_eq(send(fd, PREFACE, 10, 0), 10);
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 0);
}
END_TEST

START_TEST(a_preface_without_settings_is_closed)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	setup_impatient(&f, 0);
	fd = connect_raw(f.path);
	ck_assert_int_eq(send(fd, PREFACE, sizeof(PREFACE) - 1, 0), sizeof(PREFACE) - 1);
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 0);
}
END_TEST

START_TEST(something_else_than_settings_is_closed_at_once)
{
	static const char words[] = PREFACE "\x00\x00\x08\x06\x00\x00\x00\x00\x00";
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	rpc_fixture_init(&f);
	f.options.preface_timeout_ms = 300000;
	rpc_fixture_start(&f);
	fd = connect_raw(f.path);
	ck_assert_int_eq(send(fd, words, sizeof(words) - 1, 0), sizeof(words) - 1);
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 0);
}
END_TEST

/* Reads until the server closes: true; 20 s. */
static bool is_closed(int fd)
{
	for (int i = 0; i < 1000; i++) {
		int rc = answer_within(fd, WAIT_LIMIT_MS);

		if (rc <= 0)
			return rc == 0;
	}
	return false;
}

START_TEST(who_does_not_acknowledge_settings_is_closed)
{
	static const char words[] = PREFACE SETTINGS;
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	rpc_fixture_init(&f);
	f.options.ack_timeout_ms = 300;
	rpc_fixture_start(&f);
	fd = connect_raw(f.path);
	ck_assert_int_eq(send(fd, words, sizeof(words) - 1, 0), sizeof(words) - 1);
	ck_assert(is_closed(fd));
}
END_TEST

START_TEST(first_words_may_come_in_pieces)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	static const char words[] = PREFACE SETTINGS;
	int fd AUTO(fd) = -1;

	rpc_fixture_init(&f);
	rpc_fixture_start(&f);
	fd = connect_raw(f.path);
	for (size_t i = 0; i < sizeof(words) - 1; i++) {
		ck_assert_int_eq(send(fd, &words[i], 1, 0), 1);
		sleep_ms(2);
	}
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 1); /* the server's SETTINGS */
}
END_TEST

START_TEST(another_protocol_is_closed_at_once)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fd AUTO(fd) = -1;

	rpc_fixture_init(&f);
	f.options.preface_timeout_ms = 300000;
	rpc_fixture_start(&f);
	fd = connect_raw(f.path);
	ck_assert_int_eq(send(fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
	ck_assert_int_eq(answer_within(fd, WAIT_LIMIT_MS), 0);
}
END_TEST

/* ---- the number of connections ---- */

START_TEST(connections_have_a_cap_and_the_closed_ones_do_not_count)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	static const char words[] = PREFACE SETTINGS;
	int fds[3], extra;

	rpc_fixture_init(&f);
	f.options.max_connections = 3;
	f.options.preface_timeout_ms = 300000; /* the limit, not the timeout, closes the fourth */
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = connect_raw(f.path);
		ck_assert_int_eq(send(fds[i], words, sizeof(words) - 1, 0), sizeof(words) - 1);
		ck_assert_int_eq(answer_within(fds[i], WAIT_LIMIT_MS), 1);
	}
	extra = connect_raw(f.path);
	ck_assert_int_eq(answer_within(extra, WAIT_LIMIT_MS), 0);
	close(extra);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	ck_assert(serves_again(f.client));
}
END_TEST

START_TEST(silent_connections_count_and_time_out)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	int fds[8];

	setup_impatient(&f, 4);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = connect_raw(f.path);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		ck_assert_int_eq(answer_within(fds[i], WAIT_LIMIT_MS), 0);
	ck_assert(serves_again(f.client));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}
END_TEST

START_TEST(a_hundred_connections_one_after_the_other)
{
	SETUP(f);

	for (int i = 0; i < 100; i++) {
		struct rpc_client *c =
			rpc_client_new(&(struct rpc_client_options) { .path = f.path });

		ck_assert_int_eq(probe(c, WAIT_LIMIT_MS), ERR_OK);
		rpc_client_free(c);
	}
}
END_TEST

SUITE_TIMEOUT("rpc socket", 60, the_mode_is_0600, mode_and_group_can_be_chosen,
              the_umask_does_not_matter, a_file_at_the_path_is_refused_and_kept,
              a_symbolic_link_at_the_path_is_refused_and_kept, a_directory_at_the_path_is_refused,
              a_path_that_no_socket_can_have_is_refused, a_relative_path_serves,
              a_foreign_file_is_not_removed_by_a_stop, a_silent_client_is_closed,
              a_client_that_stops_in_the_middle_is_closed, first_words_may_come_in_pieces,
              another_protocol_is_closed_at_once, a_preface_without_settings_is_closed,
              something_else_than_settings_is_closed_at_once,
              who_does_not_acknowledge_settings_is_closed,
              connections_have_a_cap_and_the_closed_ones_do_not_count,
              silent_connections_count_and_time_out, a_hundred_connections_one_after_the_other);
