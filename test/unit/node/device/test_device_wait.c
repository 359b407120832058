/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a device: binding, namespaces that come late, and what is put back when the wait
 * fails. The kernel is test/lib/kernel.c; there are no uevents, so that the timer does the work.
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
#include "test/lib/kernel.h"
#include "test/lib/loop.h"
#include "test/lib/skip.h"
#include "test/lib/suite.h"

#define U1 "11111111-aaaa-4bbb-8ccc-000000000001"
#define U2 "22222222-aaaa-4bbb-8ccc-000000000002"
#define MIB (UINT64_C(1) << 20)
#define MS INT64_C(1000000)
#define VF "0000:01:00.1"
#define VF_DIR "/sys/devices/pci0000:00/0000:00:04.0/" VF
#define HEAD "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
#define OVERRIDE "/sys/bus/pci/devices/" VF "/driver_override"

static char *vendor_list[] = { (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 1 };

struct fixture {
	struct tree tree;
	struct kernel kernel;
	struct device_world world;
	struct device_want want;
	struct device dev;
	struct err err;
	int64_t start;
};

static void fixture_clear_p(struct fixture *f)
{
	kernel_clear(&f->kernel);
	tree_clear(&f->tree);
}

static void fixture_init(struct fixture *f, const char *state)
{
	*f = (struct fixture) { .want = { .volume_id = "vol",
		                          .pci = VF,
		                          .nsid = 1,
		                          .uuid = U1,
		                          .capacity = 64 * MIB },
		                .start = monotonic_ns() };
	tree_unpack(&f->tree, state);
	/* Recorded trees have no nodes. This one is there, but opens as no disk. */
	tree_write(&f->tree, "/dev/nvme0n1", "");
	kernel_init(&f->kernel, &f->tree);
	f->world = (struct device_world) { .sysfs = f->tree.sysfs,
		                           .dev = f->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "0010",
		                           .writer = &f->kernel.writer };
}

static int wait_ms(struct fixture *f, int ms)
{
	return device_wait(&f->world, &f->want, deadline_in_ms(ms), &f->dev, &f->err);
}

static int64_t took_ms(const struct fixture *f)
{
	return (monotonic_ns() - f->start) / MS;
}

static void add_namespace(const struct tree *t, uint32_t nsid, const char *uuid)
{
	char dev[16];
	struct kernel_namespace n = { .function = VF_DIR,
		                      .controller = 1,
		                      .instance = nsid,
		                      .nsid = nsid,
		                      .uuid = uuid,
		                      .size = 64 * MIB,
		                      .dev = dev,
		                      .diskseq = 40 + nsid };

	snprintf(dev, sizeof dev, "259:%u", nsid);
	kernel_add_namespace(t, &n);
}

static void namespace_on_bind(struct kernel *k, const char *pci)
{
	ck_assert_str_eq(pci, VF);
	add_namespace(k->tree, 1, U1);
}

static void wrong_namespace_on_bind(struct kernel *k, const char *pci)
{
	ck_assert_str_eq(pci, VF);
	add_namespace(k->tree, 1, U2);
}

static void assert_writes(struct fixture *f, const char *want)
{
	AUTO(free) char *got = kernel_writes(&f->kernel);

	ck_assert_str_eq(got, want);
}

static void assert_override(struct fixture *f, const char *want)
{
	AUTO(free) char *got = tree_read(&f->tree, OVERRIDE);

	ck_assert_str_eq(got, want);
}

#define BOUND "driver_override nvme; bind " VF
/* and found: the override has done its work */
#define BOUND_AND_FOUND BOUND "; driver_override "
#define BOUND_AND_BACK BOUND "; unbind " VF "; driver_override "

/* ---------------------------------------------------------------- it comes */

START_TEST(what_is_there_is_found_without_a_write)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s3-multipath-attached");
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
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, OVERRIDE, "nvme\n");
	ck_assert_int_eq(wait_ms(&f, 0), 0);
	assert_writes(&f, "driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(a_function_without_driver_is_bound_and_stays_so)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	ck_assert_msg(wait_ms(&f, 5000) == 0, "%s", f.err.msg);
	ck_assert_str_eq(f.dev.name, "nvme0n1");
	ck_assert_str_eq(f.dev.pci, VF);
	assert_writes(&f, BOUND_AND_FOUND);
	assert_override(&f, "(null)");
	/* Nothing is left to do, unless somebody sets it again. */
	ck_assert_int_eq(device_release(&f.world, f.dev.pci, &f.err), 0);
	assert_writes(&f, BOUND_AND_FOUND);
	tree_write(&f.tree, OVERRIDE, "nvme\n");
	ck_assert_int_eq(device_release(&f.world, f.dev.pci, &f.err), 0);
	assert_override(&f, "(null)");
	ck_assert_int_lt(took_ms(&f), 2000);
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
	AUTO(fixture_clear) struct fixture f;
	pthread_t thread;

	fixture_init(&f, "s3a-vfs-bound-no-ns");
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	ck_assert_int_eq(pthread_create(&thread, NULL, namespace_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, 10000) == 0, "%s", f.err.msg);
	ck_assert_int_ge(took_ms(&f), 150);
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
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	tree_remove(&f.tree, "/dev/nvme0n1");
	ck_assert_int_eq(wait_ms(&f, 300), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "/dev/nvme0n1 for the disk nvme0n1") != NULL, "%s",
	              f.err.msg);
	err_clear(&f.err);
	tree_write(&f.tree, "/dev/nvme0n1", "");
	ck_assert_int_eq(wait_ms(&f, 20000), 0);
}
END_TEST

