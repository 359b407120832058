/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the liveness probe (snap-csi-plugin --probe): it distinguishes ready drivers from
 * others, and always ends in time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/deadline.h"
#include "rpc/rpc_probe.h"
#include "test/lib/rpc_fixture.h"
#include "test/lib/wait.h"

static void check_refused(const char *what, const char *path, int timeout_ms)
{
	struct err err = ERR_INIT;
	ck_assert_msg(rpc_probe(path, timeout_ms, &err) == -1, "%s: it is called well", what);
	ck_assert_msg(strstr(err.msg, path) != NULL, "%s: \"%s\" does not name the socket", what,
	              err.msg);
}

START_TEST(a_driver_that_serves_is_well)
{
	SETUP(f);
	struct err err = ERR_INIT;
	ck_assert_msg(!rpc_probe(f.path, WAIT_LIMIT_MS, &err), "%s", err.msg);
	ck_assert_msg(!rpc_probe(f.path, WAIT_LIMIT_MS, &err), "the second time: %s", err.msg);
}
END_TEST

/* A long stage must not get the driver killed. */
START_TEST(a_driver_that_takes_no_more_calls_is_well)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct rpc_pending *busy[2];
	struct rpc_answer answer;
	struct err err = ERR_INIT;

	rpc_fixture_init(&f);
	f.options.max_calls = 2;
	rpc_fixture_start(&f);
	for (size_t i = 0; i < ARRAY_LEN(busy); i++)
		busy[i] = stage_start(f.client, i ? "b" : "a", "sleep:86400000", -1);
	ck_assert(reaches(&f.stub.entered, 2));
	ck_assert_msg(!rpc_probe(f.path, WAIT_LIMIT_MS, &err), "%s", err.msg);
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		rpc_pending_cancel(busy[i]);
		rpc_pending_wait(busy[i], &answer);
		rpc_answer_clear(&answer);
	}
}
END_TEST

START_TEST(nobody_at_the_socket_is_refused_at_once)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	rpc_fixture_init(&f);
	check_refused("no socket", f.path, WAIT_LIMIT_MS);
}
END_TEST

/* Accepts connections and never sends a byte, like a driver whose threads hang. */
START_TEST(a_driver_that_hangs_is_refused_at_the_deadline)
{
	struct rpc_fixture f AUTO(rpc_fixture_clear);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd AUTO(fd) = socket(AF_UNIX, SOCK_STREAM, 0);

	rpc_fixture_init(&f);
	memcpy(address.sun_path, f.path, strlen(f.path) + 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	check_refused("a socket that does not answer", f.path, 300);
	unlink(f.path);
}
END_TEST

SUITE("probe", a_driver_that_serves_is_well, a_driver_that_takes_no_more_calls_is_well,
      nobody_at_the_socket_is_refused_at_once, a_driver_that_hangs_is_refused_at_the_deadline);
