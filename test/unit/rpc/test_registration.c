/* SPDX-License-Identifier: Apache-2.0 */
/* Registration on a host whose inotify limits are used up: in a user namespace with limit 0. */
#include "test/lib/suite.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "rpc/registration.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[8192]; /* under lines_lock */

static void keep_line(void *arg, const char *line)
{
	(void)arg;
	WITH_LOCK(&lines_lock);
	size_t n = strlen(lines);

	snprintf(lines + n, sizeof(lines) - n, "%s", line);
}

static bool logged(const char *text)
{
	WITH_LOCK(&lines_lock);
	return strstr(lines, text) != NULL;
}

/* Sets `limit` of this process's own user namespace (namespaces(7), /proc/sys/user) to 0. */
static void use_up(const char *limit)
{
	char *path AUTO(free) = xasprintf("/proc/sys/user/%s", limit);
	struct err err = ERR_INIT;

	ck_assert_int_eq(unshare(CLONE_NEWUSER), 0);
	ck_assert_msg(file_write("/proc/self/setgroups", "deny", &err) == 0 &&
	                      file_write("/proc/self/uid_map", "0 0 1", &err) == 0 &&
	                      file_write("/proc/self/gid_map", "0 0 1", &err) == 0 &&
	                      file_write(path, "0", &err) == 0,
	              "%s", err.msg);
}

START_TEST(without_inotify_the_driver_is_registered_as_well)
{
	static const char *const rows[][2] = {
		{ "max_inotify_instances", "fs.inotify.max_user_instances" },
		{ "max_inotify_watches", "fs.inotify.max_user_watches" },
	};
	char dir[] = "/tmp/registration-test-XXXXXX";
	char *folder AUTO(free) = NULL, *socket AUTO(free) = NULL;
	struct registration_options options = {
		.driver = "csi.example.com",
		.endpoint = "/csi.sock",
		.look_again_ms = 20,
	};
	struct registration *r = NULL;
	struct err err = ERR_INIT;

	SKIP_UNDER_TSAN();
	SKIP_UNLESS_ROOT("limits of a user namespace");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	use_up(rows[_i][0]);
	options.dir = folder = xasprintf("%s/registry", dir);
	socket = xasprintf("%s/csi.example.com-reg.sock", folder);
	log_redirect(keep_line, NULL);
	/* Neither a folder that appears later nor a socket that is removed needs an event. */
	ck_assert_msg(registration_start(&options, &r, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(mkdir(folder, 0755), 0);
	for (int i = 0; i < 3; i++) {
		WAIT_UNTIL(path_exists(socket));
		ck_assert_int_eq(unlink(socket), 0);
	}
	WAIT_UNTIL(path_exists(socket));
	WAIT_UNTIL(logged(rows[_i][1]));
	ck_assert_msg(!logged("it is tried again"), "%s", lines);
	registration_stop(r);
	ck_assert(!path_exists(socket));
	log_redirect(NULL, NULL);
	ck_assert_int_eq(rmdir(folder), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

SUITE("registration", LOOP(without_inotify_the_driver_is_registered_as_well, 2));
