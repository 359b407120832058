/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for virtio-fs functions that appear late or are incomplete, releasing them, and the other
 * operations of the room on them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "test/lib/share_tree.h"
#include "test/lib/suite.h"
#include "test/lib/wait.h"

/* ---- wait ---- */

#define LONGEST_MS 15000

static void nothing(struct share_tree *s)
{
	(void)s;
}

struct later {
	pthread_t thread;
	struct share_tree *s;
	void (*edit)(struct share_tree *s);
};

static void *run_later(void *arg)
{
	struct later *l = arg;

	usleep(300000);
	l->edit(l->s);
	return NULL;
}

static int wait_with(struct share_tree *s, void (*edit)(struct share_tree *s), int ms)
{
	struct later l = { .s = s, .edit = edit };
	int rc;

	ck_assert_int_eq(pthread_create(&l.thread, NULL, run_later, &l), 0);
	rc = share_wait_ms(s, ms);
	pthread_join(l.thread, NULL);
	return rc;
}

static void plug(struct share_tree *s)
{
	tree_rename(&s->tree, "/unplugged", DEVICES SHARE);
}
static void unplug(struct share_tree *s)
{
	tree_rename(&s->tree, DEVICES SHARE, "/unplugged");
}
static void show_the_tag(struct share_tree *s)
{
	virtio_function_set_tag(s->tree.sysfs, SHARE, "share");
}
static void parked_at_boot(struct share_tree *s)
{
	share_bind_to(s, SHARE, "pci-stub");
}
static void hide_the_tag(struct share_tree *s)
{
	virtio_function_set_tag(s->tree.sysfs, SHARE, NULL);
}
static void add_vuid(struct share_tree *s, const char *pci)
{
	char *path AUTO(free) = xasprintf(DEVICES "%s/vpd", pci);
	char vpd[64] = "\x90..VU";
	size_t n = strlen(VUID);

	vpd[1] = (char)(n + 3);
	vpd[2] = 0;
	vpd[5] = (char)n;
	memcpy(vpd + 6, VUID, n);
	vpd[6 + n] = 0x78;
	tree_write_bytes(&s->tree, path, vpd, n + 7);
}
static void in_another_slot_than_published(struct share_tree *s)
{
	s->want.pci = EMPTY_SLOT;
	s->want.vuid = VUID;
	add_vuid(s, SHARE);
	unplug(s);
}
/* For a moment another volume's function has the address. */
static void another_one_is_at_its_address(struct share_tree *s)
{
	in_another_slot_than_published(s);
	virtio_function_add(s->tree.sysfs, EMPTY_SLOT, "0x1af4\n", "theirs");
}
static void tag_was_taken(struct share_tree *s)
{
	virtio_function_add(s->tree.sysfs, SECOND, "0x1af4\n", "share");
	ck_assert_int_eq(share_bind(s, SECOND, 4, "share"), 0);
}
static void tag_comes_free(struct share_tree *s)
{
	kernel_remove_virtio(&s->tree, 4);
}

START_TEST(a_function_that_comes_late_is_bound_and_found)
{
	static const struct {
		const char *what;
		bool shown;
		void (*before)(struct share_tree *s);
		void (*later)(struct share_tree *s);
		const char *writes;
	} rows[] = {
		{ "there already", true, nothing, nothing, FOUND },
		{ "there already, old kernel", false, nothing, nothing, FOUND },
		{ "plugged later", true, unplug, plug, FOUND },
		{ "plugged later, old kernel", false, unplug, plug, FOUND },
		{ "in another slot", true, in_another_slot_than_published, plug, FOUND },
		{ "another one at its address", true, another_one_is_at_its_address, plug, FOUND },
		{ "its tag comes late", false, hide_the_tag, show_the_tag, FOUND },
		{ "pci-stub has it", true, parked_at_boot, nothing,
		  "unbind " SHARE "; driver_override virtio-pci; bind " SHARE
		  "; driver_override " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);

		share_tree_init(&s, rows[i].shown);
		s.kernel.on_bind = share_on_bind;
		rows[i].before(&s);
		ck_assert_msg(wait_with(&s, rows[i].later, 10000) == 0, "%s: %s", rows[i].what,
		              s.err.msg);
		ck_assert_str_eq(s.dev.pci, SHARE);
		ck_assert(s.dev.binding.done);
		share_assert_writes(&s, rows[i].writes);
	}
}
END_TEST

START_TEST(a_device_whose_tag_was_taken_is_bound_once_the_tag_is_free)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	s.kernel.on_bind = share_on_bind;
	tag_was_taken(&s);
	ck_assert_msg(wait_with(&s, tag_comes_free, 10000) == 0, "%s", s.err.msg);
	ck_assert_str_eq(s.dev.name, "virtio7");
	ck_assert(s.dev.tag_proven);
}
END_TEST