START_TEST(a_function_that_is_plugged_late_is_awaited_and_bound)
{
	AUTO(fixture_clear) struct fixture f;
	pthread_t thread;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	tree_rename(&f.tree, "/sys/bus/pci/devices/" VF, "/sys/bus/pci/devices/." VF);
	ck_assert_int_eq(pthread_create(&thread, NULL, function_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, 10000) == 0, "%s", f.err.msg);
	pthread_join(thread, NULL);
	assert_writes(&f, BOUND_AND_FOUND);
}
END_TEST

START_TEST(a_bind_that_fails_is_tried_again)
{
	static const int errnums[] = { ENODEV, EBUSY, EIO, EAGAIN };

	for (size_t i = 0; i < ARRAY_LEN(errnums); i++) {
		AUTO(fixture_clear) struct fixture f;

		fixture_init(&f, "s2-vfs-unbound");
		f.kernel.on_bind = namespace_on_bind;
		f.kernel.faults[0] = (struct kernel_fault) { "bind", errnums[i], 1, false };
		ck_assert_msg(wait_ms(&f, 20000) == 0, "errno %d: %s", errnums[i], f.err.msg);
		assert_writes(&f, BOUND "; driver_override ; " BOUND_AND_FOUND);
		assert_override(&f, "(null)");
	}
}
END_TEST

START_TEST(somebody_elses_bind_is_as_good)
{
	AUTO(fixture_clear) struct fixture f;
	pthread_t thread;

	/* The write finds the function bound a moment before. */
	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "bind", EBUSY, 1, true };
	ck_assert_int_eq(pthread_create(&thread, NULL, namespace_later, &f.tree), 0);
	ck_assert_msg(wait_ms(&f, 10000) == 0, "%s", f.err.msg);
	pthread_join(thread, NULL);
	assert_writes(&f, BOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

/* ---------------------------------------------------------------- it does not come */

START_TEST(time_that_runs_out_says_what_is_missing_and_puts_everything_back)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s2-vfs-unbound");
	ck_assert_int_eq(wait_ms(&f, 300), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "volume vol: time ran out while waiting for the device: "
	                                "no NVMe controller in "),
	              "%s", f.err.msg);
	assert_writes(&f, BOUND_AND_BACK);
	assert_override(&f, "(null)");
	ck_assert_int_ge(took_ms(&f), 300);
	ck_assert_int_lt(took_ms(&f), 5000);
}
END_TEST

START_TEST(a_bind_that_always_fails_is_told_with_its_reason)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "bind", ENODEV, 1000, false };
	ck_assert_int_eq(wait_ms(&f, 600), -1);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "bind of PCI function " VF " for driver nvme") &&
	                      strstr(f.err.msg, "dmesg"),
	              "%s", f.err.msg);
	assert_override(&f, "(null)");
	/* Not in a busy loop: at 0, 250 ms and 750 ms at the earliest. */
	ck_assert_uint_le(f.kernel.writes.n, 9);
}
END_TEST

