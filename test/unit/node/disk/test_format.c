/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formatting record: an interrupted mkfs is repeated on its own node and refused on others, and
 * no data is lost by it.
 */
#include "test/lib/suite.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/spawn.h"
#include "node/work/job.h"
#include "node/work/disk_record.h"
#include "node/mount/blank_places.h"
#include "node/mount/fsprobe.h"
#include "test/lib/node_world.h"
#include "test/lib/skip.h"
#include "test/lib/wait.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;
static char *record;
static char go_file[256];

static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 320 * MIB);
	record = disk_record_path(&w.node, VOLUME_ID, DISK_RECORD_MKFS);
}

static void end(void)
{
	free(record);
	node_world_clear(&w);
}

static int stage(const char *fs_type, struct err *err)
{
	struct stage_request r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);

	return node_stage(&w.node, &r, soon(), err);
}

static void stage_ok(const char *fs_type)
{
	struct err err = ERR_INIT;

	ck_assert_msg(stage(fs_type, &err) == 0, "%s", err.msg);
	ck_assert(!path_exists(record));
}

static void stage_refused(const char *fs_type, const char *text)
{
	struct err err = ERR_INIT;

	ck_assert_int_eq(stage(fs_type, &err), -1);
	ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, text), "%s: %s",
	              err_code_name(err.code), err.msg);
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
}

/* A tool of this name that first runs `body` and then the real tool. */
static void wrap_tool(const char *name, const char *body)
{
	static char dir[256];

	snprintf(dir, sizeof(dir), "%s/tools", w.nvme.root);
	run_tool("mkdir -p %s && printf '#!/bin/sh\\n%s\\nexec /sbin/%s \"$@\"\\n' > %s/%s && "
	         "chmod +x "
	         "%s/%s",
	         dir, body, name, dir, name, dir, name);
	spawn_set_path(dir);
}

/* A stage whose mkfs writes what an interrupted mkfs would leave, and is killed. */
static void interrupted(const char *fs_type, const char *leaves)
{
	struct err err = ERR_INIT;
	char *tool AUTO(free) = xasprintf("mkfs.%s", fs_type);

	wrap_tool(tool, leaves);
	ck_assert_int_eq(stage(fs_type, &err), -1);
	ck_assert_int_eq(err.code, ERR_INTERNAL);
	spawn_set_path(NULL);
	ck_assert(path_exists(record));
	ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
}

#define EXT4_HALF_WAY                                                               \
	"tr \"\\\\0\" x < /dev/zero | dd of=/proc/self/fd/3 bs=4k seek=40 count=6 " \
	"iflag=fullblock 2>/dev/null; kill -9 $$"
#define XFS_HALF_WAY                                                                     \
	"/sbin/mkfs.xfs \"$@\"; printf \"\\\\1\" | dd of=/proc/self/fd/3 bs=1 seek=126 " \
	"conv=notrunc "                                                                  \
	"2>/dev/null; kill -9 $$"

static const struct {
	const char *fs_type, *leaves;
} kinds[] = { { "ext4", EXT4_HALF_WAY }, { "xfs", XFS_HALF_WAY } };

START_TEST(an_interrupted_mkfs_is_finished_on_the_same_node)
{
	SKIP_UNLESS_LOOP();
	begin();
	interrupted(kinds[_i].fs_type, kinds[_i].leaves);
	stage_ok(kinds[_i].fs_type);
	end();
}
END_TEST

START_TEST(without_a_record_it_is_refused_with_the_way_out)
{
	SKIP_UNLESS_LOOP();
	begin();
	interrupted(kinds[_i].fs_type, kinds[_i].leaves);
	ck_assert_int_eq(unlink(record), 0); /* another node */
	stage_refused(kinds[_i].fs_type, "If this volume has never held data");
	/* The command that the text advises. */
	run_tool("blkdiscard -z %s", disk->loop);
	stage_ok(kinds[_i].fs_type);
	end();
}
END_TEST

