/* SPDX-License-Identifier: Apache-2.0 */
/* Binding a function to a driver, and the state after a failed step. */
#include <errno.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/device/pci_driver.h"
#include "test/lib/kernel.h"
#include "test/lib/suite.h"

#define VF "0000:01:00.1"
#define VF_DIR "/sys/bus/pci/devices/" VF

static char *vendor_list[] = { (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 1 };

struct bind_world {
	struct tree tree;
	struct kernel kernel;
	struct device_world world;
	struct pci_change change;
	struct str why;
	struct err err;
};

static void bind_world_clear_p(struct bind_world *f)
{
	kernel_clear(&f->kernel);
	tree_clear(&f->tree);
	str_clear(&f->why);
}

/* Unbound VFs, autoprobe 0. */
static void bind_world_init(struct bind_world *f)
{
	*f = (struct bind_world) { .why = STR_INIT(700) };
	tree_unpack(&f->tree, "s2-vfs-unbound");
	kernel_init(&f->kernel, &f->tree);
	f->world = (struct device_world) { .sysfs = f->tree.sysfs,
		                           .dev = f->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "0010",
		                           .writer = &f->kernel.writer };
}

static int give(struct bind_world *f)
{
	return pci_give(&f->world, VF, "nvme", &f->change, &f->why, &f->err);
}

static void assert_writes(struct bind_world *f, const char *what, const char *want)
{
	char *got AUTO(free) = kernel_writes(&f->kernel);

	ROW_STR_EQ(what, got, want);
}

static void assert_state(struct bind_world *f, const char *what, const char *driver,
                         const char *override)
{
	char *got AUTO(free) = tree_read(&f->tree, VF_DIR "/driver_override");
	char *holder AUTO(free) = NULL;
	struct err err = ERR_INIT;
	int rc = pci_driver(&f->world, VF, &holder, &err);

	ck_assert_int_ge(rc, 0);
	ROW_STR_EQ(what, rc == PCI_ABSENT ? "" : holder, driver);
	ROW_STR_EQ(what, got, override);
}

START_TEST(a_free_function_is_bound_by_override)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	ck_assert_int_eq(give(&f), 0);
	assert_writes(&f, "give", "driver_override nvme; bind " VF);
	assert_state(&f, "give", "nvme", "nvme");
	ck_assert_str_eq(f.change.pci, VF);
	/* Again: already held, so nothing is written, and nothing has to be undone. */
	memset(&f.change, 0, sizeof(f.change));
	ck_assert_int_eq(give(&f), 0);
	assert_writes(&f, "again", "driver_override nvme; bind " VF);
	ck_assert_str_eq(f.change.pci, "");
}
END_TEST

START_TEST(what_was_given_can_be_taken_back)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	ck_assert_int_eq(give(&f), 0);
	ck_assert_int_eq(pci_give_back(&f.world, &f.change, false, &f.err), 0);
	assert_state(&f, "override only", "nvme", "(null)");
	tree_write(&f.tree, VF_DIR "/driver_override", "nvme\n");
	ck_assert_int_eq(pci_give_back(&f.world, &f.change, true, &f.err), 0);
	assert_state(&f, "all", "", "(null)");
	/* Again, for a function that was removed in the meantime. */
	tree_remove(&f.tree, VF_DIR);
	ck_assert_int_eq(pci_give_back(&f.world, &f.change, true, &f.err), 0);
}
END_TEST

START_TEST(a_failed_step_leaves_nothing_behind)
{
	static const struct {
		const char *what, *attribute;
		int errnum, want;
		const char *says, *writes;
	} rows[] = {
		{ "bind refused", "bind", ENODEV, PCI_NOT_NOW, "see dmesg",
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "bind busy", "bind", EBUSY, PCI_NOT_NOW, "bind of PCI function " VF,
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "probe failed", "bind", EIO, PCI_NOT_NOW, "see dmesg",
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "probe deferred", "bind", EAGAIN, PCI_NOT_NOW, "bind",
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "no driver", "bind", ENOENT, PCI_NOT_NOW,
		  "the driver is not loaded: modprobe loads it",
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "bind forbidden", "bind", EACCES, -1, "needs a writable /sys",
		  "driver_override nvme; bind " VF "; driver_override " },
		{ "override failed", "driver_override", EIO, PCI_NOT_NOW,
		  "driver_override of PCI function", "driver_override nvme" },
		{ "function gone", "driver_override", ENODEV, PCI_NOT_NOW,
		  "driver_override of PCI function", "driver_override nvme" },
		{ "read-only sysfs", "driver_override", EROFS, -1, "needs a writable /sys",
		  "driver_override nvme" },
		{ "not allowed", "driver_override", EPERM, -1, "needs a writable /sys",
		  "driver_override nvme" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bind_world f AUTO(bind_world_clear);
		int rc;

		bind_world_init(&f);
		f.kernel.faults[0] =
			(struct kernel_fault) { rows[i].attribute, rows[i].errnum, 1, false };
		rc = give(&f);
		ck_assert_msg(rc == rows[i].want, "%s: %d", rows[i].what, rc);
		ck_assert_msg(strstr(rc < 0 ? f.err.msg : f.why.ptr, rows[i].says), "%s: %s%s",
		              rows[i].what, f.err.msg, f.why.ptr);
		if (rc < 0)
			ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
		assert_writes(&f, rows[i].what, rows[i].writes);
		assert_state(&f, rows[i].what, "", "(null)");
		ck_assert_str_eq(f.change.pci, "");
	}
}
END_TEST

START_TEST(an_undo_that_fails_is_told)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	f.kernel.faults[0] = (struct kernel_fault) { "bind", EPERM, 1, false };
	/* The second write of the override is the undo. */
	f.kernel.faults[1] = (struct kernel_fault) { "driver_override", 0, 1, true };
	f.kernel.faults[2] = (struct kernel_fault) { "driver_override", EIO, 1, false };
	ck_assert_int_eq(give(&f), -1);
	ck_assert_msg(str_has_prefix(f.err.msg, "restore driver_override of PCI function " VF),
	              "%s", f.err.msg);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
}
END_TEST

