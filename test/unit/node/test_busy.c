/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmounts that the kernel refuses: of all processes that have the filesystem open, those that keep
 * this one mount busy are named.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/busy.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;

static void begin(const char *fs_type)
{
	struct nvme_disk *disk;
	struct stage_request r;

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
	run_tool("mkdir -p %s %s && mount --bind %s %s && mount --bind %s %s", w.target,
	         w.other_target, w.staging, w.target, w.staging, w.other_target);
}

static void end(void)
{
	run_tool("umount %s %s", w.other_target, w.staging);
	node_world_clear(&w);
}

static int unmount(const char *path, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct place p AUTO(place_clear) = PLACE_INIT;

	ck_assert_int_eq(mount_table_read("/proc", &t, err), 0);
	ck_assert_int_eq(place_look(&t, path, &p, err), 0);
	return busy_unmount(&w.node, &p, false, soon(), err);
}

static const char *const types[] = { "ext4", "xfs", "btrfs" };

START_TEST(only_who_holds_this_mount_is_named)
{
	struct err err = ERR_INIT;
	char *held AUTO(free) = NULL;
	int other, fd;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	held = xasprintf("held by pid %d (test_busy) has %s open: unmount ", (int)getpid(),
	                 w.target);
	other = open(w.other_target, O_RDONLY);
	fd = open(w.target, O_RDONLY);
	ck_assert(other >= 0 && fd >= 0);
	ck_assert_int_eq(unmount(w.target, &err), -1);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && str_has_prefix(err.msg, held), "%s", err.msg);
	err_clear(&err);
	close(fd);
	/* The other mount is not busy. */
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	close(other);
	end();
}
END_TEST

START_TEST(a_mount_below_is_named_before_any_process)
{
	struct err err = ERR_INIT;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	fd = open(w.target, O_RDONLY);
	run_tool("mkdir %s/sub && mount -t tmpfs none %s/sub", w.target, w.target);
	ck_assert_int_eq(unmount(w.target, &err), -1);
	ck_assert_msg(strstr(err.msg, "p1/target/sub is mounted below it: unmount ") != NULL, "%s",
	              err.msg);
	err_clear(&err);
	run_tool("umount %s/sub", w.target);
	close(TAKE_FD(fd));
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

SUITE_TIMEOUT("busy", 60, LOOP(only_who_holds_this_mount_is_named, ARRAY_LEN(types)),
              a_mount_below_is_named_before_any_process);
