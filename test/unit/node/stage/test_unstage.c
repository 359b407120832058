/* SPDX-License-Identifier: Apache-2.0 */
/* Unstaging: the removed objects, the refusals, and volumes that another driver has staged. */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/thread.h"
#include "node/target/guard.h"
#include "node/health.h"
#include "node/holders/holders.h"
#include "node/work/disk_record.h"
#include "node/work/state_file.h"
#include "node/host/recover.h"
#include "node/mount/mount.h"
#include "test/lib/fs_state.h"
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

static void stage(const char *fs_type)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	node_world_stage(&w, &r);
}

static void publish(const char *target, const char *fs_type)
{
	struct publish_request r = publish_request(&w, target, fs_type, MODE_SINGLE_NODE_WRITER);

	node_world_publish(&w, &r);
}

static void unstage_ok(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
}

static void unstage_refused_as(enum err_kind kind, enum err_code code, const char *text,
                               const char *also)
{
	struct err err = ERR_INIT;

	node_world_impatient(&w);
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err), -1);
	node_world_patient(&w);
	ck_assert_msg(err.code == code, "%s: %s", err_code_name(err.code), err.msg);
	ck_assert_msg(strstr(err.msg, text) && strstr(err.msg, also), "%s", err.msg);
	ck_assert_msg(err.kind == kind, "kind %d: %s", err.kind, err.msg);
}

static void unstage_refused_with(enum err_code code, const char *text, const char *also)
{
	unstage_refused_as(ERR_KIND_NONE, code, text, also);
}

static void unstage_refused(enum err_code code, const char *text)
{
	unstage_refused_with(code, text, "");
}

/* Refused because a process, mount or loop device holds the disk. */
static void unstage_held_with(enum err_code code, const char *text, const char *also)
{
	unstage_refused_as(ERR_KIND_HELD, code, text, also);
}

static void unstage_held(enum err_code code, const char *text)
{
	unstage_held_with(code, text, "");
}

static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };

/* kubelet's file beside the path identifies the volume; an unreadable file does not. */
START_TEST(the_path_of_another_volume_is_not_unmounted)
{
	static const struct {
		const char *file, *id;
		bool refused;
	} rows[] = {
		{ "{\"volumeHandle\": \"pvc-1\", \"driverName\": \"x\"}", "pvc-2", true },
		{ "{\"volumeHandle\": \"pvc-1\", \"driverName\": \"x\"}", "pvc-1", false },
		{ "{\"volumeHandle", "pvc-2", false },
		{ "{\"driverName\": \"x\"}", "pvc-2", false },
	};
	char *dir AUTO(free) = NULL, *path AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	dir = xasprintf("%s/plugins/kubernetes.io/csi/x/1", w.kubelet_dir);
	path = xasprintf("%s/globalmount", dir);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stage_request r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
		struct err err = ERR_INIT;
		int rc;

		r.staging_path = path;
		node_world_stage(&w, &r);
		run_tool("printf '%%s' '%s' > %s/vol_data.json", rows[i].file, dir);
		rc = node_unstage(&w.node, rows[i].id, path, soon(), &err);
		ck_assert_msg(rc == (rows[i].refused ? -1 : 0), "%s: %s", rows[i].file, err.msg);
		ck_assert_uint_eq(mounts_below(w.nvme.root), rows[i].refused);
		if (!rc)
			continue;
		ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "expected pvc-2"),
		              "%s", err.msg);
		err_clear(&err);
		ck_assert_msg(node_unstage(&w.node, VOLUME_ID, path, soon(), &err) == 0, "%s",
		              err.msg);
	}
	node_world_clear(&w);
}
END_TEST