START_TEST(a_device_that_its_driver_refused_at_boot_is_made_anew)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, true);
	s.kernel.on_bind = share_on_bind;
	tag_was_taken(&s);
	ck_assert_int_eq(share_bind(&s, SHARE, 3, "share"), EEXIST);
	tag_comes_free(&s);
	ck_assert_msg(share_wait_ms(&s, 10000) == 0, "%s", s.err.msg);
	ck_assert_str_eq(s.dev.name, "virtio7");
	share_assert_writes(&s, "unbind " SHARE "; " FOUND);
}
END_TEST

START_TEST(a_device_that_no_driver_was_asked_to_take_is_bound_as_it_is)
{
	struct share_tree s AUTO(share_tree_clear);
	const struct kernel_share share = { SHARE, 3, "share", true };

	share_tree_init(&s, true);
	share_bind_to(&s, SHARE, "virtio-pci");
	kernel_add_virtio(&s.tree, &share);
	ck_assert_msg(share_wait_ms(&s, 10000) == 0, "%s", s.err.msg);
	ck_assert_str_eq(s.dev.name, "virtio3");
	share_assert_writes(&s, "bind virtio3");
}
END_TEST

/*
 * True: a wait of that many milliseconds fails with this text. False: the time was too short for
 * that, and the caller retries in a new tree.
 */
static bool fails_with(struct share_tree *s, int ms, const char *says)
{
	ck_assert_int_eq(share_wait_ms(s, ms), -1);
	ck_assert_int_eq(s->err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(s->err.msg, says) || ms < LONGEST_MS, "%s", s->err.msg);
	return strstr(s->err.msg, says) != NULL;
}

START_TEST(a_device_whose_tag_stays_taken_is_named)
{
	bool said = false;

	for (int ms = 700; !said; ms *= 4) {
		struct share_tree s AUTO(share_tree_clear);

		share_tree_init(&s, false);
		s.kernel.on_bind = share_on_bind;
		tag_was_taken(&s);
		said = fails_with(&s, ms, "driver virtiofs refused virtio7 (another device");
		/* A device without a driver cannot be mounted, so the function was released. */
		ck_assert_msg(!strstr(s.err.msg, "stays bound to"), "%s", s.err.msg);
	}
}
END_TEST

static void failed_on_bind(struct kernel *k, const char *pci)
{
	share_on_bind(k, pci);
	tree_write(k->tree, DEVICES SHARE "/virtio7/status", "0x0000008f\n");
}

static void no_module_on_bind(struct kernel *k, const char *pci)
{
	const struct kernel_share share = { pci, 7, "share", true };

	kernel_add_virtio(k->tree, &share);
	tree_remove(k->tree, "/sys/bus/virtio/drivers/virtiofs");
}

START_TEST(a_device_that_is_not_made_or_fails_is_told)
{
	static const struct {
		void (*on_bind)(struct kernel *k, const char *pci);
		const char *says;
	} rows[] = {
		{ NULL, "PCI function " SHARE " has no virtio device yet" },
		{ no_module_on_bind,
		  "virtio7 of PCI function " SHARE
		  " has no driver; virtiofs is expected (the driver is not loaded: "
		  "modprobe virtiofs loads it)" },
		{ failed_on_bind,
		  "virtio7 of PCI function " SHARE " has status 0x8f (it has failed)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool said = false;

		for (int ms = 300; !said; ms *= 4) {
			struct share_tree s AUTO(share_tree_clear);

			share_tree_init(&s, true);
			s.kernel.on_bind = rows[i].on_bind;
			said = fails_with(&s, ms, rows[i].says);
			if (said)
				share_assert_writes(&s, AND_BACK);
		}
	}
}
END_TEST

START_TEST(a_function_that_boot_has_bound_is_taken_as_it_is)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	share_attr(&s, SHARE, "driver_override", "virtio-pci\n");
	ck_assert_int_eq(share_bind(&s, SHARE, 3, "share"), 0);
	ck_assert_msg(share_wait_ms(&s, 10000) == 0, "%s", s.err.msg);
	ck_assert(!s.dev.binding.done);
	share_assert_writes(&s, "driver_override ");
	ck_assert_int_eq(device_abandon(&s.world, &s.dev, &s.err), 0);
	share_assert_writes(&s, "driver_override ");
}
END_TEST

