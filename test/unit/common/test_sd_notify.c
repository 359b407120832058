/* SPDX-License-Identifier: Apache-2.0 */
/* The datagrams that a service manager receives, on sockets with both kinds of address. */
#include "test/lib/suite.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/sd_notify.h"

/* A manager that listens at this address. */
static int listen_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	size_t n = strlen(name);

	ck_assert_int_ge(fd, 0);
	memcpy(at.sun_path, name, n);
	if (*name == '@')
		at.sun_path[0] = '\0';
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at,
	                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
	                 0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void hears(int fd, const char *want)
{
	char got[200] = "";
	ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);

	ck_assert_int_eq(n, (ssize_t)strlen(want));
	ck_assert_str_eq(got, want);
}

START_TEST(a_path_and_an_abstract_name_are_addresses)
{
	char dir[] = "/tmp/test_sd_notify.XXXXXX", path[64], abstract[64];
	struct err err = ERR_INIT;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/socket", dir);
	fd = listen_at(path);
	ck_assert_msg(sd_notify_send("READY=1\nSTATUS=ready", &err) == 0, "%s", err.msg);
	hears(fd, "READY=1\nSTATUS=ready");
	close(fd);
	unlink(path);
	ck_assert_int_eq(sd_notify_send("WATCHDOG=1", &err), -1);
	rmdir(dir);
	snprintf(abstract, sizeof(abstract), "@test_sd_notify/%d", getpid());
	fd = listen_at(abstract);
	err_clear(&err);
	ck_assert_msg(sd_notify_send("WATCHDOG=1", &err) == 0, "%s", err.msg);
	hears(fd, "WATCHDOG=1");
	close(fd);
}
END_TEST

START_TEST(without_a_manager_nobody_is_told)
{
	struct err err = ERR_INIT;

	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(sd_notify_send("READY=1", &err), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	ck_assert_int_eq(sd_notify_send("READY=1", &err), 0);
}
END_TEST

static const char *const no_addresses[] = {
	"run/systemd/notify",
	"vsock:2:1234",
	"@",
	"/",
	"/a/path/that/is/longer/than/a/socket/may/have/0123456789/0123456789/0123456789/0123456789/"
	"0123456789/0123456789",
};

START_TEST(what_is_no_address_is_refused)
{
	struct err err = ERR_INIT;

	setenv("NOTIFY_SOCKET", no_addresses[_i], 1);
	ck_assert_int_eq(sd_notify_send("READY=1", &err), -1);
	ck_assert_int_eq(err.code, ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(err.msg, "NOTIFY_SOCKET="));
}
END_TEST

START_TEST(the_watchdog_is_this_process_own)
{
	char pid[32];

	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	ck_assert_int_eq(sd_notify_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	ck_assert_int_eq(sd_notify_watchdog_ms(), 15000);
	setenv("WATCHDOG_PID", "1", 1);
	ck_assert_int_eq(sd_notify_watchdog_ms(), 0);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	ck_assert_int_eq(sd_notify_watchdog_ms(), 15000);
	setenv("WATCHDOG_USEC", "soon", 1);
	ck_assert_int_eq(sd_notify_watchdog_ms(), 0);
}
END_TEST

SUITE("sd_notify", a_path_and_an_abstract_name_are_addresses, without_a_manager_nobody_is_told,
      LOOP(what_is_no_address_is_refused, ARRAY_LEN(no_addresses)),
      the_watchdog_is_this_process_own);