START_TEST(what_was_staged_goes_and_again_is_fine)
{
	const char *type = types[_i];
	char *before AUTO(free) = NULL, *after AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	before = kubelet_tree(&w);
	stage(type);
	unstage_ok();
	after = kubelet_tree(&w);
	ck_assert_str_eq(after, before);
	unstage_ok();
	stage(type); /* the disk has a filesystem now: still not refused */
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(what_never_was_is_unstaged)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	unstage_ok();
	ck_assert_int_eq(node_unstage(&w.node, "no-such", "/nonexistent/path", soon(), &err), 0);
	ck_assert_int_eq(node_unstage(&w.node, "no-such", "relative/path", soon(), &err), 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_published_volume_stays_staged)
{
	const char *type = types[_i];
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	stage(type);
	publish(w.target, type);
	publish(w.other_target, type);
	unstage_held_with(ERR_PRECONDITION, "its disk is still mounted at ",
	                  " and 1 more place: end the pods that use it, or unmount it there");
	ck_assert_uint_eq(mounts_below(w.nvme.root), 3);
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.target, &err), 0);
	unstage_held_with(ERR_PRECONDITION, w.other_target, ": end the pod that uses it, or");
	ck_assert_int_eq(node_unpublish(&w.node, VOLUME_ID, w.other_target, &err), 0);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(a_subdirectory_bound_elsewhere_counts_as_use)
{
	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	run_tool("mkdir %s/sub %s/elsewhere && mount --bind %s/sub %s/elsewhere", w.staging,
	         w.nvme.root, w.staging, w.nvme.root);
	unstage_held(ERR_PRECONDITION, "/elsewhere");
	run_tool("umount %s/elsewhere", w.nvme.root);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(a_mount_point_seen_twice_is_not_use_elsewhere)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	/*
	 * The kubelet folder is bound to a second mountpoint and shared: each mount in it appears
	 * in both.
	 */
	run_tool("cd %s && mkdir mirror && mount --bind kubelet kubelet && mount --make-shared "
	         "kubelet "
	         "&& mount --bind kubelet mirror",
	         w.nvme.root);
	stage("ext4");
	ck_assert_uint_eq(mounts_below(w.nvme.root), 4);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 2);
	node_world_clear(&w);
}
END_TEST