START_TEST(a_sysfs_that_cannot_be_written_ends_the_wait_at_once)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.faults[0] = (struct kernel_fault) { "driver_override", EROFS, 1000, false };
	ck_assert_int_eq(wait_ms(&f, 20000), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_int_lt(took_ms(&f), 10000);
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
		AUTO(fixture_clear) struct fixture f;

		fixture_init(&f, "s2-vfs-unbound");
		if (rows[i].path)
			tree_write(&f.tree, rows[i].path, rows[i].text);
		else
			tree_link(&f.tree, VF_DIR "/driver",
			          "../../../../bus/pci/drivers/vfio-pci");
		ck_assert_msg(wait_ms(&f, 20000) == -1, "%s", rows[i].what);
		ck_assert_msg(f.err.code == ERR_PRECONDITION, "%s: %s", rows[i].what, f.err.msg);
		ck_assert_int_lt(took_ms(&f), 10000);
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
	AUTO(fixture_clear) struct fixture f;
	struct cancel cancel = CANCEL_INIT;
	struct deadline d = deadline_in_ms(20000);
	pthread_t thread;

	fixture_init(&f, "s2-vfs-unbound");
	d.cancel = &cancel;
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &cancel), 0);
	ck_assert_int_eq(device_wait(&f.world, &f.want, d, &f.dev, &f.err), -1);
	ck_assert_int_lt(took_ms(&f), 10000);
	pthread_join(thread, NULL);
	cancel_destroy(&cancel);
	ck_assert_int_eq(f.err.code, ERR_CANCELLED);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "the caller has gone"));
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
	AUTO(fixture_clear) struct fixture f;
	pthread_t thread;

	fixture_init(&f, "s2-vfs-unbound");
	ck_assert_int_eq(pthread_create(&thread, NULL, vanish_later, &f.tree), 0);
	ck_assert_int_eq(wait_ms(&f, 700), -1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(f.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(f.err.msg, "no PCI function " VF " in "), "%s", f.err.msg);
}
END_TEST

/* ---------------------------------------------------------------- a disk of somebody else */

START_TEST(a_wrong_disk_that_may_be_in_use_keeps_its_driver)
{
	AUTO(fixture_clear) struct fixture f;

	/* Its node is no disk by which to show that nobody uses it. */
	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = wrong_namespace_on_bind;
	ck_assert_int_eq(wait_ms(&f, 20000), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "has UUID " U2 ", the attachment says " U1));
	ck_assert_ptr_nonnull(strstr(f.err.msg, "PCI function " VF " stays with driver nvme"));
	assert_writes(&f, BOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

/* For on_bind: it has no argument of its own. */
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
	snprintf(dev, sizeof dev, "%u:%u", major(wrong_disk->devno), minor(wrong_disk->devno));
	kernel_add_namespace(k->tree, &n);
}