static void hold_by(struct bind_world *f, const char *driver)
{
	char target[100];

	snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
	tree_link(&f->tree, VF_DIR "/driver", target);
}

START_TEST(another_driver_is_never_displaced)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	hold_by(&f, "vfio-pci");
	ck_assert_int_eq(give(&f), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, VF " is held by driver vfio-pci"));
	assert_writes(&f, "held", "");
}
END_TEST

START_TEST(an_override_for_another_driver_is_respected)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	tree_write(&f.tree, VF_DIR "/driver_override", "vfio-pci\n");
	ck_assert_int_eq(give(&f), -1);
	ck_assert_int_eq(f.err.code, ERR_PRECONDITION);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "is reserved for driver vfio-pci"));
	assert_writes(&f, "reserved", "");
}
END_TEST

START_TEST(a_parked_function_is_taken_and_parked_again)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	hold_by(&f, "pci-stub");
	tree_write(&f.tree, VF_DIR "/driver_override", "pci-stub\n");
	ck_assert_int_eq(give(&f), 0);
	assert_state(&f, "taken", "nvme", "nvme");
	ck_assert_int_eq(pci_give_back(&f.world, &f.change, true, &f.err), 0);
	assert_state(&f, "parked again", "pci-stub", "pci-stub");
	/* A bind that fails parks it again at once. */
	f.kernel.faults[0] = (struct kernel_fault) { "bind", EIO, 1, false };
	ck_assert_int_eq(give(&f), PCI_NOT_NOW);
	assert_state(&f, "bind failed", "pci-stub", "pci-stub");
	/* An unbind that fails changes nothing. */
	f.kernel.faults[0] = (struct kernel_fault) { "unbind", EIO, 1, false };
	ck_assert_int_eq(give(&f), PCI_NOT_NOW);
	assert_state(&f, "unbind failed", "pci-stub", "pci-stub");
}
END_TEST

START_TEST(a_leftover_override_of_ours_is_cleared_by_the_undo)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	tree_write(&f.tree, VF_DIR "/driver_override", "nvme\n");
	f.kernel.faults[0] = (struct kernel_fault) { "bind", EIO, 1, false };
	ck_assert_int_eq(give(&f), PCI_NOT_NOW);
	assert_state(&f, "after the undo", "", "(null)");
}
END_TEST

