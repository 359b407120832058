/* SPDX-License-Identifier: Apache-2.0 */
/* Health of volumes on loop devices that pretend to be NVMe namespaces. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/failing.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/spawn.h"
#include "node/host/count.h"
#include "node/target/guard.h"
#include "common/running.h"
#include "node/device/sysfs.h"
#include "node/health.h"
#include "node/work/job.h"
#include "test/lib/fs_state.h"
#include "test/lib/node_world.h"
#include "test/lib/wait.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

static struct node_world w;
static struct nvme_disk *disk;

static void set_up(const char *fs_type)
{
	struct stage_request r;

	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, "11111111-aaaa-4bbb-8ccc-000000000001", 64 * MIB);
	r = stage_request(&w, disk, fs_type, MODE_SINGLE_NODE_WRITER);
	node_world_stage(&w, &r);
}

static struct health ask(const char *volume_id, const char *publish, const char *staging)
{
	struct err err = ERR_INIT;
	struct health h;

	ck_assert_msg(node_volume_health(&w.node, volume_id, publish, staging, &h, &err) == 0, "%s",
	              err.msg);
	return h;
}

static void expect(const struct health *h, const char *reason, enum health_status status)
{
	ck_assert_msg(h->n == 1, "%zu faults, wanted %s", h->n, reason);
	ck_assert_str_eq(h->v[0].reason, reason);
	ck_assert_int_eq(h->v[0].status, status);
}

START_TEST(a_sound_volume_has_no_faults_by_path_and_by_id)
{
	static const char *const kinds[] = { "ext4", NULL };

	SKIP_UNLESS_LOOP();
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		set_up(kinds[i]);
		ck_assert_uint_eq(ask(VOLUME_ID, NULL, w.staging).n, 0);
		ck_assert_uint_eq(ask(VOLUME_ID, "", "").n, 0);
		node_world_clear(&w);
	}
}
END_TEST

/* kubelet 1.37: the directory where it maps the device itself, which this driver never gets. */
static char *map_path(bool made)
{
	char *path = xasprintf("%s/volumeDevices/pv-1/dev", w.kubelet_dir);

	if (made)
		run_tool("mkdir -p %s && touch %s/pod-uid", path, path);
	return path;
}

START_TEST(raw_block_is_found_by_its_id_where_kubelet_names_its_own_mapping)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	for (int made = 0; made < 2; made++) {
		char *path AUTO(free) = NULL;

		set_up(NULL);
		path = map_path(made);
		h = ask(VOLUME_ID, "", path);
		ck_assert_msg(h.n == 0, "%s: %s", h.v[0].reason, h.v[0].message);
		nvme_world_hide(&w.nvme, disk);
		h = ask(VOLUME_ID, "", path);
		expect(&h, "DeviceGone", HEALTH_INACCESSIBLE);
		node_world_clear(&w);
	}
}
END_TEST

START_TEST(a_filesystem_of_the_volumes_name_is_not_its_raw_block)
{
	char *path AUTO(free) = NULL, *other AUTO(free) = NULL;
	struct health h;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	path = map_path(true);
	other = xasprintf("%s/" VOLUME_ID, w.kubelet_dir);
	run_tool("mkdir %s && mount -t tmpfs none %s", other, other);
	ck_assert_uint_eq(ask(VOLUME_ID, "", "").n, 0);
	h = ask(VOLUME_ID, "", path);
	expect(&h, "NotMounted", HEALTH_INACCESSIBLE);
	ck_assert_ptr_nonnull(strstr(h.v[0].message, path));
	umount(other);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_volume_that_was_never_here_is_unknown_not_ill)
{
	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	ck_assert_uint_eq(ask("pvc-unknown", NULL, NULL).n, 0);
	node_world_clear(&w);
}
END_TEST

