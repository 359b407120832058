/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The holders of a volume: real processes that hold it in each possible way, and a recorded /proc
 * for states that cannot be created here.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/holders/holders.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/tree.h"
#include "test/lib/wait.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;

static void begin(void)
{
	struct stage_request r;

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
	run_tool("touch %s/file && mkdir %s/dir && cp /bin/sleep %s/program", w.staging, w.staging,
	         w.staging);
}

static void end(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	node_world_clear(&w);
}

static int open_in(const char *name, int flags)
{
	char *path AUTO(free) = xasprintf("%s/%s", w.staging, name);

	return open(path, flags);
}

/* ---- the ways to hold a volume; in a child ---- */

static int a_file(void)
{
	return open_in("file", O_RDONLY);
}

static int to_work_there(void)
{
	char *path AUTO(free) = xasprintf("%s/dir", w.staging);

	return chdir(path);
}

/* The path is longer than the kernel can return. Any process can create one. */
static int a_deep_file(void)
{
	static const char name[] = "a-directory-with-a-name-that-is-as-long-as-it-can-be-without-"
				   "being-more-than-a-line-of-this-file";

	if (to_work_there())
		return -1;
	for (size_t len = 0; len <= PATH_MAX; len += sizeof(name))
		if (mkdir(name, 0700) || chdir(name))
			return -1;
	if (open("deep", O_CREAT | O_WRONLY, 0600) < 0)
		return -1;
	return chdir("/");
}

static int a_deleted_file(void)
{
	char *path AUTO(free) = xasprintf("%s/deleted", w.staging);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	unlink(path);
	return fd;
}

static int a_directory(void)
{
	return open_in("dir", O_RDONLY | O_DIRECTORY);
}

static int as_root(void)
{
	return chroot(w.staging);
}

static int the_device(void)
{
	return open(disk->node, O_RDONLY);
}

static int the_device_to_write(void)
{
	return open(disk->node, O_RDWR);
}

