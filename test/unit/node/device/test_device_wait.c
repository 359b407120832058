/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a device: binding, namespaces that appear late, and the undo of a failed wait. The
 * kernel is test/lib/kernel.c; there are no uevents, so only the timer ends an interval.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"
#include "test/lib/loop.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"
#include "test/lib/wait_world.h"
#include "test/lib/wait.h"

/* On a loaded machine, long enough to reach the state in which a wait ends. */
#define RUNS_OUT_MS 3000

#define U2 "22222222-aaaa-4bbb-8ccc-000000000002"
#define HEAD "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"

static void wrong_namespace_on_bind(struct kernel *k, const char *pci)
{
	ck_assert_str_eq(pci, VF);
	add_namespace(k->tree, 1, U2);
}

/* ---- it appears ---- */

START_TEST(what_is_there_is_found_without_a_write)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	f.want.capacity = 512 * MIB;
	ck_assert_int_eq(wait_ms(&f, 0), 0);
	ck_assert_str_eq(f.dev.name, "nvme0n1");
	assert_writes(&f, "");
}
END_TEST

/* As the Go plugin leaves it while a volume is staged. */
START_TEST(the_override_of_a_bound_function_is_cleared)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, OVERRIDE, "nvme\n");
	ck_assert_int_eq(wait_ms(&f, 0), 0);
	assert_writes(&f, "driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(a_function_without_driver_is_bound_and_stays_so)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	ck_assert_msg(wait_ms(&f, WAIT_LIMIT_MS) == 0, "%s", f.err.msg);
	ck_assert_str_eq(f.dev.name, "nvme0n1");
	ck_assert_str_eq(f.dev.pci, VF);
	assert_writes(&f, BOUND_AND_FOUND);
	assert_override(&f, "(null)");
	/* Nothing is left to do, unless another program sets it again. */
	ck_assert_int_eq(device_release(&f.world, &f.dev, &f.err), 0);
	assert_writes(&f, BOUND_AND_FOUND);
	tree_write(&f.tree, OVERRIDE, "nvme\n");
	ck_assert_int_eq(device_release(&f.world, &f.dev, &f.err), 0);
	assert_override(&f, "(null)");
}
END_TEST

static void *namespace_later(void *arg)
{
	usleep(150000);
	add_namespace(arg, 1, U1);
	return NULL;
}

START_TEST(a_namespace_that_comes_late_is_awaited)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	wait_world_init(&f, "s3a-vfs-bound-no-ns");
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	ck_assert_int_eq(pthread_create(&thread, NULL, namespace_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, WAIT_LIMIT_MS) == 0, "%s", f.err.msg);
	pthread_join(thread, NULL);
	assert_writes(&f, "");
}
END_TEST

static void *function_later(void *arg)
{
	const struct tree *t = arg;

	usleep(100000);
	tree_rename(t, "/sys/bus/pci/devices/." VF, "/sys/bus/pci/devices/" VF);
	return NULL;
}

START_TEST(a_disk_whose_node_comes_late_is_awaited)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	tree_remove(&f.tree, "/dev/nvme0n1");
	ck_assert_int_eq(wait_ms(&f, RUNS_OUT_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "/dev/nvme0n1 is missing for the disk nvme0n1") != NULL,
	              "%s", f.err.msg);
	err_clear(&f.err);
	tree_write(&f.tree, "/dev/nvme0n1", "");
	ck_assert_int_eq(wait_ms(&f, WAIT_LIMIT_MS), 0);
}
END_TEST

START_TEST(a_function_that_is_plugged_late_is_awaited_and_bound)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	tree_rename(&f.tree, "/sys/bus/pci/devices/" VF, "/sys/bus/pci/devices/." VF);
	ck_assert_int_eq(pthread_create(&thread, NULL, function_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, WAIT_LIMIT_MS) == 0, "%s", f.err.msg);
	pthread_join(thread, NULL);
	assert_writes(&f, BOUND_AND_FOUND);
}
END_TEST

START_TEST(a_bind_that_fails_is_tried_again)
{
	static const int errnums[] = { ENODEV, EBUSY, EIO, EAGAIN };

	for (size_t i = 0; i < ARRAY_LEN(errnums); i++) {
		struct wait_world f AUTO(wait_world_clear);

		wait_world_init(&f, "s2-vfs-unbound");
		f.kernel.on_bind = namespace_on_bind;
		f.kernel.faults[0] = (struct kernel_fault) { "bind", errnums[i], 1, false };
		ck_assert_msg(wait_ms(&f, WAIT_LIMIT_MS) == 0, "errno %d: %s", errnums[i],
		              f.err.msg);
		assert_writes(&f, BOUND "; driver_override ; " BOUND_AND_FOUND);
		assert_override(&f, "(null)");
	}
}
END_TEST