/* kubelet calls for volumes whose mount has failed, by id or with paths, to get the reason. */
START_TEST(a_volume_that_was_never_mounted_has_its_last_error)
{
	struct err err = ERR_INIT;
	struct health h;

	SKIP_UNLESS_LOOP();
	err_set(&err, ERR_PRECONDITION, "/dev/nvme0n1: has another UUID");
	node_world_init(&w);
	failing_note(VOLUME_ID, "NodeStageVolume", &err, monotonic_ns());
	h = ask(VOLUME_ID, NULL, NULL);
	ck_assert_uint_eq(h.n, 1);
	ck_assert_int_eq(h.v[0].status, HEALTH_INACCESSIBLE);
	ck_assert_str_eq(h.v[0].reason, "LastCallFailed");
	ck_assert_str_eq(h.v[0].message, "NodeStageVolume: FAILED_PRECONDITION: "
	                                 "/dev/nvme0n1: has another UUID");
	h = ask(VOLUME_ID, NULL, w.staging);
	ck_assert_uint_eq(h.n, 2);
	ck_assert_str_eq(h.v[0].reason, "NotMounted");
	ck_assert_str_eq(h.v[1].reason, "LastCallFailed");
	ck_assert_uint_eq(ask("pvc-other", NULL, NULL).n, 0);
	failing_note(VOLUME_ID, "NodeStageVolume", NULL, monotonic_ns());
	ck_assert_uint_eq(ask(VOLUME_ID, NULL, NULL).n, 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_mount_that_is_missing_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	h = ask(VOLUME_ID, w.target, w.staging);
	expect(&h, "NotMounted", HEALTH_INACCESSIBLE);
	ck_assert_ptr_nonnull(strstr(h.v[0].message, w.target));
	node_world_clear(&w);
}
END_TEST

START_TEST(a_mount_that_is_not_ours_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	ck_assert_int_eq(mount("none", w.staging, "tmpfs", 0, NULL), 0);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "ForeignMount", HEALTH_INACCESSIBLE);
	umount(w.staging);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_device_that_has_gone_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	nvme_world_hide(&w.nvme, disk);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "DeviceGone", HEALTH_INACCESSIBLE);
	node_world_clear(&w);
}
END_TEST

static int dead(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	errno = EIO;
	return -1;
}

START_TEST(a_filesystem_that_answers_eio_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	guard_set_statvfs(w.node.guard, dead);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "FilesystemDead", HEALTH_INACCESSIBLE);
	node_world_clear(&w);
}
END_TEST

static int short_of;
static int cannot_look(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	errno = short_of;
	return -1;
}

/* An obstacle to the probe is not a fault of the volume, which may be intact. */
START_TEST(a_filesystem_that_could_not_be_asked_has_no_fault)
{
	static const int shortages[] = { EMFILE, ENFILE, EAGAIN, ENOMEM, ENOENT };
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	guard_set_statvfs(w.node.guard, cannot_look);
	for (size_t i = 0; i < ARRAY_LEN(shortages); i++) {
		struct err err = ERR_INIT;

		short_of = shortages[i];
		ck_assert_msg(node_volume_health(&w.node, VOLUME_ID, NULL, w.staging, &h, &err) ==
		                      -1,
		              "%s: %s", strerror(short_of), h.v[0].message);
		ck_assert_msg(err.code == ERR_UNAVAILABLE && strstr(err.msg, strerror(short_of)),
		              "%s: %s", err_code_name(err.code), err.msg);
	}
	guard_set_statvfs(w.node.guard, NULL);
	ck_assert_uint_eq(ask(VOLUME_ID, NULL, w.staging).n, 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_that_has_shut_down_is_told)
{
	struct health h;
	char *proc AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	/* As ext4 and others show it in mountinfo; this depends on the kernel. */
	proc = xasprintf("%s/proc", w.nvme.root);
	run_tool("mkdir -p %s/self && sed 's|\\( %s .*\\)|\\1,shutdown|' /proc/self/mountinfo "
	         "> %s/self/mountinfo",
	         proc, w.staging, proc);
	w.node.o.proc_root = proc;
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "FilesystemShutDown", HEALTH_INACCESSIBLE);
	w.node.o.proc_root = "/proc";
	node_world_clear(&w);
}
END_TEST

static _Atomic bool hangs;
static int hung(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)ret;
	while (hangs)
		usleep(1000);
	return 0;
}

START_TEST(a_filesystem_that_does_not_answer_is_told)
{
	struct health h, again;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	hangs = true;
	guard_set_statvfs(w.node.guard, hung);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "FilesystemNotResponding", HEALTH_INACCESSIBLE);
	again = ask(VOLUME_ID, NULL, w.staging); /* the pod's status changes with the message */
	ck_assert_str_eq(again.v[0].message, h.v[0].message);
	hangs = false;
	usleep(200000); /* the helper cleans up, for the leak checker */
	node_world_clear(&w);
}
END_TEST

START_TEST(a_controller_that_does_not_work_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	run_tool("echo dead > %s/../state", disk->dir);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "ControllerNotLive", HEALTH_INACCESSIBLE);
	ck_assert_ptr_nonnull(strstr(h.v[0].message, "dead"));
	node_world_clear(&w);
}
END_TEST