START_TEST(forgetting_clears_only_our_override)
{
	static const struct {
		const char *what, *before, *after, *writes;
	} rows[] = {
		{ "ours", "nvme\n", "(null)", "driver_override " },
		{ "none", "(null)\n", "(null)", "" },
		{ "an empty line", "\n", "", "" },
		{ "another driver's", "vfio-pci\n", "vfio-pci", "" },
		{ "one that begins the same", "nvme-x\n", "nvme-x", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bind_world f AUTO(bind_world_clear);

		bind_world_init(&f);
		tree_write(&f.tree, VF_DIR "/driver_override", rows[i].before);
		ck_assert_int_eq(pci_forget(&f.world, VF, "nvme", &f.err),
		                 *rows[i].writes ? 0 : PCI_NOT_SET);
		assert_writes(&f, rows[i].what, rows[i].writes);
		assert_state(&f, rows[i].what, "", rows[i].after);
	}
}
END_TEST

START_TEST(forgetting_a_function_that_has_gone_is_fine)
{
	struct bind_world f AUTO(bind_world_clear);

	bind_world_init(&f);
	ck_assert_int_eq(pci_forget(&f.world, "0000:77:00.1", "nvme", &f.err), PCI_NOT_SET);
	tree_write(&f.tree, VF_DIR "/driver_override", "nvme\n");
	f.kernel.faults[0] = (struct kernel_fault) { "driver_override", ENODEV, 1, false };
	ck_assert_int_eq(pci_forget(&f.world, VF, "nvme", &f.err), 0);
	f.kernel.faults[0] = (struct kernel_fault) { "driver_override", EIO, 1, false };
	ck_assert_int_eq(pci_forget(&f.world, VF, "nvme", &f.err), -1);
	ck_assert_ptr_nonnull(strstr(f.err.msg, "clear driver_override of PCI function " VF));
}
END_TEST

struct other {
	struct bind_world *f;
	struct err err;
	int rc;
};

static void *forget_beside(void *arg)
{
	struct other *o = arg;

	o->rc = pci_forget(&o->f->world, VF, "nvme", &o->err);
	return NULL;
}

static void wait_until_one_hangs(void)
{
	while (!sysfs_hung(0, NULL))
		usleep(1000);
}

/* The kernel's lock of a device that is being removed: a read of driver_override waits for it. */
START_TEST(a_function_that_hangs_costs_one_thread_and_is_named)
{
	struct bind_world f AUTO(bind_world_clear);
	struct other first = { .f = &f };
	pthread_t thread;

	bind_world_init(&f);
	f.world.hang_ms = 20;
	tree_fifo(&f.tree, VF_DIR "/driver_override");
	ck_assert_int_eq(pthread_create(&thread, NULL, forget_beside, &first), 0);
	wait_until_one_hangs();
	for (int i = 0; i < 3; i++) {
		const struct pci_change change = { .pci = VF, .driver = "nvme" };

		err_clear(&f.err);
		ck_assert_int_eq(i == 0   ? give(&f)
		                 : i == 1 ? pci_forget(&f.world, VF, "nvme", &f.err)
		                          : pci_give_back(&f.world, &change, true, &f.err),
		                 -1);
		ck_assert_msg(f.err.code == ERR_UNAVAILABLE && strstr(f.err.msg, VF), "%s",
		              f.err.msg);
	}
	err_clear(&f.err);
	ck_assert_int_eq(pci_driver_answers(&f.world, "nvme", &f.err), -1);
	err_clear(&f.err);
	ck_assert_int_eq(pci_driver_answers(&f.world, "virtio-pci", &f.err), 0);
	ck_assert_int_eq(pci_forget(&f.world, "0000:01:00.2", "nvme", &f.err), PCI_NOT_SET);
	ck_assert_uint_eq(sysfs_hung(0, NULL), 1);
	tree_answer(&f.tree, VF_DIR "/driver_override", "(null)\n");
	pthread_join(thread, NULL);
	ck_assert_int_eq(first.rc, PCI_NOT_SET);
	tree_write(&f.tree, VF_DIR "/driver_override", "(null)\n");
	ck_assert_int_eq(give(&f), 0);
}
END_TEST

/* Recovery must not clear an override that a stage has just written, nor the other way round. */
START_TEST(two_threads_change_a_function_one_after_the_other)
{
	struct bind_world f AUTO(bind_world_clear);
	struct other second = { .f = &f };
	struct other first = { .f = &f };
	pthread_t threads[2];

	bind_world_init(&f);
	tree_fifo(&f.tree, VF_DIR "/driver_override");
	ck_assert_int_eq(pthread_create(&threads[0], NULL, forget_beside, &first), 0);
	wait_until_one_hangs();
	ck_assert_int_eq(pthread_create(&threads[1], NULL, forget_beside, &second), 0);
	usleep(20000);
	ck_assert_uint_eq(sysfs_hung(0, NULL), 1);
	tree_answer(&f.tree, VF_DIR "/driver_override", "(null)\n");
	pthread_join(threads[0], NULL);
	wait_until_one_hangs();
	tree_answer(&f.tree, VF_DIR "/driver_override", "(null)\n");
	pthread_join(threads[1], NULL);
	ck_assert_int_eq(first.rc, PCI_NOT_SET);
	ck_assert_int_eq(second.rc, PCI_NOT_SET);
}
END_TEST

SUITE_TIMEOUT("pci_driver", 120, a_free_function_is_bound_by_override,
              what_was_given_can_be_taken_back, a_failed_step_leaves_nothing_behind,
              an_undo_that_fails_is_told, another_driver_is_never_displaced,
              an_override_for_another_driver_is_respected,
              a_parked_function_is_taken_and_parked_again,
              a_leftover_override_of_ours_is_cleared_by_the_undo,
              forgetting_clears_only_our_override, forgetting_a_function_that_has_gone_is_fine,
              a_function_that_hangs_costs_one_thread_and_is_named,
              two_threads_change_a_function_one_after_the_other);
