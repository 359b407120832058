/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk of the driver's own folder fails: at each step that changes something there, once or
 * permanently, full, read-only, or with an error. Each call returns OK or a code that permits a
 * retry; with a working disk the same call succeeds, and no record is left.
 */
#include "test/lib/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "node/host/max_volumes.h"
#include "node/work/state_file.h"
#include "node/host/recover.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define STEPS_MAX 100 /* more than any call takes */
#define FILES_MAX 1024

static struct node_world w;
static struct nvme_disk *disk;

/* ---- the disk ---- */

static struct {
	const char *dir; /* NULL: no faults */
	int sys;
	bool lasting;
	unsigned at; /* the step that fails */
	atomic_uint steps;
	atomic_bool is_in_dir[FILES_MAX]; /* descriptors */
} faults;

static bool in_dir(const char *path)
{
	return faults.dir && strncmp(path, faults.dir, strlen(faults.dir)) == 0;
}

/* True if this step fails. */
static bool fails(bool concerns)
{
	unsigned step = concerns ? faults.steps++ : 0;

	if (!concerns || (faults.lasting ? step < faults.at : step != faults.at))
		return false;
	errno = faults.sys;
	return true;
}

/* Replaces the C library's function for the driver. */
int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;
	int fd;

	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if ((flags & O_ACCMODE) != O_RDONLY && fails(in_dir(path)))
		return -1;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	if (fd >= 0 && fd < FILES_MAX)
		faults.is_in_dir[fd] = in_dir(path);
	return fd;
}

static bool is_file(int fd)
{
	return fd >= 0 && fd < FILES_MAX && faults.dir && faults.is_in_dir[fd];
}

ssize_t write(int fd, const void *buf, size_t n)
{
	return fails(is_file(fd)) ? -1 : syscall(SYS_write, fd, buf, n);
}

int close(int fd)
{
	if (fd >= 0 && fd < FILES_MAX)
		faults.is_in_dir[fd] = false;
	return (int)syscall(SYS_close, fd);
}