START_TEST(the_driver_may_die_at_any_time_of_it)
{
	char *body AUTO(free) = NULL;
	pid_t pid;
	int status;

	SKIP_UNLESS_LOOP();
	begin();
	/*
	 * The whole process is killed while mkfs runs; mkfs survives, or dies with its container.
	 */
	body = xasprintf("echo $$ > %s/mkfs; kill -9 $PPID; sleep 0.2; kill -9 $$", w.nvme.root);
	wrap_tool("mkfs.ext4", body);
	pid = fork();
	if (pid == 0) {
		struct err err = ERR_INIT;
		_exit(stage("ext4", &err) ? 1 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	spawn_set_path(NULL);
	ck_assert(path_exists(record));
	run_tool("while test -e /proc/$(cat %s/mkfs)/exe; do sleep 0.05; done", w.nvme.root);
	stage_ok("ext4");
	end();
}
END_TEST

START_TEST(the_record_is_there_before_the_first_byte_is_written)
{
	char *body AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	body = xasprintf("cp %s %s/seen", record, w.nvme.root);
	wrap_tool("mkfs.ext4", body);
	stage_ok("ext4");
	spawn_set_path(NULL);
	run_tool("grep -qx volume=" VOLUME_ID " %s/seen && grep -qx uuid=" UUID " %s/seen && "
	         "grep -qx size=335544320 %s/seen && grep -qx filesystem=ext4 %s/seen",
	         w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root);
	end();
}
END_TEST

/*
 * A disk that has got data, and lost its signature, since an old record was written must not be
 * formatted by that record.
 */
START_TEST(a_record_of_another_attachment_proves_nothing)
{
	static const struct {
		const char *what, *edit;
	} rows[] = {
		{ "another disk sequence number", "s/^diskseq=.*/diskseq=1/" },
		{ "before a reboot", "s/^boot=.*/boot=00000000-0000-0000-0000-000000000000/" },
		{ "another UUID", "s/^uuid=.*/uuid=22222222-aaaa-4bbb-8ccc-000000000002/" },
		{ "another namespace", "s/^nsid=.*/nsid=2/" },
		{ "another size", "s/^size=.*/size=4096/" },
		{ "another filesystem", "s/^filesystem=.*/filesystem=xfs/" },
		{ "another volume", "s/^volume=.*/volume=pvc-2/" },
		{ "cut", "$d" },
		{ "empty", "d" },
	};

	SKIP_UNLESS_LOOP();
	begin();
	interrupted("ext4", EXT4_HALF_WAY);
	run_tool("cp %s %s.orig", record, record);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		run_tool("sed '%s' %s.orig > %s", rows[i].edit, record, record);
		stage_refused("ext4", "is not blank");
	}
	run_tool("cp %s.orig %s", record, record);
	stage_ok("ext4");
	end();
}
END_TEST

/*
 * After a reboot the disk has another number and the boot another id. An unchanged attachment
 * proves that no other node had the volume.
 */
START_TEST(a_reboot_during_mkfs_is_no_end_while_the_attachment_is_the_same)
{
	static const struct {
		const char *what, *before, *after;
		bool again;
	} rows[] = {
		{ "the same attachment", "uid-1", "uid-1", true },
		{ "another attachment", "uid-1", "uid-2", false },
		{ "a longer UID", "uid-1", "uid-11", false },
		{ "attached by a controller that did not say", "", "", false },
		{ "not said before", NULL, "uid-1", false },
		{ "not said now", "uid-1", NULL, false },
	};

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stage_request r;
		struct err err = ERR_INIT;
		int rc;

		begin();
		r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
		r.attachment = rows[i].before;
		wrap_tool("mkfs.ext4", EXT4_HALF_WAY);
		ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
		spawn_set_path(NULL);
		run_tool("sed -i 's/^boot=.*/boot=00000000-0000-0000-0000-000000000000/' %s",
		         record);
		nvme_world_reattach(&w.nvme, disk);
		r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
		r.attachment = rows[i].after;
		err_clear(&err);
		rc = node_stage(&w.node, &r, soon(), &err);
		ck_assert_msg(rc == (rows[i].again ? 0 : -1), "%s: %s", rows[i].what, err.msg);
		ck_assert_msg(!rc || strstr(err.msg, "is not blank"), "%s: %s", rows[i].what,
		              err.msg);
		end();
	}
}
END_TEST