START_TEST(layers_that_retries_have_stacked_all_go)
{
	SKIP_UNLESS_LOOP();
	begin();
	/* As the Go plugin leaves it on hosts whose devtmpfs is not called "udev". */
	run_tool("touch %s && mount --bind %s %s && mount --bind %s %s && mount --bind %s %s",
	         w.block_file, disk->node, w.block_file, disk->node, w.block_file, disk->node,
	         w.block_file);
	unstage_ok();
	ck_assert(!path_exists(w.block_file));
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_in_exclusive_use_stays)
{
	int holder;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	holder = open(disk->node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(holder, 0);
	unstage_held(ERR_PRECONDITION, "is in use");
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	close(holder);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/* A child that has the file open `often` times; it is ready when this returns. */
static pid_t open_often(const char *path, int flags, unsigned often)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open(path, flags, 0600);

		if (often > 1)
			close(disk->fd); /* the loop device, which the test keeps */
		for (unsigned i = 1; i < often && dup(fd) >= 0; i++)
			;
		if (fd < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static pid_t open_elsewhere(const char *path, int flags)
{
	return open_often(path, flags, 1);
}

static void let_go(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

START_TEST(raw_block_that_somebody_writes_stays)
{
	pid_t writer;
	char *name AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	/* The child also has the test's own descriptor of the disk, which is open for writing. */
	writer = open_elsewhere(disk->node, O_WRONLY);
	name = xasprintf("still open for writing: pid %d (test_unstage)", (int)writer);
	unstage_held(ERR_PRECONDITION, name);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	let_go(writer);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/* As threads and some runtimes do (CLONE_FILES). */
START_TEST(processes_that_share_their_open_files_are_named)
{
	char *name AUTO(free) = NULL, *other AUTO(free) = NULL;
	pid_t *pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct pollfd end = { .events = POLLIN };
	pid_t writer;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	writer = fork();
	if (writer == 0) { /* it has the test's own descriptor of the disk, open for writing */
		pid_t pid =
			(pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);

		if (pid)
			pids[0] = pid;
		else
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	while (*(volatile pid_t *)pids == 0)
		usleep(1000);
	name = xasprintf("pid %d (test_unstage) has the device open as ", (int)writer);
	other = xasprintf("pid %d (test_unstage) shares the open files of pid %d; end them, or",
	                  (int)pids[0], (int)writer);
	unstage_held_with(ERR_PRECONDITION, name, other);
	end.fd = (int)syscall(SYS_pidfd_open, pids[0], 0);
	ck_assert(pids[0] > 0 && end.fd >= 0);
	kill(pids[0], SIGKILL);
	ck_assert_int_eq(poll(&end, 1, 20000), 1); /* it is not this process's child */
	close(end.fd);
	let_go(writer);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * A child with more descriptors than a scan that only names holders reads: fewer here than in the
 * field, because concurrent tests scan them as well.
 */
static pid_t open_many(void)
{
	w.node.o.tuning.holders_files = 200;
	return open_often("/dev/null", O_RDONLY, 500);
}

START_TEST(a_writer_behind_many_descriptors_is_seen)
{
	pid_t many, writer;
	char *name AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	many = open_many();
	writer = open_elsewhere(disk->node, O_WRONLY);
	name = xasprintf("pid %d (test_unstage)", (int)writer);
	unstage_held(ERR_PRECONDITION, name);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	let_go(many);
	let_go(writer);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * Whichever file cannot be opened for lack of descriptors, no unstage unmounts while a process
 * writes.
 */
START_TEST(without_descriptors_nobody_is_taken_for_gone)
{
	struct rlimit was, few;
	struct err err = ERR_INIT;
	pid_t writer;
	int next;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	writer = open_elsewhere(disk->node, O_WRONLY);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	next = dup(0);
	close(next);
	for (int more = 0; more < 8; more++) {
		int rc;

		few = (struct rlimit) { (rlim_t)(next + more), was.rlim_max };
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		err_clear(&err);
		rc = node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
		ck_assert_msg(rc == -1, "unstaged with %d descriptors left", more);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	}
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "still open for writing"),
	              "%s", err.msg);
	let_go(writer);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/* A process that cannot be scanned completely may be the writer. */
START_TEST(a_process_that_cannot_be_looked_at_may_be_the_writer)
{
	char *proc AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	proc = xasprintf("%s/proc", w.nvme.root);
	run_tool("mkdir -p %s/8 && touch %s/8/fd && ln -s /proc/self /proc/sys %s", proc, proc,
	         proc);
	w.node.o.proc_root = proc;
	unstage_refused_with(ERR_UNAVAILABLE, "process 8: Not a directory",
	                     "could not determine whether a process writes to");
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	run_tool("rm %s/8/fd", proc);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

static pid_t capture_mounts(unsigned long how);

static pid_t write_partition(const struct nvme_part *p)
{
	return open_often(p->node, O_WRONLY, 2); /* without the disk itself */
}

static pid_t claim_partition(const struct nvme_part *p)
{
	return open_often(p->node, O_RDONLY | O_EXCL, 2);
}

static pid_t mount_partition_elsewhere(const struct nvme_part *p)
{
	pid_t pid;

	run_tool("mkfs.ext4 -q %s && mkdir %s/p && mount %s %s/p", p->node, w.nvme.root, p->node,
	         w.nvme.root);
	pid = capture_mounts(MS_PRIVATE);
	run_tool("umount %s/p", w.nvme.root);
	return pid;
}

static pid_t mount_partition_here(const struct nvme_part *p)
{
	run_tool("mkfs.ext4 -q %s && mkdir %s/p && mount %s %s/p", p->node, w.nvme.root, p->node,
	         w.nvme.root);
	return 0;
}

static const struct {
	const char *what;
	pid_t (*use)(const struct nvme_part *p);
	const char *text, *also;
} part_uses[] = {
	{ "a writer", write_partition, "is still open for writing: pid ",
	  "has the device open as " },
	{ "a claim", claim_partition, "is in use", "has the device open as " },
	{ "a mount in another mount namespace", mount_partition_elsewhere, "is in use",
	  "has it mounted at " },
	{ "a mount here", mount_partition_here, "is in use", "p1 is mounted at " },
};

START_TEST(a_partition_that_is_used_keeps_raw_block)
{
	struct nvme_part p;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	nvme_part_add(&w.nvme, disk, &p);
	holder = part_uses[_i].use(&p);
	unstage_held_with(ERR_PRECONDITION, part_uses[_i].text, part_uses[_i].also);
	if (holder)
		let_go(holder);
	else
		run_tool("umount %s/p", w.nvme.root);
	unstage_ok();
	nvme_part_remove(disk, &p);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_loop_device_over_a_partition_keeps_raw_block)
{
	struct loop_over loop;
	struct nvme_part p;
	int claim;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	nvme_part_add(&w.nvme, disk, &p);
	loop_over_attach(&loop, &w.nvme, p.node);
	claim = open(loop.node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(claim, 0);
	unstage_held_with(ERR_PRECONDITION, "still used through the loop device loop", loop.name);
	close(claim);
	loop_over_detach(&loop);
	unstage_ok();
	nvme_part_remove(disk, &p);
	node_world_clear(&w);
}
END_TEST

/*
 * A partition has a page cache of its own, which the kernel keeps while a process has the partition
 * open, even only for reading.
 */
START_TEST(a_partition_is_written_back)
{
	char bytes[64] = "written to the partition", found[64] = "";
	struct nvme_part p;
	pid_t reader;
	int fd;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	nvme_part_add(&w.nvme, disk, &p);
	reader = open_often(p.node, O_RDONLY, 2);
	fd = open(p.node, O_RDWR);
	ck_assert_int_eq(pwrite(fd, bytes, sizeof(bytes), 4 * MIB), sizeof(bytes));
	close(fd);
	unstage_ok();
	fd = open(disk->image, O_RDONLY);
	ck_assert_int_eq(pread(fd, found, sizeof(found), 5 * MIB), sizeof(found));
	close(fd);
	ck_assert_str_eq(found, bytes);
	let_go(reader);
	nvme_part_remove(disk, &p);
	node_world_clear(&w);
}
END_TEST

/* A partition without a node: either no process has it open, or it cannot be written back. */
START_TEST(a_partition_without_a_node_is_only_left_if_nobody_has_it_open)
{
	struct nvme_part p;
	pid_t reader;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	nvme_part_add(&w.nvme, disk, &p);
	reader = open_often(p.node, O_RDONLY, 2);
	run_tool("rm %s", p.node);
	unstage_refused(ERR_UNAVAILABLE, p.node);
	let_go(reader);
	unstage_ok();
	nvme_part_remove(disk, &p);
	node_world_clear(&w);
}
END_TEST

/* sysfs has the disk, but it cannot be opened, so its holders are unknown. */
START_TEST(a_disk_that_cannot_be_opened_stays)
{
	const char *type = _i ? "ext4" : NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage(type);
	run_tool("mv %s %s.away && mknod %s b 1 250", disk->node, disk->node, disk->node);
	unstage_refused_with(ERR_UNAVAILABLE, "could not determine whether the disk",
	                     "is the node of device 1:250");
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	run_tool("mv %s.away %s", disk->node, disk->node);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(raw_block_under_a_loop_device_in_use_stays)
{
	struct loop_over loop;
	char *map AUTO(free) = NULL;
	int claim;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	/* Kubelet's own bind of the device, with kubelet's loop device over it. */
	map = xasprintf("%s/map", w.nvme.root);
	run_tool("touch %s && mount --bind %s %s", map, disk->node, map);
	loop_over_attach(&loop, &w.nvme, map);
	run_tool("umount --lazy %s", map);
	claim = open(loop.node, O_RDONLY | O_EXCL);
	ck_assert_int_ge(claim, 0);
	unstage_held_with(ERR_PRECONDITION, "still used through the loop device loop", loop.name);
	close(claim);
	/* An unused loop device was left behind by kubelet: it does not keep a pod from ending. */
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert(!path_exists(w.block_file));
	loop_over_detach(&loop);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_loop_device_over_the_staged_file_itself_is_named)
{
	struct loop_over loop;
	char *name AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	loop_over_attach(&loop, &w.nvme, w.block_file);
	name = xasprintf("the loop device %s (over ", loop.name);
	unstage_held(ERR_UNAVAILABLE, name);
	loop_over_detach(&loop);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(what_is_mounted_below_is_named)
{
	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	run_tool("mkdir %s/sub && mount -t tmpfs none %s/sub", w.staging, w.staging);
	unstage_held(ERR_UNAVAILABLE, "staging/sub is mounted below it");
	run_tool("umount %s/sub", w.staging);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(an_open_file_keeps_the_filesystem)
{
	const char *type = types[_i];
	char *file AUTO(free) = NULL;
	char *holder AUTO(free) = NULL;
	pid_t pid;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	stage(type);
	file = xasprintf("%s/f", w.staging);
	pid = open_elsewhere(file, O_CREAT | O_WRONLY);
	holder = xasprintf("pid %d (test_unstage) has ", (int)pid);
	unstage_held_with(ERR_UNAVAILABLE, "Device or resource busy", holder);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	let_go(pid);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * A process with a mount namespace of its own, like a container that was started while the volume
 * was staged. how: MS_PRIVATE, or MS_SLAVE for one that sees unmounts.
 */
static pid_t capture_mounts(unsigned long how)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(disk->fd); /* the loop device, which the test keeps */
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | how, NULL) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static int mount_id(void)
{
	struct mount_table t AUTO(mount_table_clear) = MOUNT_TABLE_INIT;
	struct err err = ERR_INIT;
	const struct mount *m;

	ck_assert_int_eq(mount_table_read("/proc", &t, &err), 0);
	m = mount_at(&t, w.staging);
	return m ? m->id : -1;
}

START_TEST(a_captured_mount_is_refused_each_time)
{
	const char *type = types[_i];
	pid_t holder;
	char *name AUTO(free) = NULL;
	int id;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	stage(type);
	id = mount_id();
	holder = capture_mounts(MS_PRIVATE);
	name = xasprintf("pid %d (test_unstage) has it mounted at", (int)holder);
	for (int again = 0; again < 2; again++) {
		unstage_held_with(ERR_PRECONDITION, "another mount namespace", name);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
		ck_assert_int_eq(mount_id(), id); /* it was never unmounted */
	}
	let_go(holder);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

START_TEST(a_copy_that_our_unmount_reaches_holds_nothing)
{
	struct err err = ERR_INIT;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("cd %s && mount --bind kubelet kubelet && mount --make-shared kubelet",
	         w.nvme.root);
	stage("ext4");
	holder = capture_mounts(MS_SLAVE);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
	let_go(holder);
	node_world_clear(&w);
}
END_TEST

/* A child with a file open in a mount that was detached later: no mount shows it any more. */
static pid_t hold_unseen(void)
{
	char *file AUTO(free) = xasprintf("%s/copy/held", w.nvme.root);
	pid_t pid;

	run_tool("mkdir -p %s/copy && mount --bind %s %s/copy", w.nvme.root, w.staging,
	         w.nvme.root);
	pid = open_elsewhere(file, O_RDONLY);
	run_tool("umount --lazy %s/copy", w.nvme.root);
	return pid;
}

/*
 * Nothing is mounted again, in particular not with other options: nothing writes to the disk of a
 * reader-only volume, not even a replay of its journal.
 */
START_TEST(who_shows_only_after_the_unmount_is_waited_for_by_every_retry)
{
	const char *type = types[_i];
	char *name AUTO(free) = NULL, *left AUTO(free) = NULL;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	stage(type);
	run_tool("echo rows > %s/held", w.staging);
	holder = hold_unseen();
	name = xasprintf("pid %d (test_unstage) has ", (int)holder);
	for (int again = 0; again < 3; again++) {
		unstage_held_with(ERR_UNAVAILABLE, "its staging path is unmounted, but", name);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
		if (again == 1) { /* even a new driver knows it */
			node_clear(&w.node);
			node_init(&w.node, &w.node.o);
		}
	}
	let_go(holder);
	unstage_ok();
	left = xasprintf("test -z \"$(ls -A %s/unstaging)\"", w.plugin_dir);
	run_tool("%s", left);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_refused_unstage_writes_nothing_to_a_disk_that_is_only_read)
{
	const char *type = _i ? "xfs" : "ext4";
	struct stage_request r;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	/* A copy of the image taken while it is mounted has a journal to replay. */
	run_tool(
		"cd %s && mkdir m && mkfs.%s -q %s && mount %s m && echo rows > m/held && umount m "
		"&& mount %s m && echo more > m/more && sync -f m && cp %s dirty && umount m && "
		"dd if=dirty of=%s bs=1M conv=fsync status=none",
		w.nvme.root, type, disk->loop, disk->loop, disk->loop, disk->image, disk->loop);
	r = stage_request(&w, disk, type, MODE_MULTI_NODE_READER_ONLY);
	node_world_stage(&w, &r);
	holder = hold_unseen();
	unstage_held(ERR_UNAVAILABLE, "its staging path is unmounted");
	let_go(holder);
	unstage_ok();
	run_tool("blockdev --flushbufs %s && cmp %s/dirty %s", disk->loop, w.nvme.root,
	         disk->image);
	node_world_clear(&w);
}
END_TEST

START_TEST(the_mount_of_a_vanished_disk_goes_lazily)
{
	const char *type = types[_i];
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 320 * MIB);
	stage(type);
	/* A process still uses it: a plain unmount would permanently fail with EBUSY. */
	fd = open(type ? w.staging : w.block_file, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	nvme_world_hide(&w.nvme, disk);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

/*
 * Between the unmount and the check for holders: sysfs still has the disk, but its number no longer
 * has a driver.
 */
START_TEST(a_disk_that_died_after_the_unmount_is_waited_for_by_nobody)
{
	struct disk_record r = { .volume_id = VOLUME_ID };
	struct device dev;
	dev_t fs;
	struct err err = ERR_INIT;
	int fd;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_hide(&w.nvme, disk);
	disk->devno = makedev(259, 1048000);
	nvme_world_show(&w.nvme, disk);
	fd = open(disk->node, O_RDONLY);
	ck_assert(fd < 0 && errno == ENXIO);
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	r.dev = &dev;
	r.diskseq = dev.diskseq;
	r.fs = disk->devno;
	ck_assert_int_eq(disk_record_put_unstage(&w.node, &r, &err), 0);
	unstage_ok();
	ck_assert_int_eq(disk_record_read(&w.node, VOLUME_ID, DISK_RECORD_UNSTAGE, &dev, &fs, &err),
	                 DISK_RECORD_ABSENT);
	node_world_clear(&w);
}
END_TEST

START_TEST(the_driver_override_is_given_back)
{
	struct err err = ERR_INIT;
	char *path AUTO(free) = NULL, *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	path = xasprintf("%s/bus/pci/devices/%s/driver_override", w.nvme.sysfs, disk->pci);
	run_tool("echo nvme > %s", path);
	stage("ext4");
	unstage_ok();
	ck_assert_int_eq(file_read_line(path, 100, &text, &err), 0);
	ck_assert_str_eq(text, "(null)");
	node_world_clear(&w);
}
END_TEST

START_TEST(data_in_the_block_files_place_is_not_deleted)
{
	SKIP_UNLESS_LOOP();
	begin();
	run_tool("echo data > %s", w.block_file);
	unstage_refused(ERR_PRECONDITION, "is left alone");
	run_tool("grep -q data %s && rm %s && mkdir -p %s/sub/sub", w.block_file, w.block_file,
	         w.block_file);
	unstage_refused(ERR_PRECONDITION, "not empty (1 entries, among them sub)");
	run_tool("rmdir %s/sub/sub %s/sub", w.block_file, w.block_file);
	unstage_ok();
	ck_assert(!path_exists(w.block_file));
	node_world_clear(&w);
}
END_TEST

/* A folder of the driver on a filesystem of its own, which can be filled. */
static void put_plugin_dir_on(const char *fs_type)
{
	run_tool("mkdir -p %s", w.plugin_dir);
	if (!fs_type) {
		run_tool("mount -t tmpfs -o size=512k,mode=0755 full %s", w.plugin_dir);
		return;
	}
	run_tool("truncate -s 110M %s.image && mkfs.%s -q %s.image && mount -o loop %s.image %s",
	         w.plugin_dir, fs_type, w.plugin_dir, w.plugin_dir, w.plugin_dir);
}

static void fill_plugin_dir(void)
{
	run_tool("cd %s && for size in 1M 4k 512 1; do dd if=/dev/zero of=fill.$size bs=$size "
	         "2>/dev/null; sync -f . || true; done; ! dd if=/dev/zero of=more bs=4k count=1 "
	         "2>/dev/null",
	         w.plugin_dir);
}

/* As at a start of the driver. */
static void recover(void)
{
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	ck_assert_msg(node_recover_records(&w.node, &did, &unfinished, &err) == 0, "%s", err.msg);
}

static const char *const full_disks[] = { NULL, "ext4", "btrfs" };

START_TEST(a_full_disk_below_the_driver_keeps_no_volume_staged)
{
	struct err err = ERR_INIT;
	pid_t holder;

	SKIP_UNLESS_LOOP();
	begin();
	put_plugin_dir_on(full_disks[_i]);
	recover();
	stage("ext4");
	fill_plugin_dir();
	for (unsigned i = 0; i < STATE_FILE_SPARES + 2; i++) {
		ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
		              err.msg);
		stage("ext4");
	}
	/* The purpose of the record: even a new driver waits for holders of the disk. */
	run_tool("echo rows > %s/held", w.staging);
	holder = hold_unseen();
	unstage_held(ERR_UNAVAILABLE, "its staging path is unmounted, but");
	recover();
	unstage_held(ERR_UNAVAILABLE, "its staging path is unmounted, but");
	let_go(holder);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(mounts_below(w.kubelet_dir), 0);
	run_tool("test -z \"$(ls -A %s/unstaging)\" && umount %s", w.plugin_dir, w.plugin_dir);
	node_world_clear(&w);
}
END_TEST

/* Full from the first start: a volume must not be unmounted if a retry could not find its disk. */
START_TEST(without_room_for_a_record_the_volume_stays_and_the_text_says_where)
{
	char *text AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	put_plugin_dir_on("ext4");
	stage("ext4");
	fill_plugin_dir();
	text = xasprintf("make room on the disk of %s", w.plugin_dir);
	unstage_refused_with(ERR_UNAVAILABLE, text, "it stays staged");
	ck_assert_uint_eq(mounts_below(w.kubelet_dir), 1);
	run_tool("rm %s/fill.*", w.plugin_dir);
	recover();
	ck_assert_uint_eq(mounts_below(w.kubelet_dir), 1);
	run_tool("umount %s", w.plugin_dir);
	unstage_ok();
	node_world_clear(&w);
}
END_TEST

#define STACK (8 * 1024 * 1024) /* ThreadSanitizer uses half of it */
#define DEEP (256 * 1024)       /* stack used by the work before the wait */

/* A thread with a stack whose pages can be counted. */
static struct {
	void *stack;
	pthread_t thread;
	size_t before, at_fsync;
} resting;

static size_t resident(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
	unsigned char *map AUTO(free) = xcalloc(1, STACK / page + 1);

	ck_assert_int_eq(mincore(resting.stack, STACK, map), 0);
	for (size_t i = 0; i < STACK / page; i++)
		n += map[i] & 1;
	return n * page;
}

/* Replaces the C library's function for the driver: storage could hang here. */
int fsync(int fd)
{
	if (resting.stack && pthread_equal(pthread_self(), resting.thread))
		resting.at_fsync = resident();
	return (int)syscall(SYS_fsync, fd);
}

static __attribute__((noinline)) unsigned char work_deep(void)
{
	volatile unsigned char used[DEEP];

	for (size_t i = 0; i < sizeof(used); i += 512)
		used[i] = 7;
	return used[sizeof(used) / 2];
}

static void *unstage_after_work(void *arg)
{
	resting.thread = pthread_self();
	thread_begin();
	work_deep();
	resting.before = resident();
	unstage_ok();
	return arg;
}

START_TEST(a_call_that_waits_for_the_write_back_has_given_its_stack_back)
{
	pthread_attr_t attr;
	pthread_t thread;

	SKIP_UNLESS_LOOP();
	begin();
	stage(NULL);
	resting.stack =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(resting.stack != MAP_FAILED);
	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, resting.stack, STACK), 0);
	ck_assert_int_eq(pthread_create(&thread, &attr, unstage_after_work, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	ck_assert_uint_ge(resting.before, DEEP);
	ck_assert_uint_gt(resting.at_fsync, 0);
	ck_assert_uint_le(resting.at_fsync, resting.before - DEEP / 2);
	node_world_clear(&w);
}
END_TEST

static void stage_for(const char *fs_type, enum access_mode mode)
{
	struct stage_request r = stage_request(&w, disk, fs_type, mode);

	if (access_mode_is_reader_only(mode))
		run_tool("mkfs.%s -q %s", fs_type, disk->loop);
	node_world_stage(&w, &r);
}

/* A frozen superblock outlives its last mount, keeps the disk, and cannot be thawed then. */
START_TEST(a_frozen_filesystem_is_thawed_before_its_last_unmount)
{
	static const enum access_mode modes[] = { MODE_SINGLE_NODE_WRITER,
		                                  MODE_SINGLE_NODE_READER_ONLY };
	struct err err = ERR_INIT;
	struct health health;
	struct device dev;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	stage_for(types[_i % 3], modes[_i / 3]);
	fs_state_set(FS_STATE_FROZEN, types[_i % 3], disk->loop, w.staging);
	/* A probe blocked by the freeze keeps the mount busy until the thaw. */
	w.node.o.tuning.guard_ms = 200;
	ck_assert_int_eq(node_volume_health(&w.node, VOLUME_ID, NULL, w.staging, &health, &err), 0);
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &dev, &err), 0);
	unstage_ok();
	ck_assert_msg(device_open(&dev, O_RDONLY | O_EXCL, &fd, NULL, &err) == 0, "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

static int thaw_errno;
static int no_thaw(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	errno = thaw_errno;
	return -1;
}

static const struct {
	int sys;
	bool unmounted;
} thaw_rows[] = {
	{ EPERM, false },
	{ EMFILE, false },
	{ EBUSY, false },
	{ ETIMEDOUT, false },
	/* A dead filesystem cannot be opened, so it cannot be thawed; it is unmounted. */
	{ EIO, true },
	{ ESHUTDOWN, true },
};

START_TEST(what_cannot_be_thawed_stays_mounted_with_a_next_step)
{
	SKIP_UNLESS_LOOP();
	begin();
	stage("ext4");
	thaw_errno = thaw_rows[_i].sys;
	guard_set(w.node.guard, GUARD_THAW, no_thaw);
	if (thaw_rows[_i].unmounted) {
		unstage_ok();
	} else {
		unstage_refused_with(ERR_UNAVAILABLE, "fsfreeze -u ", w.staging);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 1);
		guard_set(w.node.guard, GUARD_THAW, NULL);
		unstage_ok();
	}
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT(
	"unstage", 60, the_path_of_another_volume_is_not_unmounted,
	LOOP(a_frozen_filesystem_is_thawed_before_its_last_unmount, 6),
	LOOP(what_cannot_be_thawed_stays_mounted_with_a_next_step, ARRAY_LEN(thaw_rows)),
	LOOP(what_was_staged_goes_and_again_is_fine, 4), LOOP(a_published_volume_stays_staged, 4),
	LOOP(an_open_file_keeps_the_filesystem, 3), LOOP(a_captured_mount_is_refused_each_time, 3),
	a_copy_that_our_unmount_reaches_holds_nothing,
	LOOP(who_shows_only_after_the_unmount_is_waited_for_by_every_retry, 3),
	LOOP(a_refused_unstage_writes_nothing_to_a_disk_that_is_only_read, 2),
	LOOP(the_mount_of_a_vanished_disk_goes_lazily, 4), what_never_was_is_unstaged,
	a_subdirectory_bound_elsewhere_counts_as_use, a_mount_point_seen_twice_is_not_use_elsewhere,
	layers_that_retries_have_stacked_all_go, raw_block_in_exclusive_use_stays,
	raw_block_that_somebody_writes_stays, processes_that_share_their_open_files_are_named,
	a_writer_behind_many_descriptors_is_seen, without_descriptors_nobody_is_taken_for_gone,
	a_process_that_cannot_be_looked_at_may_be_the_writer,
	LOOP(a_disk_that_cannot_be_opened_stays, 2), raw_block_under_a_loop_device_in_use_stays,
	LOOP(a_partition_that_is_used_keeps_raw_block, 4),
	a_loop_device_over_a_partition_keeps_raw_block, a_partition_is_written_back,
	a_partition_without_a_node_is_only_left_if_nobody_has_it_open,
	a_loop_device_over_the_staged_file_itself_is_named, what_is_mounted_below_is_named,
	a_disk_that_died_after_the_unmount_is_waited_for_by_nobody,
	LOOP(a_full_disk_below_the_driver_keeps_no_volume_staged, 3),
	without_room_for_a_record_the_volume_stays_and_the_text_says_where,
	a_call_that_waits_for_the_write_back_has_given_its_stack_back,
	the_driver_override_is_given_back, data_in_the_block_files_place_is_not_deleted);
