/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of --state: files that the next start removes, and directories that are refused. */
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/sim/fabric/loopdev.h"
#include "test/sim/fabric/state_dir.h"
#include "test/sim/test/harness.h"

static char base[] = "/var/tmp/snap-sim-test-XXXXXX";
static char state[64]; /* base/state */

START_TEST(what_a_killed_process_left_is_removed)
{
	char *image AUTO(free) = NULL;
	char *rest AUTO(free) = xasprintf("%s/one", state);
	struct state_dir first, second;
	struct loopdev loop;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	ck_assert_msg(state_dir_open(state, &first, &err) == 0, "%s", err.msg);
	image = state_dir_image(&first, "ns", "v");
	ck_assert_int_eq(file_replace(image, "", 0, 0600, &err), 0);
	ck_assert_int_eq(truncate(image, 1024 * 1024), 0);
	ck_assert_msg(loopdev_attach(image, 512, &loop, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(dir_make(rest, 0755, &err), 0);
	ck_assert(loopdev_is_over(image));
	ck_assert_int_eq(state_dir_open(state, &second, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "in use by another snap-sim (process "));
	err_clear(&err);
	close(first.lock_fd); /* as the kernel does for a killed process */
	ck_assert_msg(state_dir_open(state, &second, &err) == 0, "%s", err.msg);
	ck_assert(!path_exists(image));
	ck_assert(!path_exists(rest));
	state_dir_close(&second);
	free(first.path);
	ck_assert(!loop_is_below(loop.number, base));
}
END_TEST

START_TEST(directories_that_cannot_be_used_are_refused)
{
	char *dir AUTO(free) = xasprintf("%s/other", base);
	char *file AUTO(free) = xasprintf("%s/file", dir);
	char *want AUTO(free) = xasprintf("is on the mount %s, which has the option nodev", dir);
	struct state_dir s;
	struct err err = ERR_INIT;
	int rc;

	SKIP_UNLESS_ROOT("mounts a tmpfs");
	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(file, "", 0, 0600, &err), 0);
	ck_assert_int_eq(state_dir_open(dir, &s, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "has files that are not snap-sim's (file ...)"));
	err_clear(&err);
	ck_assert(path_exists(file));
	ck_assert_int_eq(mount("none", dir, "tmpfs", MS_NODEV, ""), 0);
	rc = state_dir_open(dir, &s, &err);
	umount2(dir, MNT_DETACH);
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(strstr(err.msg, want), "%s", err.msg);
	unlink(file);
	rmdir(dir);
}
END_TEST

static int make_base(int argc, char **argv)
{
	(void)argc, (void)argv;
	if (!mkdtemp(base))
		return -1;
	snprintf(state, sizeof(state), "%s/state", base);
	return 0;
}

static void remove_base(void)
{
	state_remove(base, state);
}

SUITE_AROUND("sim state", 60, make_base, remove_base, what_a_killed_process_left_is_removed,
             directories_that_cannot_be_used_are_refused);