static void virtio_device_lost_its_driver(struct share_tree *s)
{
	const struct kernel_share share = { SHARE, 3, "share", true };

	share_bind_to(s, SHARE, "virtio-pci");
	kernel_add_virtio(&s->tree, &share);
}

START_TEST(a_device_that_went_after_it_was_seen_is_not_made_again)
{
	static const struct {
		const char *what;
		void (*before)(struct share_tree *s);
		const char *says;
	} rows[] = {
		{ "no driver", nothing, "PCI function " SHARE " has no driver" },
		{ "parked", parked_at_boot, "pci-stub" },
		{ "no driver of virtio", virtio_device_lost_its_driver,
		  "virtio3 of PCI function " SHARE " has no driver" },
		{ "unplugged", unplug, "no PCI function" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);

		share_tree_init(&s, false);
		s.kernel.on_bind = share_on_bind;
		s.want.seen = true;
		rows[i].before(&s);
		ck_assert_int_eq(share_wait_ms(&s, 10000), -1);
		ck_assert_int_eq(s.err.code, ERR_UNAVAILABLE);
		ck_assert_msg(strstr(s.err.msg, "existed when this call began but was removed") &&
		                      strstr(s.err.msg, rows[i].says),
		              "%s: %s", rows[i].what, s.err.msg);
		share_assert_writes(&s, "");
	}
}
END_TEST

START_TEST(a_probe_that_fails_is_told_and_undone)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	s.kernel.faults[0] = (struct kernel_fault) { "bind", ENODEV, 9, false };
	ck_assert_int_eq(share_wait_ms(&s, 3000), -1);
	ck_assert_int_eq(s.err.code, ERR_DEADLINE);
	ck_assert_msg(strstr(s.err.msg, "bind of PCI function " SHARE " for driver virtio-pci"),
	              "%s", s.err.msg);
	ck_assert(strstr(s.err.msg, "see dmesg") != NULL);
}
END_TEST

struct second_wait {
	pthread_t thread;
	struct share_tree *s;
	struct device dev;
	struct err err;
	int rc;
};

static void *run_second(void *arg)
{
	struct second_wait *second = arg;

	second->rc = device_wait(&second->s->world, &second->s->want, wait_limit(), &second->dev,
	                         &second->err);
	return NULL;
}

START_TEST(two_calls_for_one_function_bind_it_once)
{
	struct share_tree s AUTO(share_tree_clear);
	struct second_wait second = { .s = &s };

	share_tree_init(&s, false);
	s.kernel.on_bind = share_on_bind;
	s.kernel.bind_ms = 200;
	ck_assert_int_eq(pthread_create(&second.thread, NULL, run_second, &second), 0);
	ck_assert_msg(share_wait_ms(&s, 10000) == 0, "%s", s.err.msg);
	pthread_join(second.thread, NULL);
	ck_assert_msg(second.rc == 0, "%s", second.err.msg);
	share_assert_writes(&s, FOUND);
	/* The other wait uses it. */
	ck_assert(s.dev.binding.done != second.dev.binding.done);
}
END_TEST

/* ---- release ---- */

#define OURS_LINE "40 21 0:31 / /stage rw - virtiofs share rw\n"
#define OURS_FUSE "40 21 0:31 / /stage rw - fuse.virtiofs share rw\n"
#define OTHERS_TAG "40 21 0:31 / /stage rw - virtiofs sh\\141re2 rw\n"
#define ESCAPED "40 21 0:31 / /stage rw - virtiofs sh\\141re rw\n"