START_TEST(another_disk_with_the_number_of_a_raw_block_volume_is_told)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up(NULL);
	nvme_world_attr(disk, "diskseq", "999999999");
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "DeviceReplaced", HEALTH_INACCESSIBLE);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_turned_read_only_is_degraded)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	/* As errors=remount-ro does: the filesystem is read-only, not the mount point. */
	ck_assert_int_eq(mount(NULL, w.staging, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ck_assert_int_eq(mount(NULL, w.staging, NULL, MS_REMOUNT | MS_BIND, NULL), 0);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "ReadOnlyAfterError", HEALTH_DEGRADED);
	node_world_clear(&w);
}
END_TEST

START_TEST(a_filesystem_that_is_frozen_is_told_and_thawed_is_sound)
{
	struct health h;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	fs_state_set(FS_STATE_FROZEN, "ext4", disk->loop, w.staging);
	w.node.o.tuning.guard_ms = 1000;
	for (int i = 0; i < 2; i++) {
		h = ask(VOLUME_ID, NULL, w.staging);
		expect(&h, "FilesystemFrozen", HEALTH_DEGRADED);
		ck_assert_ptr_nonnull(strstr(h.v[0].message, "fsfreeze -u "));
	}
	fs_state_thaw(w.staging, w.node.guard, disk->devno);
	w.node.o.tuning.guard_ms = w.tuning.guard_ms;
	ck_assert_uint_eq(ask(VOLUME_ID, NULL, w.staging).n, 0);
	node_world_clear(&w);
}
END_TEST

START_TEST(errors_that_ext4_has_counted_are_told)
{
	struct err err = ERR_INIT;
	struct health h;
	char *dir AUTO(free) = NULL;
	char *path AUTO(free) = NULL;

	SKIP_UNLESS_LOOP();
	set_up("ext4");
	dir = xasprintf("%s/fs/ext4/%s", w.nvme.sysfs, disk->name);
	path = xasprintf("%s/errors_count", dir);
	ck_assert_int_eq(dir_make(dir, 0755, &err), 0);
	ck_assert_int_eq(file_replace(path, "0\n", 2, 0644, &err), 0);
	ck_assert_uint_eq(ask(VOLUME_ID, NULL, w.staging).n, 0);
	ck_assert_int_eq(file_replace(path, "3\n", 2, 0644, &err), 0);
	h = ask(VOLUME_ID, NULL, w.staging);
	expect(&h, "FilesystemErrors", HEALTH_DEGRADED);
	node_world_clear(&w);
}
END_TEST

START_TEST(the_storage_is_well_while_there_are_functions)
{
	struct err err = ERR_INIT;
	struct health h;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	ck_assert_uint_eq(h.n, 0);
	w.node.o.world.sysfs = "/nonexistent";
	w.node.o.max_volumes = 1;
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	expect(&h, "NoFunctions", HEALTH_INACCESSIBLE);
	node_world_clear(&w);
}
END_TEST

static void *read_override(void *arg)
{
	struct err err = ERR_INIT;
	char *text AUTO(free) = NULL;

	IGNORE_RESULT(sysfs_attr(arg, "driver_override", &text, &err));
	return NULL;
}

static void answer_fifo(const char *dir)
{
	run_tool("echo >%s/driver_override", dir);
}

START_TEST(functions_that_do_not_answer_are_told)
{
	char *dir AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct health h;
	pthread_t thread;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	dir = xasprintf("%s/bus/pci/devices/0000:77:00.0", w.nvme.sysfs);
	run_tool("mkdir -p %s && mkfifo %s/driver_override", dir, dir);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	ck_assert_uint_eq(h.n, 0);
	w.node.o.world.hang_ms = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, read_override, dir), 0);
	while (!sysfs_hung(1, NULL))
		usleep(1000);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	expect(&h, "FunctionsHang", HEALTH_DEGRADED);
	ck_assert_msg(strstr(h.v[0].message, "0000:77:00.0/driver_override for "), "%s",
	              h.v[0].message);
	answer_fifo(dir);
	pthread_join(thread, NULL);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	ck_assert_uint_eq(h.n, 0);
	node_world_clear(&w);
}
END_TEST

/* The scan of the host itself hangs, and health still answers. */
START_TEST(health_of_a_host_that_does_not_answer_names_what_hangs)
{
	char *dir AUTO(free) = NULL;
	struct err err = ERR_INIT;
	struct health h;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	w.node.o.tuning.host_wait_ms = 20;
	dir = xasprintf("%s/bus/pci/devices/0000:77:00.0", w.nvme.sysfs);
	run_tool("mkdir -p %s && mkfifo %s/class", dir, dir);
	/* The counting thread may get there only after the first answer. */
	WAIT_UNTIL(node_storage_health(&w.node, &h, &err) == 0 && h.n == 2);
	ck_assert_str_eq(h.v[0].reason, "VolumeLimitGuessed");
	ck_assert_str_eq(h.v[1].reason, "FunctionsHang");
	ck_assert_ptr_nonnull(strstr(h.v[1].message, "0000:77:00.0/class for "));
	run_tool("exec 3<>%s/class && echo 0x0 >%s/new && mv %s/new %s/class && echo 0x0 >&3", dir,
	         dir, dir, dir);
	ck_assert(node_wait_host(&w.node, wait_limit()));
	node_world_clear(&w);
}
END_TEST

