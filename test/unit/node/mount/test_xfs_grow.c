/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of an xfs beside mounts that hang. */
#include "test/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/mem.h"
#include "node/mount/mkfs.h"
#include "node/mount/xfs_grow.h"
#include "test/lib/node_world.h"
#include "test/lib/share.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

static uint64_t blocks(const char *path)
{
	struct statvfs st;

	ck_assert_int_eq(statvfs(path, &st), 0);
	return st.f_blocks;
}

/* If a source is a path, tools compare the mount with the volume's. (ext4: CAP_SYS_RESOURCE.) */
START_TEST(a_mount_that_hangs_does_not_stop_growth)
{
	static const char *const types[] = { "xfs", "btrfs" };
	struct nvme_world w;
	struct share hung AUTO(share_end) = { .pid = 0 };
	struct err err = ERR_INIT;
	struct nvme_disk *d;
	char *at AUTO(free) = NULL, *folder AUTO(free) = NULL, *point AUTO(free) = NULL;
	uint64_t before;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	d = nvme_world_add(&w, 1, "", 400 * MIB);
	at = xasprintf("%s/at", w.root);
	folder = xasprintf("%s/folder", w.root);
	point = xasprintf("%s/hung", w.root);
	run_tool("mkdir %s %s && mkfs.%s -q %s", at, folder, types[_i], d->loop);
	share_start(&hung, "/dev/fuse", folder, point);
	run_tool("mount %s %s", d->node, at);
	before = blocks(at);
	nvme_world_resize(d, 800 * MIB);
	share_signal(&hung, SIGSTOP);
	ck_assert_msg(fs_grow(types[_i], d->node, at, wait_limit(), &err) == 0, "%s", err.msg);
	ck_assert_uint_gt(blocks(at), before * 3 / 2);
	/* Nothing to do. */
	ck_assert_msg(fs_grow(types[_i], d->node, at, wait_limit(), &err) == 0, "%s", err.msg);
	share_signal(&hung, SIGCONT);
	run_tool("umount %s", at);
	nvme_world_clear(&w);
}
END_TEST

START_TEST(what_is_no_xfs_is_not_grown)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(xfs_grow("/dev/null", "/proc", &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, "a filesystem other than xfs"),
	              "%s", err.msg);
	err_clear(&err);
	ck_assert_int_eq(xfs_grow("/dev/null", "/proc/none", &err), -1);
	ck_assert_msg(strstr(err.msg, "/proc/none") != NULL, "%s", err.msg);
}
END_TEST

SUITE_TIMEOUT("xfs grow", 120, LOOP(a_mount_that_hangs_does_not_stop_growth, 2),
              what_is_no_xfs_is_not_grown);