START_TEST(a_function_stays_bound_unless_it_is_certain_that_its_tag_is_mounted_nowhere)
{
	static const struct {
		const char *what, *self, *host, *refcnt;
		bool locked;
		const char *says; /* NULL: it is released */
	} rows[] = {
		{ "all are seen", ROOT_LINE, ROOT_LINE OWN_LINE, "1\n", false, NULL },
		{ "one of them in both namespaces", ROOT_LINE OWN_LINE, ROOT_LINE OWN_LINE, "1\n",
		  false, NULL },
		{ "another tag beside", ROOT_LINE OTHERS_TAG, OWN_LINE, "2\n", false, NULL },
		{ "nobody has any", ROOT_LINE, ROOT_LINE, "0\n", true, NULL },
		{ "it is mounted here", OURS_LINE, OWN_LINE, "2\n", false,
		  "its tag \"share\" is mounted at /stage" },
		{ "on the host", ROOT_LINE, OWN_LINE OURS_LINE, "2\n", false, "is mounted at" },
		{ "by a client outside the kernel", OURS_FUSE, OWN_LINE, "1\n", false,
		  "is mounted at /stage" },
		{ "with an escaped name", ESCAPED, OWN_LINE, "2\n", false, "is mounted at /stage" },
		{ "one is not to be seen", ROOT_LINE, OWN_LINE, "2\n", false,
		  "refcnt is 2, but 1 filesystems are visible" },
		{ "built into the kernel", ROOT_LINE, OWN_LINE, NULL, false,
		  "/module/virtiofs/refcnt is not a number" },
		{ "its tag is unknown, one is mounted", ROOT_LINE, OWN_LINE, "1\n", true,
		  "it is unknown, and a tag is mounted at /srv/own" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);
		int rc;

		share_tree_init(&s, false);
		s.kernel.on_bind = share_on_bind;
		ck_assert_msg(share_wait_ms(&s, 10000) == 0, "%s", s.err.msg);
		share_mounts(&s, "self", rows[i].self);
		share_mounts(&s, "1", rows[i].host);
		if (rows[i].refcnt)
			tree_write(&s.tree, "/sys/module/virtiofs/refcnt", rows[i].refcnt);
		else
			tree_remove(&s.tree, "/sys/module/virtiofs/refcnt");
		virtio_function_lock_down(rows[i].locked);
		rc = device_abandon(&s.world, &s.dev, &s.err);
		virtio_function_lock_down(false);
		if (rows[i].says) {
			share_assert_refused(&s, rc, rows[i].what, rows[i].says);
			ck_assert_ptr_nonnull(
				strstr(s.err.msg, "stays bound to driver virtio-pci"));
			share_assert_writes(&s, FOUND "; driver_override ");
			continue;
		}
		ck_assert_msg(rc == 0, "%s: %s", rows[i].what, s.err.msg);
		share_assert_writes(&s, FOUND "; unbind " SHARE "; driver_override ");
	}
}
END_TEST

static void not_live_on_bind(struct kernel *k, const char *pci)
{
	share_on_bind(k, pci);
	tree_write(k->tree, DEVICES SHARE "/virtio7/status", "0x00000003\n");
}

START_TEST(a_wait_that_fails_gives_the_function_back)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	s.kernel.on_bind = not_live_on_bind;
	ck_assert_int_eq(share_wait_ms(&s, 3000), -1);
	ck_assert_msg(strstr(s.err.msg, "(it is being set up)"), "%s", s.err.msg);
	share_assert_writes(&s, AND_BACK);
}
END_TEST

/* ---- the host as a whole ---- */

START_TEST(only_the_override_of_a_plugged_function_is_cleared)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	share_attr(&s, SHARE, "driver_override", "virtio-pci\n");
	share_attr(&s, STATIC_NVME, "driver_override", "virtio-pci\n");
	ck_assert_int_eq(device_recover(&s.world, STATIC_NVME, &s.err), DEVICE_NOT_SET);
	ck_assert_msg(device_recover(&s.world, SHARE, &s.err) == 0, "%s", s.err.msg);
	share_assert_writes(&s, "driver_override ");
}
END_TEST

static void *recover_share(void *arg)
{
	const struct share_tree *s = arg;
	struct err err = ERR_INIT;

	IGNORE_RESULT(device_recover(&s->world, SHARE, &err));
	return NULL;
}

/* mount(2) of any tag waits for the lock that a removal holds. */
START_TEST(while_a_plugged_function_hangs_no_share_is_mounted)
{
	struct share_tree s AUTO(share_tree_clear);
	char *path AUTO(free) = xasprintf("/sys/bus/pci/devices/%s/driver_override", SHARE);
	pthread_t thread;

	share_tree_init(&s, false);
	ck_assert_int_eq(device_shares_answer(&s.world, &s.err), 0);
	s.world.hang_ms = 20;
	tree_fifo(&s.tree, path);
	ck_assert_int_eq(pthread_create(&thread, NULL, recover_share, &s), 0);
	while (!device_shares_answer(&s.world, &s.err))
		usleep(1000);
	ck_assert_int_eq(s.err.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(s.err.msg, SHARE));
	tree_answer(&s.tree, path, "(null)\n");
	pthread_join(thread, NULL);
	err_clear(&s.err);
	ck_assert_int_eq(device_shares_answer(&s.world, &s.err), 0);
}
END_TEST