static int a_mount_namespace(void)
{
	return unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int nothing(void)
{
	return 0;
}

/* A child that holds the volume, and reports when it does. */
static pid_t hold(int (*how)(void))
{
	int ready[2];
	char byte = 'n';
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(disk->fd); /* the loop device itself, which the test keeps */
		prctl(PR_SET_NAME, "a hol\nder");
		byte = how() < 0 ? 'n' : 'y';
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 'y');
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void let_go(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct holders_query query(void)
{
	return (struct holders_query) { .proc_root = "/proc",
		                        .disk = disk->devno,
		                        .fs = disk->devno,
		                        .mounts = true,
		                        .ms = WAIT_LIMIT_MS };
}

static bool names(const struct holders *h, pid_t pid, const char *text)
{
	char *start AUTO(free) = xasprintf("pid %d (a hol?der) %s", (int)pid, text);

	for (size_t i = 0; i < h->first.n; i++)
		if (strstr(h->first.v[i], start))
			return true;
	return false;
}

static const struct {
	const char *what;
	int (*how)(void);
	const char *text; /* NULL: not found; %s is the staging path */
	const char *end;
	bool writes;
} ways[] = {
	{ "an open file", a_file, "has %s/file", " open", false },
	{ "a deleted file", a_deleted_file, "has %s/deleted (deleted)", " open", false },
	{ "a file of a long path", a_deep_file, "has /... (its path is too long to be shown)",
	  " open", false },
	{ "a directory", a_directory, "has %s/dir", " open", false },
	{ "a working directory", to_work_there, "has its working directory in %s/dir", "", false },
	{ "a root", as_root, "has %s", " as its root", false },
	{ "the device", the_device, "has the device open as ", "", false },
	{ "the device, to write", the_device_to_write, "has the device open as ", "", true },
	{ "a mount namespace", a_mount_namespace, "has it mounted at %s",
	  " in a mount namespace of its own", false },
	{ "a process that has nothing to do with it", nothing, NULL, "", false },
};

START_TEST(each_way_to_hold_it_is_named)
{
	SKIP_UNLESS_LOOP();
	begin();
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct holders h AUTO(holders_clear) = { 0 };
		struct holders writers AUTO(holders_clear) = { 0 };
		struct holders_query q = query();
		const char *at = ways[i].text ? strstr(ways[i].text, "%s") : NULL;
		char *text AUTO(free) =
			!at ? xstrdup(ways[i].text ? ways[i].text : "")
			    : xasprintf("%.*s%s%s%s", (int)(at - ways[i].text), ways[i].text,
		                        w.staging, at + 2, ways[i].end);
		pid_t pid = hold(ways[i].how);

		holders_find(&q, soon(), &h);
		ck_assert_msg(names(&h, pid, text) == (ways[i].text != NULL), "%s: %s",
		              ways[i].what, h.first.n ? h.first.v[h.first.n - 1] : "nobody");
		q.writers = true;
		holders_find(&q, soon(), &writers);
		ck_assert_msg(writers.n == (ways[i].writes ? 1 : 0), "%s: %u", ways[i].what,
		              writers.n);
		ck_assert(!h.cut && h.processes > 1);
		ck_assert_msg(!*h.unseen && !*writers.unseen, "%s: %s%s", ways[i].what, h.unseen,
		              writers.unseen);
		let_go(pid);
	}
	end();
}
END_TEST

static int a_character_device(void)
{
	return open("/dev/full", O_RDWR);
}

START_TEST(who_has_a_character_device_open_is_named)
{
	struct holders h AUTO(holders_clear) = { 0 }, none AUTO(holders_clear) = { 0 };
	struct holders_query q = { .proc_root = "/proc",
		                   .disk = makedev(1, 7),
		                   .ms = WAIT_LIMIT_MS };
	pid_t pid;

	SKIP_UNLESS_LOOP();
	begin();
	pid = hold(a_character_device);
	holders_find(&q, soon(), &none);
	q.character = true;
	holders_find(&q, soon(), &h);
	let_go(pid);
	ck_assert(!names(&none, pid, ""));
	ck_assert(names(&h, pid, "has the device open as /dev/full"));
	ck_assert(!*h.unseen);
	end();
}
END_TEST

START_TEST(a_program_of_it_that_runs_is_named)
{
	char *program AUTO(free) = NULL, *text AUTO(free) = NULL;
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q;
	int started[2];
	char byte;
	pid_t pid;

	SKIP_UNLESS_LOOP();
	begin();
	q = query();
	program = xasprintf("%s/program", w.staging);
	ck_assert_int_eq(pipe2(started, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(disk->fd);
		execl(program, "program", "1000", (char *)NULL);
		_exit(1);
	}
	close(started[1]);
	/* The end of the pipe: exec has closed the child's. */
	ck_assert_int_eq(read(started[0], &byte, 1), 0);
	close(started[0]);
	text = xasprintf("pid %d (program) runs %s", (int)pid, program);
	holders_find(&q, soon(), &h);
	ck_assert_msg(strs_has(&h.first, text), "%s", h.first.n ? h.first.v[h.first.n - 1] : "-");
	let_go(pid);
	end();
}
END_TEST

START_TEST(mounts_elsewhere_are_only_looked_for_when_asked)
{
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q;
	pid_t pid;

	SKIP_UNLESS_LOOP();
	begin();
	h = (struct holders) { 0 };
	q = query();
	pid = hold(a_mount_namespace);

	q.mounts = false;
	holders_find(&q, soon(), &h);
	ck_assert(!names(&h, pid, ""));
	let_go(pid);
	end();
}
END_TEST

START_TEST(three_are_named_and_the_others_counted)
{
	struct str text AUTO(str_clear) = STR_INIT(2000);
	struct holders h AUTO(holders_clear) = { 0 };
	pid_t pids[5];
	struct holders_query q;

	SKIP_UNLESS_LOOP();
	begin();
	q = query();
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		pids[i] = hold(a_file);
	holders_find(&q, soon(), &h);
	ck_assert_uint_eq(h.n, 5);
	ck_assert(h.ourselves); /* this test keeps the loop device */
	ck_assert_uint_eq(h.first.n, 3);
	holders_describe(&h, &q, "/dev/x", &text);
	ck_assert_msg(str_has_prefix(text.ptr, "pid ") &&
	                      str_has_suffix(text.ptr, " and 2 more; end them, "
	                                               "or wait for them to end"),
	              "%s", text.ptr);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		let_go(pids[i]);
	end();
}
END_TEST

START_TEST(this_process_is_never_named_as_a_holder)
{
	struct str text AUTO(str_clear) = STR_INIT(2000);
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q;

	SKIP_UNLESS_LOOP();
	begin();
	q = query();
	holders_find(&q, soon(), &h);
	ck_assert(h.ourselves && h.n == 0 && h.first.n == 0);
	holders_describe(&h, &q, "/dev/x", &text);
	ck_assert_str_eq(text.ptr, "only this driver has it open, for statistics or a health "
	                           "check; this ends without intervention unless its device hangs");
	end();
}
END_TEST

/* ---- tables of descriptors ---- */

#define TABLE 3000 /* number of descriptors: more than the first round reads of a table */
#define CROWD 30
#define THREAD (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES | CLONE_FS)

/* Shared between the test and the processes of their own PID namespace. */
struct crowd {
	atomic_uint ready; /* tasks that have opened their files */
	unsigned n, tables, files;
	bool saw_all;
	char first[200];
};
static struct crowd *seen;

static int wait_for_a_signal(void *arg)
{
	(void)arg;
	atomic_fetch_add(&seen->ready, 1);
	for (;;)
		pause();
	return 0;
}

static int write_by_own_table(void *arg)
{
	return unshare(CLONE_FILES) || the_device_to_write() < 0 ? 1 : wait_for_a_signal(arg);
}

/* A task that shares with this one the resources in the flags. */
static void start_task(int (*work)(void *), int flags)
{
	const size_t size = 262144;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || clone(work, stack + size, flags, NULL) < 0)
		_exit(1);
}

static void fill_table(void)
{
	for (int fd = 0; fd >= 0 && fd < TABLE;)
		fd = dup(2);
}

static void start_crowd(void)
{
	fill_table();
	for (unsigned i = 0; i < CROWD - 2; i++)
		start_task(wait_for_a_signal, CLONE_FILES | SIGCHLD);
}

static void crowd(void)
{
	start_crowd();
	start_task(wait_for_a_signal, CLONE_FILES | SIGCHLD);
}

static void crowd_that_writes(void)
{
	crowd();
	the_device_to_write();
}

/* As after execve(2). */
static void crowd_with_a_copy_that_writes(void)
{
	start_crowd();
	start_task(write_by_own_table, CLONE_FILES | SIGCHLD);
}

static void thread_that_writes(void)
{
	start_task(write_by_own_table, THREAD);
}

static void thread_behind_a_leader_that_has_ended(void)
{
	the_device_to_write();
	start_task(wait_for_a_signal, THREAD);
	atomic_fetch_add(&seen->ready, 1);
	syscall(SYS_exit, 0); /* of this thread only */
}

static void large_and_small_that_write(void)
{
	int fd = the_device_to_write();

	start_task(wait_for_a_signal, SIGCHLD);
	close(fd);
	fill_table();
	the_device_to_write();
}

static const struct {
	const char *what;
	void (*arrange)(void);
	unsigned tasks, n, tables;
	const char *first;
} arrangements[] = {
	{ "a table that many processes share", crowd, CROWD, 0, 1, "" },
	{ "one with the device", crowd_that_writes, CROWD, CROWD, 1, "pid 2 (a holder) has the " },
	{ "a copy with the device", crowd_with_a_copy_that_writes, CROWD, 1, 2, "pid 31 (" },
	{ "a thread with a table of its own", thread_that_writes, 2, 1, 2, "pid 3 (" },
	{ "a leader that has ended", thread_behind_a_leader_that_has_ended, 2, 1, 2, "pid 3 (" },
	{ "a small table behind a large one", large_and_small_that_write, 2, 2, 2, "pid 3 (" },
};

/* Process 1 of a PID namespace: its /proc shows no process outside. */
static void look_alone(size_t row)
{
	struct holders h = { .n = 0 };
	struct holders_query q = query();
	int status = 1;
	pid_t pid;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) || (pid = fork()) < 0)
		_exit(1);
	if (pid > 0)
		_exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
	if (mount("proc", "/proc", "proc", 0, NULL))
		_exit(1);
	if (fork() == 0) {
		close(disk->fd); /* the loop device itself, which the test keeps */
		prctl(PR_SET_NAME, "a holder");
		arrangements[row].arrange();
		wait_for_a_signal(NULL);
	}
	while (atomic_load(&seen->ready) < arrangements[row].tasks)
		usleep(1000);
	q.writers = true;
	holders_find(&q, soon(), &h);
	seen->n = h.n;
	seen->tables = h.tables;
	seen->files = h.files;
	seen->saw_all = holders_saw_all(&h);
	if (h.n)
		snprintf(seen->first, sizeof(seen->first), "%s", h.first.v[0]);
	_exit(0);
}