START_TEST(data_at_a_random_place_of_this_volume_is_refused)
{
	static struct blank_places places;

	SKIP_UNLESS_LOOP();
	begin();
	blank_places(&places, 320 * MIB, VOLUME_ID);
	run_tool("echo data | dd of=%s bs=1 seek=%ju conv=notrunc 2>/dev/null && sync %s",
	         disk->loop, (uintmax_t)places.v[places.n - 300].from, disk->loop);
	stage_refused("ext4", "is not blank");
	end();
}
END_TEST

START_TEST(a_disk_that_was_away_meanwhile_is_not_formatted_again)
{
	SKIP_UNLESS_LOOP();
	begin();
	interrupted("ext4", EXT4_HALF_WAY);
	nvme_world_reattach(&w.nvme, disk);
	stage_refused("ext4", "is not blank");
	ck_assert(path_exists(record));
	end();
}
END_TEST

START_TEST(a_complete_filesystem_beats_the_record)
{
	char *copy AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	interrupted("ext4", EXT4_HALF_WAY);
	copy = xasprintf("%s/copy", w.nvme.root);
	run_tool("cp %s %s", record, copy);
	stage_ok("ext4");
	run_tool("echo data > %s/file && umount %s && cp %s %s", w.staging, w.staging, copy,
	         record);
	/* The crash happened between mkfs and the removal of the record. */
	stage_ok("ext4");
	run_tool("grep -q data %s/file", w.staging);
	end();
}
END_TEST

START_TEST(a_record_does_not_lift_the_volumes_own_rules)
{
	struct err err = ERR_INIT;
	struct stage_request r;

	SKIP_UNLESS_LOOP();
	begin();
	interrupted("ext4", EXT4_HALF_WAY);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_READER_ONLY);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_msg(strstr(err.msg, "read-only volume is never formatted") != NULL, "%s",
	              err.msg);
	err_clear(&err);
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	r.params.format_policy = FORMAT_NEVER;
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_msg(strstr(err.msg, "csi.snap.nvidia.com/formatPolicy: never") != NULL, "%s",
	              err.msg);
	ck_assert(path_exists(record));
	end();
}
END_TEST

/* ---- the disk is handed out ---- */

static struct stage_request request(const char *fs_type)
{
	return stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
}

static void stage_by(const struct stage_request *r)
{
	node_world_stage(&w, r);
}

static void stage_raw(void)
{
	struct stage_request r = request(NULL);

	stage_by(&r);
}

static void stage_raw_for_another(void)
{
	struct stage_request r = request(NULL);

	r.volume_id = "pvc-2";
	stage_by(&r);
}

/* As a driver without this rule did. */
static void bind_by_hand(void)
{
	run_tool("touch %s && mount --bind %s %s", w.block_file, disk->node, w.block_file);
}

static void stage_again(void)
{
	bind_by_hand();
	stage_raw();
}

static void publish_only(void)
{
	struct publish_request r = publish_request(&w, w.target, NULL, MODE_SINGLE_NODE_WRITER);

	bind_by_hand();
	node_world_publish(&w, &r);
}

static void mount_other_filesystem(void)
{
	struct stage_request r = request("xfs");

	run_tool("mkfs.xfs -q %s", disk->loop);
	stage_by(&r);
}

static void see_other_filesystem(void)
{
	run_tool("mkfs.xfs -q %s", disk->loop);
	stage_refused("ext4", "contains xfs");
}

static void see_other_holder(void)
{
	int fd = open(disk->node, O_RDONLY | O_EXCL | O_CLOEXEC);

	stage_refused("ext4", "is in use");
	close(fd);
}