START_TEST(a_wrong_disk_that_nobody_uses_is_let_go)
{
	AUTO(fixture_clear) struct fixture f;
	AUTO(loop_detach) struct loop loop = { .fd = -1 };
	AUTO(fd) int user = -1;
	struct device dev;

	SKIP_UNLESS_LOOP();
	fixture_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	tree_remove(&f.tree, "/dev/nvme0n1");
	loop_node(&loop, &f.tree, "nvme0n1");
	wrong_disk = &loop;
	f.kernel.on_bind = wrong_disk_on_bind;
	ck_assert_int_eq(wait_ms(&f, 20000), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_null(strstr(f.err.msg, "stays with driver"));
	assert_writes(&f, BOUND_AND_BACK);

	/* The same while somebody holds it exclusively, as a mount does. */
	tree_remove(&f.tree, "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
	strs_clear(&f.kernel.writes);
	err_clear(&f.err);
	dev = (struct device) { .devno = loop.devno, .size = loop.size };
	snprintf(dev.path, sizeof dev.path, "%s/nvme0n1", f.tree.dev);
	ck_assert_int_eq(device_open(&dev, O_RDONLY | O_EXCL, &user, NULL, &f.err), 0);
	ck_assert_int_eq(wait_ms(&f, 20000), -1);
	ck_assert_msg(strstr(f.err.msg, "stays with driver nvme, as it may be in use") &&
	                      strstr(f.err.msg, "is in use: mounted"),
	              "%s", f.err.msg);
	assert_writes(&f, BOUND "; driver_override ");
}
END_TEST

/* ---------------------------------------------------------------- a device that is not wanted after all */

/* The loop device as what comes with the bind, matching the UUID that is wanted. */
static void right_disk_on_bind(struct kernel *k, const char *pci)
{
	wrong_disk_on_bind(k, pci);
	tree_write(k->tree, HEAD "/uuid", U1 "\n");
	tree_write(k->tree, HEAD "/wwid", "uuid." U1 "\n");
	tree_write(k->tree, VF_DIR "/nvme/nvme1/nvme0c1n1/uuid", U1 "\n");
	tree_write(k->tree, VF_DIR "/nvme/nvme1/nvme0c1n1/wwid", "uuid." U1 "\n");
}

static void wait_for_loop(struct fixture *f, const struct loop *loop)
{
	loop_node(loop, &f->tree, "nvme0n1");
	wrong_disk = loop;
	f->kernel.on_bind = right_disk_on_bind;
	ck_assert_msg(wait_ms(f, 20000) == 0, "%s", f->err.msg);
}

START_TEST(an_abandoned_device_is_unbound_when_nobody_uses_it)
{
	AUTO(fixture_clear) struct fixture f;
	AUTO(loop_detach) struct loop loop = { .fd = -1 };

	SKIP_UNLESS_LOOP();
	fixture_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	ck_assert_msg(device_abandon(&f.world, &f.dev, &f.err) == 0, "%s", f.err.msg);
	assert_writes(&f, BOUND_AND_FOUND "; unbind " VF "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_in_use_keeps_its_driver)
{
	AUTO(fixture_clear) struct fixture f;
	AUTO(loop_detach) struct loop loop = { .fd = -1 };
	AUTO(fd) int user = -1;

	SKIP_UNLESS_LOOP();
	fixture_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	ck_assert_int_eq(device_open(&f.dev, O_RDONLY | O_EXCL, &user, NULL, &f.err), 0);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "stays with driver nvme"));
	assert_writes(&f, BOUND_AND_FOUND "; driver_override ");
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_with_a_neighbour_keeps_its_driver)
{
	AUTO(fixture_clear) struct fixture f;
	AUTO(loop_detach) struct loop loop = { .fd = -1 };

	SKIP_UNLESS_LOOP();
	fixture_init(&f, "s2-vfs-unbound");
	loop_attach(&loop, &f.tree, 64 * MIB);
	wait_for_loop(&f, &loop);
	add_namespace(&f.tree, 2, U2);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "nvme0n2 is below it, too"));
	assert_writes(&f, BOUND_AND_FOUND "; driver_override ");
}
END_TEST

START_TEST(abandoning_a_device_that_was_bound_before_changes_nothing)
{
	AUTO(fixture_clear) struct fixture f;

	fixture_init(&f, "s3-multipath-attached");
	tree_write(&f.tree, OVERRIDE, "(null)\n");
	ck_assert_int_eq(wait_ms(&f, 0), 0);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), 0);
	assert_writes(&f, "");
}
END_TEST

/* ---------------------------------------------------------------- two volumes, one function */

struct waiter {
	pthread_t thread;
	struct fixture *f;
	struct device_want want;
	struct device dev;
	struct err err;
	int ms, result;
};

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	w->result = device_wait(&w->f->world, &w->want, deadline_in_ms(w->ms), &w->dev, &w->err);
	return NULL;
}

static void start_waiter(struct waiter *w, struct fixture *f, uint32_t nsid, int ms)
{
	*w = (struct waiter) { .f = f, .want = f->want, .ms = ms };
	w->want.nsid = nsid;
	w->want.uuid = "";
	ck_assert_int_eq(pthread_create(&w->thread, NULL, run_waiter, w), 0);
}