/*
 * Counts work, not time: scanning each process's table would multiply the work by the number of
 * processes.
 */
START_TEST(a_table_is_read_once_and_small_ones_first)
{
	int status = 1;
	pid_t pid;

	SKIP_UNDER_TSAN();
	SKIP_UNLESS_LOOP();
	begin();
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(seen != MAP_FAILED);
	pid = fork();
	if (pid == 0)
		look_alone((size_t)_i);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "%s", arrangements[_i].what);
	ck_assert_msg(seen->saw_all && seen->n == arrangements[_i].n &&
	                      seen->tables == arrangements[_i].tables,
	              "%s: %u holders, %u tables, %u descriptors", arrangements[_i].what, seen->n,
	              seen->tables, seen->files);
	ck_assert_msg(seen->files < 4 * TABLE, "%s: %u descriptors", arrangements[_i].what,
	              seen->files);
	ck_assert_msg(str_has_prefix(seen->first, arrangements[_i].first), "%s: %s",
	              arrangements[_i].what, seen->first);
	node_world_clear(&w);
}
END_TEST

/* ---- recorded ---- */

static void recorded(struct tree *t, const char *pid_namespace)
{
	tree_unpack(t, NULL);
	tree_mkdir(t, "/proc/7");
	tree_link(t, "/proc/self", "7");
	if (pid_namespace)
		tree_link(t, "/proc/7/ns/pid", pid_namespace);
}