START_TEST(a_record_ends_before_anybody_else_can_write_to_the_disk)
{
	static void (*const rows[])(void) = {
		stage_raw,        stage_raw_for_another,  stage_again,
		publish_only,     mount_other_filesystem, see_other_filesystem,
		see_other_holder,
	};

	SKIP_UNLESS_LOOP();
	begin();
	interrupted("ext4", EXT4_HALF_WAY);
	rows[_i]();
	ck_assert_msg(!path_exists(record), "row %d", _i);
	run_tool("grep -o ' %s/kubelet/[^ ]*' /proc/mounts | sort -r | xargs -r umount",
	         w.nvme.root);
	run_tool("wipefs -qa %s; echo data | dd of=%s bs=1M seek=100 conv=notrunc,fsync "
	         "2>/dev/null",
	         disk->loop, disk->loop);
	stage_refused("ext4", "is not blank");
	run_tool("dd if=%s bs=1M skip=100 count=1 2>/dev/null | grep -aq data", disk->loop);
	end();
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_keeps_no_disk_without_a_record)
{
	struct stage_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("mkdir -p %s/formatting %s/unstaging", w.plugin_dir, w.plugin_dir);
	run_tool("mount --bind %s %s && mount -o remount,ro,bind %s", w.plugin_dir, w.plugin_dir,
	         w.plugin_dir);
	r = request(NULL);
	stage_by(&r);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	run_tool("umount %s", w.plugin_dir);
	end();
}
END_TEST

/* ---- between the last check and mkfs ---- */

static const char *hook; /* run once, when the record is synced */

/* Replaces the C library's function for the driver. */
int fsync(int fd)
{
	char link[64], path[512];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (hook && record && strcmp(path, record) == 0) {
		run_tool("d=%s; %s", disk->loop, hook);
		hook = NULL;
	}
	return (int)syscall(SYS_fsync, fd);
}

static void free_loop_at_last_close(bool free)
{
	struct loop_info64 info;

	ck_assert_int_eq(ioctl(disk->fd, LOOP_GET_STATUS64, &info), 0);
	info.lo_flags = free ? info.lo_flags | LO_FLAGS_AUTOCLEAR
	                     : info.lo_flags & ~(uint32_t)LO_FLAGS_AUTOCLEAR;
	ck_assert_int_eq(ioctl(disk->fd, LOOP_SET_STATUS64, &info), 0);
}

/*
 * Linux 6.15 and later. An open device keeps the size of its cached blocks, so all descriptors are
 * closed and the device is opened again, until no other process has it open: mkfs.btrfs of another
 * test opens every block device.
 */
static bool set_sectors(unsigned long bytes)
{
	int block = 0;

	if (ioctl(disk->fd, LOOP_SET_BLOCK_SIZE, bytes) < 0)
		return false;
	free_loop_at_last_close(false);
	while (ioctl(disk->fd, BLKBSZGET, &block) == 0 && (unsigned long)block < bytes) {
		close(disk->fd);
		usleep(1000);
		disk->fd = open(disk->loop, O_RDWR | O_CLOEXEC);
		ck_assert_int_ge(disk->fd, 0);
	}
	free_loop_at_last_close(true);
	return true;
}

START_TEST(a_disk_of_large_sectors_is_not_formatted)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs", NULL };
	struct stage_request r;
	struct err err = ERR_INIT;
	struct fsprobe now;

	SKIP_UNLESS_LOOP();
	begin();
	if (!set_sectors(16384)) {
		end();
		SKIP_IF(true, "needs loop devices with sectors of 16 KiB (Linux 6.15)");
	}
	r = stage_request(&w, disk, types[_i], MODE_SINGLE_NODE_WRITER);
	r.params.format_policy = FORMAT_UNFORMATTED;
	if (types[_i]) {
		ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
		ck_assert_msg(err.code == ERR_PRECONDITION && strstr(err.msg, "16384 bytes"),
		              "%s: %s", err_code_name(err.code), err.msg);
		err_clear(&err);
		ck_assert_int_eq(fsprobe_fd(disk->fd, "disk", &now, &err), 0);
		ck_assert_int_eq(now.kind, FSPROBE_NOTHING);
		ck_assert(!path_exists(record));
	} else { /* raw block has no filesystem */
		ck_assert_msg(node_stage(&w.node, &r, soon(), &err) == 0, "%s", err.msg);
	}
	end();
}
END_TEST