START_TEST(calls_that_the_kernel_holds_are_told)
{
	struct running *running = running_new(0);
	struct running_call first = { 0 }, second = { 0 };
	struct err err = ERR_INIT;
	struct health h;

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	w.node.o.running = running;
	running_begin(running, &first, "NodeUnstageVolume");
	running_about(&first, "pvc-dead");
	running_begin(running, &second, "NodeStageVolume");
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	ck_assert_uint_eq(h.n, 0);
	running_left(&first);
	running_left(&second);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	expect(&h, "CallsHang", HEALTH_DEGRADED);
	ck_assert_msg(strstr(h.v[0].message, "2 calls") && strstr(h.v[0].message, "pvc-dead"), "%s",
	              h.v[0].message);
	running_end(&first);
	running_end(&second);
	running_free(running);
	node_world_clear(&w);
}
END_TEST

static struct cancel seen = CANCEL_INIT; /* the end of the tool */

static int run_stopped(void *arg, struct err *err)
{
	struct strs argv AUTO(strs_clear) = STRS_INIT;
	struct deadline d = deadline_never();

	(void)arg;
	d.cancel = &seen;
	strs_add(&argv, "perl");
	strs_add(&argv, "-e");
	strs_add(&argv, "kill 'STOP', $$");
	return spawn_run(&argv, d, NULL, err) < 0 ? -1 : 0;
}

static void keep(void *arg)
{
	(void)arg;
}

START_TEST(a_tool_that_is_slow_is_told_with_its_volume)
{
	const struct job_order o = { .key = "pvc-9",
		                     .what = "mkfs.ext4 of /dev/nvme9n1",
		                     .run = run_stopped,
		                     .free = keep };
	struct err err = ERR_INIT;
	struct health h = { .n = 0 };

	SKIP_UNLESS_LOOP();
	node_world_init(&w);
	nvme_world_add(&w.nvme, 1, "", 64 * MIB);
	node_clear(&w.node);
	node_init(&w.node, &(struct node_options) { .id = "n1",
	                                            .world = w.nvme.world,
	                                            .proc_root = "/proc",
	                                            .plugin_dir = w.plugin_dir,
	                                            .tuning.job_turn_ms = 1 });
	ck_assert_int_eq(job_run(w.node.jobs, &o, deadline_in_ms(1), &err), -1);
	err_clear(&err);
	do
		node_count_hung(&w.node);
	while (metric_value(METRIC_JOBS_OLD, NULL) == 0);
	ck_assert_int_eq(node_storage_health(&w.node, &h, &err), 0);
	expect(&h, "ToolsSlow", HEALTH_DEGRADED);
	ck_assert_msg(strstr(h.v[0].message, "mkfs.ext4 of /dev/nvme9n1 (volume pvc-9"), "%s",
	              h.v[0].message);
	cancel_set(&seen);
	ck_assert_int_eq(jobs_wait(w.node.jobs, soon(), &err), 0);
	node_world_clear(&w);
}
END_TEST

SUITE("health", a_sound_volume_has_no_faults_by_path_and_by_id,
      raw_block_is_found_by_its_id_where_kubelet_names_its_own_mapping,
      a_filesystem_of_the_volumes_name_is_not_its_raw_block,
      a_volume_that_was_never_here_is_unknown_not_ill,
      a_volume_that_was_never_mounted_has_its_last_error, a_mount_that_is_missing_is_told,
      a_mount_that_is_not_ours_is_told, a_device_that_has_gone_is_told,
      a_filesystem_that_answers_eio_is_told, a_filesystem_that_could_not_be_asked_has_no_fault,
      a_filesystem_that_has_shut_down_is_told, a_filesystem_that_does_not_answer_is_told,
      a_controller_that_does_not_work_is_told,
      another_disk_with_the_number_of_a_raw_block_volume_is_told,
      a_filesystem_turned_read_only_is_degraded,
      a_filesystem_that_is_frozen_is_told_and_thawed_is_sound,
      errors_that_ext4_has_counted_are_told, the_storage_is_well_while_there_are_functions,
      functions_that_do_not_answer_are_told, health_of_a_host_that_does_not_answer_names_what_hangs,
      calls_that_the_kernel_holds_are_told, a_tool_that_is_slow_is_told_with_its_volume);