START_TEST(a_wait_that_fails_leaves_the_function_to_one_that_found_its_device)
{
	AUTO(fixture_clear) struct fixture f;
	struct waiter loser, winner;

	/* Namespace 1 comes with the bind; 9 never does. */
	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	start_waiter(&loser, &f, 9, 800);
	usleep(200000); /* it is the one that binds */
	start_waiter(&winner, &f, 1, 10000);
	pthread_join(winner.thread, NULL);
	pthread_join(loser.thread, NULL);
	ck_assert_msg(winner.result == 0, "%s", winner.err.msg);
	ck_assert_int_eq(loser.result, -1);
	ck_assert_int_eq(loser.err.code, ERR_DEADLINE);
	assert_writes(&f, BOUND_AND_FOUND);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(an_abandoned_device_is_left_to_whoever_waits_for_its_neighbour)
{
	AUTO(fixture_clear) struct fixture f;
	struct waiter neighbour;

	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.on_bind = namespace_on_bind;
	ck_assert_int_eq(wait_ms(&f, 10000), 0);
	start_waiter(&neighbour, &f, 9, 700);
	usleep(200000);
	ck_assert_int_eq(device_abandon(&f.world, &f.dev, &f.err), 0);
	assert_writes(&f, BOUND_AND_FOUND);
	/* Which fails too; the disk has no node here, so nobody can prove that it is unused. */
	pthread_join(neighbour.thread, NULL);
	ck_assert_int_eq(neighbour.result, -1);
	ck_assert_ptr_nonnull(strstr(neighbour.err.msg, "stays with driver nvme"));
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(the_last_of_two_waits_that_fail_gives_the_function_back)
{
	AUTO(fixture_clear) struct fixture f;
	struct waiter first, last;

	fixture_init(&f, "s2-vfs-unbound");
	start_waiter(&first, &f, 8, 500); /* binds */
	usleep(200000);
	start_waiter(&last, &f, 9, 900);
	pthread_join(first.thread, NULL);
	assert_writes(&f, BOUND);
	pthread_join(last.thread, NULL);
	ck_assert_int_eq(first.result, -1);
	ck_assert_int_eq(last.result, -1);
	assert_writes(&f, BOUND_AND_BACK);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(a_function_that_is_being_bound_is_not_bound_a_second_time)
{
	AUTO(fixture_clear) struct fixture f;
	struct waiter first, second;

	/* It would find the override of the first, and restore that when its bind meets EBUSY. */
	fixture_init(&f, "s2-vfs-unbound");
	f.kernel.bind_ms = 400;
	start_waiter(&first, &f, 8, 600);
	usleep(200000);
	start_waiter(&second, &f, 9, 900);
	pthread_join(first.thread, NULL);
	assert_writes(&f, BOUND);
	pthread_join(second.thread, NULL);
	ck_assert_int_eq(first.result, -1);
	ck_assert_int_eq(second.result, -1);
	assert_writes(&f, BOUND_AND_BACK);
	assert_override(&f, "(null)");
}
END_TEST

START_TEST(many_waits_on_one_function_end_in_one_state)
{
	AUTO(fixture_clear) struct fixture f;
	AUTO(str_clear) struct str why = STR_INIT(300);
	struct waiter w[8];

	fixture_init(&f, "s2-vfs-unbound");
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		start_waiter(&w[i], &f, (uint32_t)i + 1, 100 + 60 * (int)i);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		pthread_join(w[i].thread, NULL);
		ck_assert_int_eq(w[i].result, -1);
		ck_assert_int_eq(w[i].err.code, ERR_DEADLINE);
	}
	assert_override(&f, "(null)");
	/* The last write of a binding was its undoing. */
	ck_assert_int_eq(device_find(&f.world, &f.want, &f.dev, &why, &f.err), 1);
	ck_assert_ptr_nonnull(strstr(why.ptr, "is held by no driver"));
}
END_TEST

SUITE_TIMEOUT("device_wait", 120, what_is_there_is_found_without_a_write,
              the_override_of_a_bound_function_is_cleared,
              a_function_without_driver_is_bound_and_stays_so,
              a_namespace_that_comes_late_is_awaited, a_disk_whose_node_comes_late_is_awaited,
              a_function_that_is_plugged_late_is_awaited_and_bound,
              a_bind_that_fails_is_tried_again, somebody_elses_bind_is_as_good,
              time_that_runs_out_says_what_is_missing_and_puts_everything_back,
              a_bind_that_always_fails_is_told_with_its_reason,
              a_sysfs_that_cannot_be_written_ends_the_wait_at_once,
              functions_that_are_not_ours_are_refused_without_a_write,
              a_cancelled_call_stops_and_puts_everything_back,
              a_function_that_vanishes_is_awaited_and_named,
              a_wrong_disk_that_may_be_in_use_keeps_its_driver,
              a_wrong_disk_that_nobody_uses_is_let_go,
              an_abandoned_device_is_unbound_when_nobody_uses_it,
              an_abandoned_device_in_use_keeps_its_driver,
              an_abandoned_device_with_a_neighbour_keeps_its_driver,
              abandoning_a_device_that_was_bound_before_changes_nothing,
              a_wait_that_fails_leaves_the_function_to_one_that_found_its_device,
              an_abandoned_device_is_left_to_whoever_waits_for_its_neighbour,
              the_last_of_two_waits_that_fail_gives_the_function_back,
              a_function_that_is_being_bound_is_not_bound_a_second_time,
              many_waits_on_one_function_end_in_one_state);