/* It was created on a device with smaller sectors. */
START_TEST(a_filesystem_on_larger_sectors_than_its_blocks_is_explained)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs" };

	SKIP_UNLESS_LOOP();
	begin();
	run_tool("mkfs.%s -q %s", types[_i], disk->loop);
	if (!set_sectors(16384)) {
		end();
		SKIP_IF(true, "needs loop devices with sectors of 16 KiB (Linux 6.15)");
	}
	stage_refused(types[_i], "have 16384 bytes, larger than the blocks");
	end();
}
END_TEST

START_TEST(a_filesystem_larger_than_its_disk_is_refused_with_both_sizes)
{
	static const char *const types[] = { "ext4", "xfs", "btrfs" };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	nvme_world_resize(disk, 640 * MIB);
	run_tool("mkfs.%s -q %s", types[_i], disk->loop);
	nvme_world_resize(disk, 400 * MIB);
	stage_refused(types[_i], "larger than its device (400.0 MiB");
	ck_assert_int_eq(stage(types[_i], &err), -1);
	ck_assert_msg(!strstr(err.msg, "newer kernel"), "%s", err.msg);
	end();
}
END_TEST

START_TEST(what_is_written_while_the_record_is_synced_is_seen)
{
	static const struct {
		const char *fs_type, *write, *text;
	} rows[] = {
		{ "ext4", "/sbin/mkfs.ext4 -q $d && sync $d", "now it contains ext4" },
		/* The last MiB is one of the places that are read. */
		{ "ext4", "echo data | dd of=$d bs=1M seek=319 conv=notrunc,fsync 2>/dev/null",
		  "is not blank" },
		{ "xfs", "printf 'LUKS\\272\\276\\0\\1' | dd of=$d conv=notrunc,fsync 2>/dev/null",
		  "now it contains crypto_LUKS" },
	};

	SKIP_UNLESS_LOOP();
	begin();
	hook = rows[_i].write;
	wrap_tool("mkfs.ext4", "touch ${0%%/*}/ran");
	stage_refused(rows[_i].fs_type, rows[_i].text);
	spawn_set_path(NULL);
	run_tool("! test -e %s/tools/ran", w.nvme.root);
	ck_assert(!path_exists(record));
	end();
}
END_TEST

/* ---- turns ---- */

START_TEST(only_so_many_are_formatted_at_once)
{
	char *body AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	begin();
	/* Each run records the number of concurrent runs. */
	body = xasprintf(
		"mkdir -p %s/now; touch %s/now/$$; sleep 0.3; ls %s/now | wc -l >> %s/counts; "
		"/sbin/mkfs.ext4 \"$@\"; rc=$?; rm %s/now/$$; exit $rc",
		w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root, w.nvme.root);
	wrap_tool("mkfs.ext4", body);
	node_world_stage_many(&w, disk, 4, 16 * MIB);
	spawn_set_path(NULL);
	run_tool("test $(wc -l < %s/counts) = 4 && ! grep -v '^[12]$' %s/counts", w.nvme.root,
	         w.nvme.root);
	end();
}
END_TEST

static int wait_for_go(void *arg, struct err *err)
{
	(void)arg, (void)err;
	WAIT_UNTIL(path_exists(go_file));
	return 0;
}

static void keep(void *arg)
{
	(void)arg;
}

struct waiting_stage {
	pthread_t thread;
	_Atomic pid_t number;
	int rc;
	struct err err;
};

static void *stage_in_thread(void *arg)
{
	struct waiting_stage *s = arg;

	s->number = gettid();
	s->rc = stage("ext4", &s->err);
	return NULL;
}