START_TEST(somebody_elses_bind_is_as_good)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	/* Another program has bound the function a moment before the write. */
	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "bind", EBUSY, 1, true };
	ck_assert_int_eq(pthread_create(&thread, NULL, namespace_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, WAIT_LIMIT_MS) == 0, "%s", f.err.msg);
	pthread_join(thread, NULL);
	assert_writes(&f, BOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

/* ---- it does not appear ---- */

START_TEST(time_that_runs_out_says_what_is_missing_and_puts_everything_back)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	ck_assert_int_eq(wait_ms(&f, RUNS_OUT_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "volume vol: time ran out while waiting for the device: "
	                                "no NVMe controller in "),
	              "%s", f.err.msg);
	assert_writes(&f, BOUND_AND_BACK);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(a_bind_that_always_fails_is_told_with_its_reason)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "bind", ENODEV, 1000, false };
	ck_assert_int_eq(wait_ms(&f, 1500), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "bind of PCI function " VF " for driver nvme") &&
	                      strstr(f.err.msg, "dmesg"),
	              "%s", f.err.msg);
	assert_override(&f, "(null)");
	/* Not in a busy loop: at 0, 250 ms and 750 ms at the earliest; the next is at 1750 ms. */
	ck_assert_uint_le(f.kernel.writes.n, 9);
}
END_TEST

static void let_go_again(struct kernel *k, const char *pci)
{
	(void)pci;
	tree_remove(k->tree, VF_DIR "/driver");
}

START_TEST(a_driver_that_takes_it_and_lets_it_go_is_told)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = let_go_again;
	ck_assert_int_eq(wait_ms(&f, RUNS_OUT_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "PCI function " VF " has no driver; nvme is expected") &&
	                      strstr(f.err.msg, "driver nvme bound it and released it "
	                                        "again (its probe failed: see dmesg)"),
	              "%s", f.err.msg);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(a_sysfs_that_cannot_be_written_ends_the_wait_at_once)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "driver_override", EROFS, 1000, false };
	ck_assert_int_eq(wait_ms(&f, NEVER_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "Read-only file system"));
}
END_TEST

START_TEST(functions_that_are_not_ours_are_refused_without_a_write)
{
	static const struct {
		const char *what, *path, *text;
	} rows[] = {
		{ "class", VF_DIR "/class", "0x020000\n" },
		{ "vendor", VF_DIR "/vendor", "0x8086\n" },
		{ "parent", "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.0/device",
		  "0x0011\n" },
		{ "override", VF_DIR "/driver_override", "vfio-pci\n" },
		{ "driver", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wait_world f AUTO(wait_world_clear);

		wait_world_init(&f, "s2-vfs-unbound");
		if (rows[i].path)
			tree_write(&f.tree, rows[i].path, rows[i].text);
		else
			tree_link(&f.tree, VF_DIR "/driver",
			          "../../../../bus/pci/drivers/vfio-pci");
		ck_assert_msg(wait_ms(&f, NEVER_MS) == -1, "%s", rows[i].what);
		ck_assert_msg(f.err.code == ERR_PRECONDITION, "%s: %s", rows[i].what, f.err.msg);
		assert_writes(&f, "");
	}
}
END_TEST

static void *cancel_later(void *arg)
{
	usleep(150000);
	cancel_set(arg);
	return NULL;
}

START_TEST(a_cancelled_call_stops_and_puts_everything_back)
{
	struct wait_world f AUTO(wait_world_clear);
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = deadline_never();
	pthread_t thread;

	wait_world_init(&f, "s2-vfs-unbound");
	d.cancel = &cancel;
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &cancel), 0);
	ck_assert_int_eq(device_wait(&f.world, &f.want, d, &f.dev, &f.err), -1);
	pthread_join(thread, NULL);
	cancel_destroy(&cancel);
	ck_assert_int_eq(f.err.code, ERR_CANCELLED);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "the caller cancelled the call"));
	assert_writes(&f, BOUND_AND_BACK);
}
END_TEST

static void *vanish_later(void *arg)
{
	const struct tree *t = arg;

	usleep(150000);
	tree_remove(t, "/sys/bus/pci/devices/" VF);
	return NULL;
}

START_TEST(a_function_that_vanishes_is_awaited_and_named)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	wait_world_init(&f, "s2-vfs-unbound");
	ck_assert_int_eq(pthread_create(&thread, NULL, vanish_later, &f.tree), 0);
	ck_assert_int_eq(wait_ms(&f, 700), -1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "no PCI function " VF " in "), "%s", f.err.msg);
}
END_TEST

