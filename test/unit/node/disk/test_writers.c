/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers to a disk that is about to be staged. Those of a disk that is being unstaged:
 * test_unstage.c.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/disk/writers.h"
#include "test/lib/loop_over.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
}

/* A process that has the file open. */
static pid_t open_elsewhere(const char *path, int flags)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(disk->fd); /* the loop device, which the test keeps */
		if (open(path, flags) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void let_go(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void stage_refused(const struct stage_request *r, const char *text, size_t mounts)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(node_stage(&w.node, r, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, text), "%s: %s",
	              err_code_name(err.code), err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), mounts);
}

/* Dirty pages of the partition would be written over the new filesystem. */
START_TEST(a_disk_whose_partition_is_written_is_not_staged)
{
	struct stage_request r;
	struct nvme_part p;
	pid_t pid;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_part_add(&w.nvme, disk, &p);
	r = stage_request(&w, disk, _i ? "ext4" : NULL, MODE_SINGLE_NODE_WRITER);
	pid = open_elsewhere(p.node, O_WRONLY);
	stage_refused(&r, "is still open for writing: pid ", 0);
	let_go(pid);
	pid = open_elsewhere(p.node, O_RDONLY | O_EXCL);
	stage_refused(&r, "is in use", 0);
	let_go(pid);
	pid = open_elsewhere(p.node, O_RDONLY);
	node_world_stage(&w, &r);
	let_go(pid);
	node_world_clear(&w);
	free(p.node);
}
END_TEST

START_TEST(a_disk_whose_partition_is_below_a_loop_device_in_use_is_not_staged)
{
	struct loop_over loop;
	struct stage_request r;
	struct nvme_part p;
	int claim;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_part_add(&w.nvme, disk, &p);
	loop_over_attach(&loop, &w.nvme, p.node);
	claim = open(loop.node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(claim, 0);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	stage_refused(&r, "still used through the loop device loop", 1);
	close(claim);
	loop_over_detach(&loop);
	node_world_stage(&w, &r);
	node_world_clear(&w);
	free(p.node);
}
END_TEST

/* No scan of all processes: it would cost each stage more than the rest of the stage. */
START_TEST(processes_are_only_looked_at_for_a_disk_with_partitions)
{
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin();
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	w.node.o.proc_root = "/nonexistent";
	ck_assert_int_eq(writers_refuse_of_partitions(&w.node,
	                                              &(struct device) { .devno = disk->devno },
	                                              soon(), &(struct err)ERR_INIT),
	                 0);
	w.node.o.proc_root = "/proc";
	node_world_stage(&w, &r);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("writers", 60, LOOP(a_disk_whose_partition_is_written_is_not_staged, 2),
              a_disk_whose_partition_is_below_a_loop_device_in_use_is_not_staged,
              processes_are_only_looked_at_for_a_disk_with_partitions);