START_TEST(nobody_found_says_where_to_look)
{
	static const struct {
		const char *what, *pid_namespace;
		int64_t ms;
		const char *text;
	} rows[] = {
		{ "in a container", "pid:[4026532999]", 1000,
		  "none of the 1 processes visible in this container holds it, so another process "
		  "does, or the kernel (a loop device, swap); on the host: fuser -vm /dev/nvme0n1, "
		  "losetup -a, swapon, and grep -l ' 259:3 ' /proc/*/mountinfo (with hostPID: true "
		  "in the DaemonSet the driver would name the process)" },
		{ "where nothing is known of it", NULL, 1000,
		  "none of the 1 processes visible in this container holds it, so another process "
		  "does, or the kernel (a loop device, swap); on the host: fuser -vm /dev/nvme0n1, "
		  "losetup -a, swapon, and grep -l ' 259:3 ' /proc/*/mountinfo (with hostPID: true "
		  "in the DaemonSet the driver would name the process)" },
		{ "on the host", "pid:[4026531836]", 1000,
		  "no process holds it, so a kernel component does: RAID, LVM, swap, overlay, a loop "
		  "device or an NFS export (lsblk /dev/nvme0n1, swapon, losetup -a)" },
		{ "no time", "pid:[4026531836]", 0,
		  "no time was left to search for its holders (fuser -vm /dev/nvme0n1)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str text AUTO(str_clear) = STR_INIT(2000);
		struct holders h AUTO(holders_clear) = { 0 };
		struct tree t;
		char *proc AUTO(free) = NULL;
		struct holders_query q;

		recorded(&t, rows[i].pid_namespace);
		proc = tree_path(&t, "/proc");
		q = (struct holders_query) { .proc_root = proc,
			                     .disk = makedev(259, 3),
			                     .mounts = true };
		holders_find(&q, deadline_in_ms(rows[i].ms), &h);
		holders_describe(&h, &q, "/dev/nvme0n1", &text);
		ROW_STR_EQ(rows[i].what, text.ptr, rows[i].text);
		tree_clear(&t);
	}
}
END_TEST

/* A process ends between two reads: then it holds nothing, or its name cannot be read. */
START_TEST(a_process_that_ends_meanwhile_is_no_error)
{
	struct holders h AUTO(holders_clear) = { 0 };
	char *proc AUTO(free) = NULL, *file AUTO(free) = NULL;
	struct holders_query q;
	struct stat st;
	struct tree t;

	recorded(&t, NULL);
	tree_write(&t, "/file", "x");
	proc = tree_path(&t, "/proc");
	file = tree_path(&t, "/file");
	ck_assert_int_eq(stat(file, &st), 0);
	tree_link(&t, "/proc/8/fd/3", "/nonexistent/file"); /* closed */
	tree_link(&t, "/proc/9/fd/3", file);                /* its comm is gone */
	tree_write(&t, "/proc/10/mountinfo", "");           /* its ns is gone */
	tree_link(&t, "/proc/11/ns/mnt", "mnt:[5]");        /* its mountinfo is gone */
	tree_write(&t, "/proc/12/mountinfo", "garbage\n\n1 2\n1 2 8:x / /a\n1 2 999999:1 / /b\n");
	tree_link(&t, "/proc/12/ns/mnt", "mnt:[6]");
	q = (struct holders_query) {
		.proc_root = proc, .disk = makedev(259, 3), .fs = st.st_dev, .mounts = true
	};
	holders_find(&q, soon(), &h);
	ck_assert_uint_eq(h.n, 1);
	ck_assert_msg(str_has_prefix(h.first.v[0], "pid 9 (ended during the scan) has "), "%s",
	              h.first.v[0]);
	ck_assert_uint_eq(h.processes, 6);
	tree_clear(&t);
}
END_TEST

START_TEST(a_mount_namespace_is_looked_at_once)
{
	struct holders h AUTO(holders_clear) = { 0 };
	struct holders_query q = { .disk = makedev(259, 3), .mounts = true };
	char *proc AUTO(free) = NULL;
	struct tree t;

	recorded(&t, NULL);
	proc = tree_path(&t, "/proc");
	q.proc_root = proc;
	tree_link(&t, "/proc/7/ns/mnt", "mnt:[1]"); /* ours */
	for (int pid = 7; pid < 20; pid++) {
		char *mountinfo AUTO(free) = xasprintf("/proc/%d/mountinfo", pid);
		char *ns AUTO(free) = xasprintf("/proc/%d/ns/mnt", pid);

		tree_write(&t, mountinfo, "40 30 259:3 / /data rw - ext4 /dev/nvme0n1 rw\n");
		tree_link(&t, ns, pid % 2 ? "mnt:[1]" : "mnt:[2]");
	}
	holders_find(&q, soon(), &h);
	ck_assert_uint_eq(h.n, 1);
	tree_clear(&t);
}
END_TEST

SUITE_TIMEOUT("holders", 60, each_way_to_hold_it_is_named, who_has_a_character_device_open_is_named,
              a_program_of_it_that_runs_is_named, mounts_elsewhere_are_only_looked_for_when_asked,
              three_are_named_and_the_others_counted, this_process_is_never_named_as_a_holder,
              nobody_found_says_where_to_look, a_process_that_ends_meanwhile_is_no_error,
              a_mount_namespace_is_looked_at_once,
              LOOP(a_table_is_read_once_and_small_ones_first, 6));
