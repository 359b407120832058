/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices over a volume: real ones, over device nodes that exist and that were removed. */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/holders/loops.h"
#include "test/lib/loop_over.h"
#include "test/lib/nvme_world.h"
#include "test/lib/skip.h"

static struct nvme_world w;
static struct nvme_disk *disk;
static const struct partitions none = PARTITIONS_INIT;

static void look(size_t n_used, size_t n_idle, const char *text)
{
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	ck_assert_int_eq(loops_over(&w.world, &t, disk->devno, &none, &used, &idle, &err), 0);
	ck_assert_uint_eq(used.n, n_used);
	ck_assert_uint_eq(idle.n, n_idle);
	if (n_used + n_idle)
		ck_assert_msg(strstr(n_used ? used.v[0] : idle.v[0], text) != NULL, "%s",
		              n_used ? used.v[0] : idle.v[0]);
}

START_TEST(a_loop_is_known_by_the_number_of_what_it_is_over)
{
	struct loop_over loop;
	struct nvme_disk *other;
	char *node AUTO(free) = NULL;
	int claim;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	disk = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	other = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	node = xasprintf("%s/published", w.root);

	look(0, 0, "");
	run_tool("touch %s && mount --bind %s %s", node, other->node, node);
	loop_over_attach(&loop, &w, node);
	look(0, 0, "");
	loop_over_detach(&loop);

	run_tool("umount %s && mount --bind %s %s", node, disk->node, node);
	loop_over_attach(&loop, &w, node);
	look(0, 1, loop.name);
	/* Like kubelet's leftovers: the file is removed. */
	run_tool("umount --lazy %s && rm %s", node, node);
	look(0, 1, loop.name);
	claim = open(loop.node, O_RDONLY | O_EXCL | O_CLOEXEC);
	ck_assert_int_ge(claim, 0);
	look(1, 0, loop.name);
	close(claim);
	loop_over_detach(&loop);
	look(0, 0, "");
	nvme_world_clear(&w);
}
END_TEST

START_TEST(a_loop_over_a_file_server_is_not_asked)
{
	static const struct {
		const char *what, *fs_type;
		bool asked;
	} rows[] = {
		{ "a disk", "ext4", true },      { "device nodes", "devtmpfs", true },
		{ "NFS", "nfs4", false },        { "SMB", "cifs", false },
		{ "FUSE", "fuse.sshfs", false },
	};
	struct loop_over loop;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	disk = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	loop_over_attach(&loop, &w, disk->node);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
		struct mount m = { .target = w.dev, .fs_type = (char *)rows[i].fs_type };
		struct mount_table t = { .v = &m, .n = 1 };
		struct err err = ERR_INIT;

		ck_assert_int_eq(loops_over(&w.world, &t, disk->devno, &none, &used, &idle, &err),
		                 0);
		ck_assert_msg(idle.n == rows[i].asked, "%s", rows[i].what);
	}
	loop_over_detach(&loop);
	nvme_world_clear(&w);
}
END_TEST

START_TEST(without_loop_devices_there_is_none)
{
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	const struct device_world nowhere = { .sysfs = "/nonexistent", .dev = "/nonexistent" };
	struct mount_table t = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;

	ck_assert_int_eq(loops_over(&nowhere, &t, 1, &none, &used, &idle, &err), 0);
	ck_assert_uint_eq(used.n + idle.n, 0);
}
END_TEST

START_TEST(a_loop_that_cannot_be_asked_is_an_error)
{
	struct strs used AUTO(strs_clear) = STRS_INIT, idle AUTO(strs_clear) = STRS_INIT;
	struct mount_table t = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	struct loop_over loop;

	SKIP_UNLESS_LOOP();
	private_mounts();
	nvme_world_init(&w);
	disk = nvme_world_add(&w, 1, "", 16 * 1024 * 1024);
	loop_over_attach(&loop, &w, disk->node);
	run_tool("mount --bind /dev/null %s", loop.node);
	ck_assert_int_eq(loops_over(&w.world, &t, disk->devno, &none, &used, &idle, &err), -1);
	ck_assert_msg(strstr(err.msg, loop.node) != NULL, "%s", err.msg);
	ck_assert_uint_eq(used.n + idle.n, 0);
	run_tool("umount %s", loop.node);
	loop_over_detach(&loop);
	nvme_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("loops", 60, a_loop_is_known_by_the_number_of_what_it_is_over,
              a_loop_over_a_file_server_is_not_asked, without_loop_devices_there_is_none,
              a_loop_that_cannot_be_asked_is_an_error);