/* ---- another volume's disk ---- */

START_TEST(a_wrong_disk_that_may_be_in_use_keeps_its_driver)
{
	struct wait_world f AUTO(wait_world_clear);

	/* Its node is not a block device, so it counts as in use. */
	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = wrong_namespace_on_bind;
	ck_assert_int_eq(wait_ms(&f, NEVER_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "has UUID " U2 " (expected " U1));
	ck_assert_ptr_nonnull(strstr(f.err.msg, "PCI function " VF " stays bound to driver nvme"));
	assert_writes(&f, BOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

/* Global, since on_bind has no argument for it. */
static const struct loop *wrong_disk;

static void wrong_disk_on_bind(struct kernel *k, const char *pci)
{
	char dev[32];
	struct kernel_namespace n = { .function = VF_DIR,
		                      .controller = 1,
		                      .instance = 1,
		                      .nsid = 1,
		                      .uuid = U2,
		                      .size = wrong_disk->size,
		                      .dev = dev,
		                      .diskseq = wrong_disk->diskseq };

	(void)pci;
	snprintf(dev, sizeof(dev), "%u:%u", major(wrong_disk->devno), minor(wrong_disk->devno));
	kernel_add_namespace(k->tree, &n);
}

START_TEST(a_wrong_disk_that_nobody_uses_is_let_go)
{
	struct wait_world f AUTO(wait_world_clear) = { 0 };
	struct loop loop AUTO(loop_detach) = { .fd = -1 };
	int user AUTO(fd) = -1;
	struct device dev;

	SKIP_UNLESS_LOOP();
	wait_world_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	tree_remove(&f.tree, "/dev/nvme0n1");
	loop_node(&loop, &f.tree, "nvme0n1");
	wrong_disk = &loop;
	f.kernel.on_bind = wrong_disk_on_bind;
	ck_assert_int_eq(wait_ms(&f, NEVER_MS), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_null(strstr(f.err.msg, "stays bound to driver"));
	assert_writes(&f, BOUND_AND_BACK);

	/* The same while another process holds it exclusively, as a mount does. */
	tree_remove(&f.tree, "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
	strs_clear(&f.kernel.writes);
	err_clear(&f.err);
	dev = (struct device) { .devno = loop.devno, .size = loop.size };
	snprintf(dev.path, sizeof(dev.path), "%s/nvme0n1", f.tree.dev);
	ck_assert_int_eq(device_open(&dev, O_RDONLY | O_EXCL, &user, NULL, &f.err), 0);
	ck_assert_int_eq(wait_ms(&f, NEVER_MS), -1);
	ck_assert_msg(strstr(f.err.msg, "stays bound to driver nvme because it may be in use") &&
	                      strstr(f.err.msg, "is in use: mounted"),
	              "%s", f.err.msg);
	assert_writes(&f, BOUND "; driver_override ");
}
END_TEST

/* ---- a device that is not used after all ---- */

/* The loop device appears with the bind, and has the wanted UUID. */
static void right_disk_on_bind(struct kernel *k, const char *pci)
{
	wrong_disk_on_bind(k, pci);
	tree_write(k->tree, HEAD "/uuid", U1 "\n");
	tree_write(k->tree, HEAD "/wwid", "uuid." U1 "\n");
	tree_write(k->tree, VF_DIR "/nvme/nvme1/nvme0c1n1/uuid", U1 "\n");
	tree_write(k->tree, VF_DIR "/nvme/nvme1/nvme0c1n1/wwid", "uuid." U1 "\n");
}

static void wait_for_loop(struct wait_world *f, const struct loop *loop)
{
	loop_node(loop, &f->tree, "nvme0n1");
	wrong_disk = loop;
	f->kernel.on_bind = right_disk_on_bind;
	ck_assert_msg(wait_ms(f, WAIT_LIMIT_MS) == 0, "%s", f->err.msg);
}

START_TEST(an_abandoned_device_is_unbound_when_nobody_uses_it)
{
	struct wait_world f AUTO(wait_world_clear) = { 0 };
	struct loop loop AUTO(loop_detach) = { .fd = -1 };

	SKIP_UNLESS_LOOP();
	wait_world_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	ck_assert_msg(device_abandon(&f.world, &f.dev, &f.err) == 0, "%s", f.err.msg);
	assert_writes(&f, BOUND_AND_FOUND "; unbind " VF "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_in_use_keeps_its_driver)
{
	struct wait_world f AUTO(wait_world_clear) = { 0 };
	struct loop loop AUTO(loop_detach) = { .fd = -1 };
	int user AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	wait_world_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY | O_EXCL, &user, NULL, &f.err), 0);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "stays bound to driver nvme"));
	assert_writes(&f, BOUND_AND_FOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_with_a_neighbour_keeps_its_driver)
{
	struct wait_world f AUTO(wait_world_clear) = { 0 };
	struct loop loop AUTO(loop_detach) = { .fd = -1 };

	SKIP_UNLESS_LOOP();
	wait_world_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	add_namespace(&f.tree, 2, U2);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "nvme0n2 is also below it"));
	assert_writes(&f, BOUND_AND_FOUND "; driver_override ");
}
END_TEST

START_TEST(abandoning_a_device_that_was_bound_before_changes_nothing)
{
	struct wait_world f AUTO(wait_world_clear);

	wait_world_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	ck_assert_int_eq(wait_ms(&f, 0), 0);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), 0);
	assert_writes(&f, "");
}
END_TEST

