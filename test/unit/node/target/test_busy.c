/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmounts that the kernel refuses: the error names only those processes with the filesystem open
 * that keep this one mount busy.
 */
#include "test/lib/suite.h"
#include "test/lib/wait.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/target/busy.h"
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

static int unmount_once(const char *path, struct err *err)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct mountpoint p AUTO(mountpoint_clear) = MOUNTPOINT_INIT;

	ck_assert_int_eq(mount_table_read("/proc", &t, err), 0);
	ck_assert_int_eq(mountpoint_read(&t, path, &p, err), 0);
	return busy_unmount(&w.node, &p, false, soon(), err);
}

/* The scan of all processes has two seconds; on a busy machine it may need another try. */
static int unmount(const char *path, struct err *err)
{
	int rc;

	for (int i = 0; (rc = unmount_once(path, err)) < 0 && i < 5; i++) {
		if (!strstr(err->msg, "there are more") && !strstr(err->msg, "no time was left"))
			break;
		err_clear(err);
	}
	return rc;
}

static void unmount_refused(struct err *err)
{
	node_world_impatient(&w);
	ck_assert_int_eq(unmount(w.target, err), -1);
	node_world_patient(&w);
}

/* A child that has the directory open; it is ready when this returns. */
static pid_t open_elsewhere(const char *path)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (open(path, O_RDONLY | O_DIRECTORY) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void let_go(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static const char *const types[] = { "ext4", "xfs", "btrfs" };

START_TEST(only_who_holds_this_mount_is_named)
{
	struct err err = ERR_INIT;
	char *held AUTO(free) = NULL;
	pid_t other, pid;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	other = open_elsewhere(w.other_target);
	pid = open_elsewhere(w.target);
	held = xasprintf("pid %d (test_busy) has %s open; end it, or wait for it to end: unmount ",
	                 (int)pid, w.target);
	unmount_refused(&err);
	ck_assert_msg(err.code == ERR_UNAVAILABLE && str_has_prefix(err.msg, held), "%s", err.msg);
	err_clear(&err);
	let_go(pid);
	/* The other mount is not busy. */
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	let_go(other);
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
	unmount_refused(&err);
	ck_assert_msg(strstr(err.msg, "p1/target/sub is mounted below it: unmount ") != NULL, "%s",
	              err.msg);
	err_clear(&err);
	run_tool("umount %s/sub", w.target);
	close(TAKE_FD(fd));
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

/* The kernel holds the filesystem, not a process. */
START_TEST(a_loop_device_over_a_file_of_it_is_named)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	run_tool("cd %s && truncate -s 1M img && l=$(losetup -f --show $PWD/img) && n=${l##*/} && "
	         "cp -a $l %s/$n && cd %s && mkdir -p block/$n/loop && "
	         "echo %s/img >block/$n/loop/backing_file",
	         w.target, w.nvme.world.dev, w.nvme.world.sysfs, w.target);
	unmount_refused(&err);
	ck_assert_msg(strstr(err.msg, "/img) uses it (losetup -d") != NULL, "%s", err.msg);
	err_clear(&err);
	/* Not by losetup -j, which opens the loop devices of other tests, and one may hang. */
	run_tool(
		"cd %s/block && losetup -d /dev/$(grep -lx %s/img */loop/backing_file | cut -d/ -f1)",
		w.nvme.world.sysfs, w.target);
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

/* A /proc of its own, with this file as swap. */
static void swap_on(const char *file)
{
	static char proc[300];

	snprintf(proc, sizeof(proc), "%s/proc", w.nvme.root);
	run_tool("mkdir -p %s && ln -sfn /proc/self %s/self && "
	         "printf 'Filename Type Size Used Priority\n%%s file 1020 0 -2\n' %s >%s/swaps",
	         proc, proc, file, proc);
	w.node.o.proc_root = proc;
}

START_TEST(a_swap_file_on_it_is_named)
{
	char *file AUTO(free) = NULL;
	struct err err = ERR_INIT;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin(types[_i]);
	file = xasprintf("%s/swap", w.target);
	holder = open_elsewhere(w.target); /* as swapon(2) has its file open */
	swap_on(file);
	unmount_refused(&err);
	ck_assert_msg(strstr(err.msg, "/swap is on it (swapoff frees it)") != NULL, "%s", err.msg);
	err_clear(&err);
	swap_on("/swap");
	unmount_refused(&err);
	ck_assert_msg(strstr(err.msg, "swapoff frees") == NULL, "%s", err.msg);
	err_clear(&err);
	let_go(holder);
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

/* Closes the given descriptor a third of a second later. */
static void *close_later(void *fd)
{
	usleep(300000);
	close(*(int *)fd);
	return NULL;
}

START_TEST(who_is_gone_in_a_moment_is_waited_for)
{
	struct err err = ERR_INIT;
	pthread_t thread;
	int fd;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	fd = open(w.target, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	w.node.o.tuning.busy_ms = WAIT_LIMIT_MS;
	ck_assert_int_eq(pthread_create(&thread, NULL, close_later, &fd), 0);
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	pthread_join(thread, NULL);
	end();
}
END_TEST

START_TEST(this_driver_does_not_name_itself)
{
	struct err err = ERR_INIT;
	int fd;

	SKIP_UNLESS_LOOP();
	begin("ext4");
	fd = open(w.target, O_RDONLY);
	unmount_refused(&err);
	ck_assert_msg(err.code == ERR_UNAVAILABLE &&
	                      str_has_prefix(err.msg, "only this driver has it open"),
	              "%s", err.msg);
	close(fd);
	err_clear(&err);
	ck_assert_msg(unmount(w.target, &err) == 0, "%s", err.msg);
	end();
}
END_TEST

SUITE_TIMEOUT("busy", 60, LOOP(only_who_holds_this_mount_is_named, ARRAY_LEN(types)),
              a_mount_below_is_named_before_any_process,
              LOOP(a_loop_device_over_a_file_of_it_is_named, 3),
              LOOP(a_swap_file_on_it_is_named, 3), who_is_gone_in_a_moment_is_waited_for,
              this_driver_does_not_name_itself);