START_TEST(what_is_written_during_the_wait_for_a_turn_is_seen)
{
	static const struct {
		const char *what, *write, *text;
	} rows[] = {
		{ "data",
		  "echo data | dd of=$d bs=1 seek=1000000 conv=notrunc 2>/dev/null && sync $d",
		  "is not blank" },
		{ "a filesystem", "mkfs.xfs -q $d && sync $d",
		  "another process has written to it since its first probe, and now it contains xfs" },
	};
	struct job_order o = { .run = wait_for_go, .free = keep, .what = "mkfs" };
	struct waiting_stage s = { .rc = 0 };
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	snprintf(go_file, sizeof(go_file), "%s/go", w.nvme.root);
	for (unsigned i = 0; i < w.node.o.max_formats; i++) {
		char key[] = { 'a', (char)('a' + i), '\0' };

		o.key = key;
		err_clear(&err);
		ck_assert_int_eq(job_run(w.node.jobs, &o, deadline_in_ms(1), &err), -1);
	}
	ck_assert_int_eq(pthread_create(&s.thread, NULL, stage_in_thread, &s), 0);
	/* The stage has decided, and waits. */
	wait_until_idle(&s.number);
	run_tool("d=%s; %s", disk->loop, rows[_i].write);
	run_tool("touch %s", go_file);
	pthread_join(s.thread, NULL);
	ck_assert_msg(s.rc == -1 && s.err.code == ERR_PRECONDITION &&
	                      strstr(s.err.msg, rows[_i].text),
	              "%s: %s", rows[_i].what, s.err.msg);
	ck_assert(!path_exists(record));
	end();
}
END_TEST

/* ---- longer than its call ---- */

/* An mkfs.ext4 that counts its runs and continues with `then` when <root>/go exists. */
static void slow_mkfs(const char *then)
{
	char *body AUTO(free) =
		xasprintf("echo >> %s/runs; until test -e %s/go; do sleep 0.05; done; %s",
	                  w.nvme.root, w.nvme.root, then);

	wrap_tool("mkfs.ext4", body);
}

static void go(void)
{
	run_tool("touch %s/go", w.nvme.root);
}

/* A call whose deadline passes while mkfs runs. On a busy machine only a later call starts mkfs. */
static void stage_until_mkfs_runs(struct err *err)
{
	struct stage_request r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	char *runs AUTO(free) = xasprintf("%s/runs", w.nvme.root);

	for (int64_t ms = 1200; !path_exists(runs); ms *= 2) {
		err_clear(err);
		ck_assert_int_eq(node_stage(&w.node, &r, deadline_in_ms(ms), err), -1);
	}
	ck_assert_msg(err->code == ERR_DEADLINE, "%s", err->msg);
}

START_TEST(mkfs_outlives_its_call_and_the_retry_joins_it)
{
	struct err err = ERR_INIT;
	int64_t failed;

	SKIP_UNLESS_LOOP();
	begin();
	slow_mkfs("true");
	stage_until_mkfs_runs(&err);
	failed = metric_value(METRIC_STAGES, LABELS("ext4", "failed"));
	for (int i = 0; i < 2; i++) {
		struct stage_request r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);

		ck_assert_msg(err.code == ERR_DEADLINE && strstr(err.msg, "mkfs.ext4 of ") &&
		                      strstr(err.msg, " s and continues; the next call joins it"),
		              "%s", err.msg);
		ck_assert_uint_eq(mounts_below(w.nvme.root), 0);
		err_clear(&err);
		if (i == 0)
			ck_assert_int_eq(node_stage(&w.node, &r, deadline_in_ms(1200), &err), -1);
	}
	/* The volume cannot be unstaged while it runs. */
	err_clear(&err);
	ck_assert_int_eq(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err), -1);
	ck_assert_int_eq(err.code, ERR_ABORTED);
	go();
	stage_ok("ext4");
	ck_assert_int_eq(metric_value(METRIC_FORMATS, LABELS("ext4", "ok")), 1);
	ck_assert_int_eq(metric_value(METRIC_STAGES, LABELS("ext4", "ok")), 1);
	ck_assert_int_eq(metric_value(METRIC_STAGES, LABELS("ext4", "failed")), failed + 1);
	run_tool("test $(wc -l < %s/runs) = 1", w.nvme.root);
	spawn_set_path(NULL);
	end();
}
END_TEST