int fsync(int fd)
{
	return fails(is_file(fd)) ? -1 : (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t n)
{
	return fails(is_file(fd)) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

int rename(const char *from, const char *to)
{
	return fails(in_dir(to)) ? -1
	                         : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return fails(in_dir(to)) ? -1
	                         : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int unlink(const char *path)
{
	return fails(in_dir(path)) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
	return fails(in_dir(path)) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* ---- the calls ---- */

static int stage(struct err *err)
{
	struct stage_request r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);

	return node_stage(&w.node, &r, soon(), err);
}

static int unstage(struct err *err)
{
	return node_unstage(&w.node, VOLUME_ID, w.staging, soon(), err);
}

static int get_info(struct err *err)
{
	struct max_volumes m;

	return max_volumes_answer(&w.node, soon(), &m, err);
}

/* A start that cannot tidy up logs that, and serves. */
static int start(struct err *err)
{
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;

	if (node_recover_records(&w.node, &did, &unfinished, err))
		err_recode(err, ERR_UNAVAILABLE);
	return err->code ? -1 : 0;
}

static void nothing(void)
{
}

static void asks_for_a_check(void)
{
	run_tool("mkfs.ext4 -q %s && debugfs -w -R 'ssv state 2' %s 2>/dev/null", disk->loop,
	         disk->loop);
}

static void staged(void)
{
	struct err err = ERR_INIT;

	run_tool("mkfs.ext4 -q %s", disk->loop);
	ck_assert_msg(stage(&err) == 0, "%s", err.msg);
}

static void staged_with_spares(void)
{
	struct err err = ERR_INIT;

	ck_assert_msg(state_file_make_spares(&w.node, &err) == 0, "%s", err.msg);
	staged();
}

static void has_old_records(void)
{
	run_tool("cd %s && mkdir -p formatting unstaging && echo boot=that > formatting/a && "
	         "echo boot=that > unstaging/b && echo > unstaging/c.tmp",
	         w.plugin_dir);
}

static const struct {
	const char *what;
	void (*before)(void);
	int (*call)(struct err *err);
} rows[] = {
	{ "stage a blank volume", nothing, stage },
	{ "stage an ext4 that asks for a check", asks_for_a_check, stage },
	{ "unstage", staged, unstage },
	{ "unstage with spare files", staged_with_spares, unstage },
	{ "what the node is", nothing, get_info },
	{ "start", has_old_records, start },
};

static const struct {
	int sys;
	bool lasting;
} disks[] = {
	{ ENOSPC, true }, { ENOSPC, false }, { EROFS, true },
	{ EROFS, false }, { EIO, true },     { EIO, false },
};

/* A freshly started driver, on a blank disk, without records. */
static void begin_attempt(void)
{
	struct node_options o = w.node.o;

	node_clear(&w.node);
	node_init(&w.node, &o);
	run_tool("blkdiscard --zeroout %s && rm -rf %s && mkdir -p %s", disk->loop, w.plugin_dir,
	         w.plugin_dir);
}

/* True: the call has a step that failed. */
static bool fail_at(size_t row, size_t kind, unsigned at)
{
	struct err err = ERR_INIT, again = ERR_INIT;
	unsigned steps;
	int rc;

	begin_attempt();
	rows[row].before();
	faults.steps = 0;
	faults.at = at;
	faults.sys = disks[kind].sys;
	faults.lasting = disks[kind].lasting;
	faults.dir = w.plugin_dir;
	rc = rows[row].call(&err);
	node_wait_jobs(&w.node, soon());
	faults.dir = NULL;
	steps = faults.steps;
	ck_assert_msg(!rc || (err.code == ERR_UNAVAILABLE && strstr(err.msg, w.plugin_dir)),
	              "%s, %s at step %u: %s: %s", rows[row].what, strerror(disks[kind].sys), at,
	              err_code_name(err.code), err.msg);
	ck_assert_msg(rows[row].call(&again) == 0, "%s, %s at step %u (%s), and again: %s",
	              rows[row].what, strerror(disks[kind].sys), at, err.msg, again.msg);
	err_clear(&again);
	ck_assert_msg(unstage(&again) == 0, "%s: %s", rows[row].what, again.msg);
	/* If a record could not be removed after a check, the next stage checks again. */
	if (rows[row].call == stage)
		ck_assert_msg(stage(&again) == 0 && unstage(&again) == 0, "%s: %s", rows[row].what,
		              again.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
	run_tool("cd %s && ls -d formatting/* unstaging/* 2>/dev/null >left; test ! -s left || "
	         "{ echo '%s, step %u:'; cat left; exit 1; }",
	         w.plugin_dir, rows[row].what, at);
	return steps > at;
}

START_TEST(a_disk_that_fails_below_the_driver_is_told_and_forgotten)
{
	unsigned at = 0;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 4 * MIB);
	while (fail_at((size_t)_i / ARRAY_LEN(disks), (size_t)_i % ARRAY_LEN(disks), at))
		ck_assert_uint_lt(at++, STEPS_MAX);
	node_world_clear(&w);
}
END_TEST

/*
 * The folder itself is read-only. A filesystem needs a record before its last unmount, raw block
 * does not.
 */
START_TEST(calls_that_record_nothing_work_on_a_read_only_folder)
{
	static const char *const types[] = { "ext4", NULL };
	struct err err = ERR_INIT;
	struct stage_request r;
	int rc;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
	if (types[_i])
		run_tool("mkfs.%s -q %s", types[_i], disk->loop);
	run_tool("mkdir -p %s/formatting %s/unstaging && mount --bind %s %s && "
	         "mount -o remount,bind,ro %s",
	         w.plugin_dir, w.plugin_dir, w.plugin_dir, w.plugin_dir, w.plugin_dir);
	r = stage_request(&w, disk, types[_i], MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
	node_world_stage(&w, &r);
	rc = unstage(&err);
	if (types[_i]) {
		ck_assert_msg(rc && err.code == ERR_UNAVAILABLE &&
		                      strstr(err.msg, "it stays staged: the record of its disk"),
		              "%s", err.msg);
		err_clear(&err);
		run_tool("umount %s", w.plugin_dir);
		rc = unstage(&err);
	}
	ck_assert_msg(rc == 0 && unstage(&err) == 0, "%s", err.msg);
	node_world_clear(&w);
}
END_TEST

SUITE_TIMEOUT("plugin dir", 120, LOOP(calls_that_record_nothing_work_on_a_read_only_folder, 2),
              LOOP(a_disk_that_fails_below_the_driver_is_told_and_forgotten,
                   (int)(ARRAY_LEN(rows) * ARRAY_LEN(disks))));