static void *recover_function(void *arg)
{
	const struct wait_world *f = arg;
	struct err err = ERR_INIT;

	IGNORE_RESULT(device_recover(&f->world, VF, &err));
	return NULL;
}

static bool hangs_at(const char *path)
{
	struct strs at AUTO(strs_clear) = STRS_INIT;

	sysfs_hung(0, &at);
	for (size_t i = 0; i < at.n; i++)
		if (strstr(at.v[i], path))
			return true;
	return false;
}

/*
 * The start of the driver hangs in the kernel at this function; a stage must not hang there as
 * well.
 */
START_TEST(a_function_at_which_the_start_hangs_is_unavailable)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	f.world.hang_ms = 50;
	tree_fifo(&f.tree, OVERRIDE);
	ck_assert_int_eq(pthread_create(&thread, NULL, recover_function, &f), 0);
	WAIT_UNTIL(hangs_at(OVERRIDE));
	ck_assert_int_eq(wait_ms(&f, 20000), -1);
	ck_assert_msg(f.err.code == ERR_UNAVAILABLE && strstr(f.err.msg, VF " does not answer"),
	              "%s", f.err.msg);
	assert_writes(&f, "");
	tree_answer(&f.tree, OVERRIDE, "(null)\n");
	pthread_join(thread, NULL);
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	err_clear(&f.err);
	ck_assert_msg(wait_ms(&f, 20000) == 0, "%s", f.err.msg);
}
END_TEST

/* The start takes a moment: the stage waits for it, and continues. */
START_TEST(a_stage_waits_while_the_start_is_at_its_function)
{
	struct wait_world f AUTO(wait_world_clear);
	pthread_t thread;

	wait_world_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	f.world.hang_ms = WAIT_LIMIT_MS;
	tree_write(&f.tree, OVERRIDE, "nvme\n");
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(pthread_create(&thread, NULL, recover_function, &f), 0);
		ck_assert_msg(wait_ms(&f, 20000) == 0, "%s", f.err.msg);
		pthread_join(thread, NULL);
		assert_override(&f, "(null)");
		tree_write(&f.tree, OVERRIDE, "nvme\n");
	}
}
END_TEST

SUITE_TIMEOUT("device_wait", 120, a_function_at_which_the_start_hangs_is_unavailable,
              a_stage_waits_while_the_start_is_at_its_function,
              what_is_there_is_found_without_a_write, the_override_of_a_bound_function_is_cleared,
              a_function_without_driver_is_bound_and_stays_so,
              a_namespace_that_comes_late_is_awaited, a_disk_whose_node_comes_late_is_awaited,
              a_function_that_is_plugged_late_is_awaited_and_bound,
              a_bind_that_fails_is_tried_again, somebody_elses_bind_is_as_good,
              time_that_runs_out_says_what_is_missing_and_puts_everything_back,
              a_bind_that_always_fails_is_told_with_its_reason,
              a_driver_that_takes_it_and_lets_it_go_is_told,
              a_sysfs_that_cannot_be_written_ends_the_wait_at_once,
              functions_that_are_not_ours_are_refused_without_a_write,
              a_cancelled_call_stops_and_puts_everything_back,
              a_function_that_vanishes_is_awaited_and_named,
              a_wrong_disk_that_may_be_in_use_keeps_its_driver,
              a_wrong_disk_that_nobody_uses_is_let_go,
              an_abandoned_device_is_unbound_when_nobody_uses_it,
              an_abandoned_device_in_use_keeps_its_driver,
              an_abandoned_device_with_a_neighbour_keeps_its_driver,
              abandoning_a_device_that_was_bound_before_changes_nothing);