START_TEST(what_failed_meanwhile_is_told_to_the_retry_once)
{
	struct stage_request r;
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	r = stage_request(&w, disk, "ext4", MODE_SINGLE_NODE_WRITER);
	slow_mkfs("echo no luck; exit 1");
	stage_until_mkfs_runs(&err);
	go();
	err_clear(&err);
	ck_assert_int_eq(node_stage(&w.node, &r, soon(), &err), -1);
	ck_assert_msg(err.code == ERR_INTERNAL && strstr(err.msg, "no luck"), "%s", err.msg);
	spawn_set_path(NULL);
	stage_ok("ext4");
	end();
}
END_TEST

START_TEST(unstage_forgets_what_failed_meanwhile)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	slow_mkfs("exit 1");
	stage_until_mkfs_runs(&err);
	go();
	node_wait_jobs(&w.node, soon());
	spawn_set_path(NULL);
	err_clear(&err);
	ck_assert_msg(node_unstage(&w.node, VOLUME_ID, w.staging, soon(), &err) == 0, "%s",
	              err.msg);
	stage_ok("ext4");
	end();
}
END_TEST

START_TEST(the_end_of_the_driver_waits_for_mkfs)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	slow_mkfs("true");
	stage_until_mkfs_runs(&err);
	node_wait_jobs(&w.node, deadline_in_ms(100)); /* no longer than its deadline */
	ck_assert(path_exists(record));
	run_tool("(sleep 1; touch %s/go) &", w.nvme.root);
	node_wait_jobs(&w.node, soon());
	spawn_set_path(NULL);
	stage_ok("ext4");
	run_tool("test $(wc -l < %s/runs) = 1", w.nvme.root);
	end();
}
END_TEST

START_TEST(the_end_of_the_driver_does_not_end_mkfs)
{
	struct err err = ERR_INIT;

	SKIP_UNLESS_LOOP();
	begin();
	slow_mkfs("true");
	stage_until_mkfs_runs(&err);
	node_clear(&w.node);
	go();
	WAIT_UNTIL(!path_exists(record));
	spawn_set_path(NULL);
	node_init(&w.node, &(struct node_options) { .id = "n1",
	                                            .world = w.nvme.world,
	                                            .proc_root = "/proc",
	                                            .plugin_dir = w.plugin_dir });
	stage_ok("ext4");
	run_tool("test $(wc -l < %s/runs) = 1", w.nvme.root);
	end();
}
END_TEST

SUITE_TIMEOUT("format", 60, LOOP(a_disk_of_large_sectors_is_not_formatted, 4),
              LOOP(a_filesystem_on_larger_sectors_than_its_blocks_is_explained, 3),
              LOOP(a_filesystem_larger_than_its_disk_is_refused_with_both_sizes, 3),
              LOOP(an_interrupted_mkfs_is_finished_on_the_same_node, 2),
              LOOP(without_a_record_it_is_refused_with_the_way_out, 2),
              the_driver_may_die_at_any_time_of_it,
              the_record_is_there_before_the_first_byte_is_written,
              a_record_of_another_attachment_proves_nothing,
              data_at_a_random_place_of_this_volume_is_refused,
              a_disk_that_was_away_meanwhile_is_not_formatted_again,
              a_reboot_during_mkfs_is_no_end_while_the_attachment_is_the_same,
              a_complete_filesystem_beats_the_record, a_record_does_not_lift_the_volumes_own_rules,
              LOOP(a_record_ends_before_anybody_else_can_write_to_the_disk, 7),
              a_folder_that_cannot_be_written_keeps_no_disk_without_a_record,
              LOOP(what_is_written_while_the_record_is_synced_is_seen, 3),
              only_so_many_are_formatted_at_once,
              LOOP(what_is_written_during_the_wait_for_a_turn_is_seen, 2),
              mkfs_outlives_its_call_and_the_retry_joins_it,
              what_failed_meanwhile_is_told_to_the_retry_once,
              unstage_forgets_what_failed_meanwhile, the_end_of_the_driver_does_not_end_mkfs,
              the_end_of_the_driver_waits_for_mkfs);