/* Kernels whose driver_override needs no lock: the remaining virtio device shows the removal. */
START_TEST(while_a_function_is_being_removed_no_share_is_mounted)
{
	struct share_tree s AUTO(share_tree_clear);
	char *driver AUTO(free) = xasprintf("/sys/bus/pci/devices/%s/driver", SHARE);
	char *device AUTO(free) = xasprintf("/sys/bus/pci/devices/%s/virtio3", SHARE);

	share_tree_init(&s, true);
	ck_assert_int_eq(share_bind(&s, SHARE, 3, "share"), 0);
	ck_assert_int_eq(device_shares_answer(&s.world, &s.err), 0);
	tree_remove(&s.tree, driver);
	ck_assert_int_eq(device_shares_answer(&s.world, &s.err), -1);
	ck_assert_int_eq(s.err.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(s.err.msg, SHARE " is being removed"));
	err_clear(&s.err);
	tree_remove(&s.tree, device);
	ck_assert_int_eq(device_shares_answer(&s.world, &s.err), 0);
}
END_TEST

START_TEST(slots_are_for_volumes_of_both_kinds)
{
	static const struct {
		const char *driver;
		unsigned n;
	} rows[] = { { NULL, 4 }, { "virtio-pci", 4 }, { "pci-stub", 4 }, { "vfio-pci", 3 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);
		unsigned n = 0;

		share_tree_init(&s, false);
		if (rows[i].driver)
			share_bind_to(&s, SHARE, rows[i].driver);
		ck_assert_msg(device_count_slots(&s.world, &n, &s.why, &s.err) == 0, "%s",
		              s.err.msg);
		ck_assert_msg(n == rows[i].n, "row %zu: %u, %s", i, n, s.why.ptr);
		ck_assert_int_eq(device_count_functions(&s.world, &n, &s.why, &s.err), 0);
		ck_assert_uint_eq(n, 0);
		ck_assert_msg(!strstr(s.why.ptr, "virtio"), "%s", s.why.ptr);
	}
}
END_TEST

START_TEST(no_vfs_are_made_or_missed_on_virtio_fs_functions)
{
	struct share_tree s AUTO(share_tree_clear);
	struct str did AUTO(str_clear) = STR_INIT(300);

	share_tree_init(&s, false);
	share_attr(&s, SHARE, "sriov_totalvfs", "4\n");
	share_attr(&s, SHARE, "sriov_numvfs", "0\n");
	tree_remove(&s.tree, DEVICES STATIC_NVME);
	ck_assert_msg(device_create_vfs(&s.world, &did, &s.err) == 0, "%s", s.err.msg);
	ck_assert_str_eq(did.ptr, "");
	share_add_function(&s, STATIC_NVME, "0x15b3\n", "0x6001\n", "0x010802\n");
}
END_TEST

START_TEST(a_disk_below_such_a_class_is_none_of_ours)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	share_add_function(&s, "0000:00:09.0", "0x1000\n", "0x0001\n", "0x018000\n");
	share_attr(&s, "0000:00:09.0", "sdx/dev", "8:16\n");
	share_attr(&s, "0000:00:09.0", "sdx/size", "2048\n");
	share_attr(&s, "0000:00:09.0", "sdx/ro", "0\n");
	tree_link(&s.tree, "/sys/class/block/sdx", "../../bus/pci/devices/0000:00:09.0/sdx");
	tree_link(&s.tree, "/sys/dev/block/8:16", "../../bus/pci/devices/0000:00:09.0/sdx");
	ck_assert_msg(device_by_number(&s.world, makedev(8, 16), &s.dev, &s.err) == 0, "%s",
	              s.err.msg);
	ck_assert_str_eq(s.dev.pci, "0000:00:09.0");
	ck_assert_ptr_null(s.dev.kind);
	ck_assert_int_eq(device_controllers_live(&s.world, &s.dev, &s.why, &s.err), 0);
}
END_TEST

SUITE("device_virtiofs_wait", a_function_that_comes_late_is_bound_and_found,
      a_device_whose_tag_was_taken_is_bound_once_the_tag_is_free,
      a_device_that_its_driver_refused_at_boot_is_made_anew,
      a_device_that_no_driver_was_asked_to_take_is_bound_as_it_is,
      a_device_whose_tag_stays_taken_is_named, a_device_that_is_not_made_or_fails_is_told,
      a_device_that_went_after_it_was_seen_is_not_made_again,
      a_function_that_boot_has_bound_is_taken_as_it_is, a_probe_that_fails_is_told_and_undone,
      two_calls_for_one_function_bind_it_once,
      a_function_stays_bound_unless_it_is_certain_that_its_tag_is_mounted_nowhere,
      a_wait_that_fails_gives_the_function_back, only_the_override_of_a_plugged_function_is_cleared,
      while_a_plugged_function_hangs_no_share_is_mounted,
      while_a_function_is_being_removed_no_share_is_mounted, slots_are_for_volumes_of_both_kinds,
      no_vfs_are_made_or_missed_on_virtio_fs_functions, a_disk_below_such_a_class_is_none_of_ours);
