/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-fs functions in slots of the DPU's switch, on a host with virtio devices of its own: the
 * accepted functions, and their tags.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_kind.h"
#include "test/lib/share_tree.h"
#include "test/lib/suite.h"

/* ---- find ---- */

static void alone(struct share_tree *s)
{
	kernel_remove_virtio(&s->tree, 0);
}

START_TEST(a_share_is_found_by_its_function_and_its_tag_is_proven)
{
	static const struct {
		bool shown, locked, alone, proven;
	} rows[] = {
		{ true, false, false, true },  { true, true, true, true },
		{ false, false, false, true }, { false, false, true, true },
		{ false, true, false, false }, { false, true, true, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);

		share_tree_init(&s, rows[i].shown);
		virtio_function_lock_down(rows[i].locked);
		if (rows[i].alone)
			alone(&s);
		ck_assert_int_eq(share_bind(&s, SHARE, 3, "share"), 0);
		ck_assert_msg(share_find(&s) == 0, "row %zu: %s%s", i, s.err.msg, s.why.ptr);
		ck_assert_str_eq(s.dev.name, "virtio3");
		ck_assert_str_eq(s.dev.pci, SHARE);
		ck_assert_str_eq(s.dev.tag, "share");
		ck_assert_str_eq(s.dev.path, "");
		ck_assert_uint_eq(s.dev.devno, 0);
		ck_assert_ptr_eq(s.dev.kind, &device_kind_virtiofs);
		ck_assert_msg(s.dev.tag_proven == rows[i].proven, "row %zu", i);
		ck_assert_msg(s.dev.alone == rows[i].alone, "row %zu", i);
		ck_assert_int_eq(device_controllers_live(&s.world, &s.dev, &s.why, &s.err), 0);
		share_assert_writes(&s, "");
	}
}
END_TEST

/* Edits of a share that is bound as virtio3. */
static void unbound(struct share_tree *s)
{
	tree_remove(&s->tree, DEVICES SHARE "/driver");
	kernel_remove_virtio(&s->tree, 3);
}
static void not_made_yet(struct share_tree *s)
{
	kernel_remove_virtio(&s->tree, 3);
}
static void not_taken_yet(struct share_tree *s)
{
	tree_remove(&s->tree, DEVICES SHARE "/virtio3/driver");
}
static void no_module(struct share_tree *s)
{
	not_taken_yet(s);
	tree_remove(&s->tree, "/sys/bus/virtio/drivers/virtiofs");
}
static void not_set_up_yet(struct share_tree *s)
{
	share_attr(s, SHARE, "virtio3/status", "0x00000003\n");
}
static void failed(struct share_tree *s)
{
	share_attr(s, SHARE, "virtio3/status", "0x0000008f\n");
}
static void unplugged_by_surprise(struct share_tree *s)
{
	share_attr(s, SHARE, "virtio3/status", "0x000000ff\n");
}
static void not_shown_yet(struct share_tree *s)
{
	tree_remove(&s->tree, "/sys/fs/virtiofs/3");
}
static void of_another_type(struct share_tree *s)
{
	share_attr(s, SHARE, "virtio3/device", "0x0002\n");
}
static void two_devices(struct share_tree *s)
{
	share_attr(s, SHARE, "virtio4/device", "0x001a\n");
}
static void of_another_driver(struct share_tree *s)
{
	tree_link(&s->tree, DEVICES SHARE "/virtio3/driver", "../../../../virtio/drivers/other");
}
static void of_a_vm(struct share_tree *s)
{
	unbound(s);
	share_bind_to(s, SHARE, "vfio-pci");
}
static void parked(struct share_tree *s)
{
	unbound(s);
	share_bind_to(s, SHARE, "pci-stub");
}
static void gone(struct share_tree *s)
{
	unbound(s);
	tree_remove(&s->tree, DEVICES SHARE);
}

START_TEST(a_share_that_is_not_complete_is_waited_for_and_one_of_others_is_refused)
{
	static const struct {
		void (*edit)(struct share_tree *s);
		int rc;
		const char *says;
	} rows[] = {
		{ unbound, DEVICE_ABSENT, "has no driver; virtio-pci is expected" },
		{ parked, DEVICE_ABSENT, "driver pci-stub; virtio-pci is expected" },
		{ gone, DEVICE_ABSENT, "no PCI function " SHARE },
		{ not_made_yet, DEVICE_ABSENT, "PCI function " SHARE " has no virtio device yet" },
		{ not_taken_yet, DEVICE_ABSENT, "virtio3 of PCI function " SHARE " has no driver" },
		{ no_module, DEVICE_ABSENT, "modprobe virtiofs" },
		{ not_set_up_yet, DEVICE_ABSENT, "has status 0x03 (it is being set up)" },
		{ failed, DEVICE_ABSENT, "has status 0x8f (it has failed)" },
		{ unplugged_by_surprise, DEVICE_ABSENT, "has status 0xff (it has failed)" },
		{ not_shown_yet, DEVICE_ABSENT, "does not show the tag of virtio3 yet" },
		{ of_another_type, -1, "is a virtio device of type 2, not 26 (virtio-fs)" },
		{ two_devices, -1, "several virtio devices (virtio3, virtio4)" },
		{ of_another_driver, -1,
		  "virtio3 of PCI function " SHARE " is held by driver other" },
		{ of_a_vm, -1, "held by driver vfio-pci and is not unbound" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);
		int rc;

		share_tree_init(&s, true);
		ck_assert_int_eq(share_bind(&s, SHARE, 3, "share"), 0);
		rows[i].edit(&s);
		rc = share_find(&s);
		ck_assert_msg(rc == rows[i].rc, "%s: %d %s%s", rows[i].says, rc, s.err.msg,
		              s.why.ptr);
		ck_assert_msg(strstr(rc < 0 ? s.err.msg : s.why.ptr, rows[i].says), "%s: %s%s",
		              rows[i].says, s.err.msg, s.why.ptr);
	}
}
END_TEST

START_TEST(what_a_vm_uses_is_not_even_looked_at)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	share_bind_to(&s, SHARE, "vfio-pci");
	share_assert_refused(&s, share_find(&s), "vfio-pci", "held by driver vfio-pci");
	ck_assert_uint_eq(virtio_function_looks(), 0);
}
END_TEST

/* ---- accepted functions ---- */

static void nothing(struct share_tree *s)
{
	(void)s;
}
static void of_the_dpus_vendor(struct share_tree *s)
{
	share_attr(s, SHARE, "vendor", "0x15b3\n");
}
static void of_another_vendor(struct share_tree *s)
{
	share_attr(s, SHARE, "vendor", "0x8086\n");
}
static void another_virtio_device_in_the_slot(struct share_tree *s)
{
	share_attr(s, SHARE, "device", "0x1042\n");
}
static void with_vfs(struct share_tree *s)
{
	share_attr(s, SHARE, "sriov_totalvfs", "4\n");
}
static void a_vf(struct share_tree *s)
{
	virtio_function_add(s->tree.sysfs, "0000:23:00.1", "0x1af4\n", "share");
	tree_link(&s->tree, DEVICES "0000:23:00.1/physfn", "../" SHARE);
}
static void any_function(struct share_tree *s)
{
	a_vf(s);
	s->want.function = DEVICE_FUNCTION_ANY;
}

START_TEST(only_virtio_fs_functions_in_the_slots_of_the_dpu_are_taken)
{
	static const struct {
		const char *what, *pci;
		void (*edit)(struct share_tree *s);
		const char *says; /* NULL: accepted, and waits for its driver */
	} rows[] = {
		{ "in a slot", SHARE, nothing, NULL },
		{ "without a domain", "23:00.0", nothing, NULL },
		{ "of the DPU's vendor", SHARE, of_the_dpus_vendor, NULL },
		{ "of another vendor", SHARE, of_another_vendor,
		  "is of vendor 8086 (accepted: 15b3, 1af4); left alone" },
		{ "the VM's own share", OWN_SHARE, nothing,
		  "is in none of the DPU's hot-plug slots" },
		{ "the VM's network card", OWN_NET, nothing, "class 0x020000, not 0x0180xx" },
		{ "NVMe in a slot", PLUGGED_NVME, nothing, "class 0x010802, not 0x0180xx" },
		{ "the static PF of the DPU", STATIC_NVME, nothing, "class 0x010802" },
		{ "a virtio disk in the slot", SHARE, another_virtio_device_in_the_slot,
		  "has device id 1042 (expected 105a); left alone" },
		{ "with VFs", SHARE, with_vfs, "with up to 4 VFs, and not hot-plugged" },
		{ "a VF", "0000:23:00.1", a_vf, "but the volume's functionType is pf" },
		{ "a VF, any function", "0000:23:00.1", any_function,
		  "is a VF of " SHARE ", but virtio-fs volumes do not use VFs" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);
		unsigned looks = virtio_function_looks();
		int rc;

		share_tree_init(&s, false);
		rows[i].edit(&s);
		s.want.pci = rows[i].pci;
		rc = share_find(&s);
		if (rows[i].says) {
			share_assert_refused(&s, rc, rows[i].what, rows[i].says);
			ck_assert_uint_eq(virtio_function_looks(), looks);
			continue;
		}
		ck_assert_msg(rc == DEVICE_ABSENT && strstr(s.why.ptr, SHARE " has no driver"),
		              "%s: %s%s", rows[i].what, s.err.msg, s.why.ptr);
	}
}
END_TEST

START_TEST(an_nvme_volume_is_never_on_a_virtio_fs_function)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	s.want.emulation = EMULATION_NVME;
	s.want.nsid = 1;
	share_assert_refused(&s, share_find(&s), "NVMe", "class 0x018000, not 0x0108xx");
}
END_TEST

/* ---- the owner of a tag ---- */

static void with_another_tag(struct share_tree *s)
{
	virtio_function_set_tag(s->tree.sysfs, SHARE, "theirs");
}
static void bound_with_another_tag(struct share_tree *s)
{
	with_another_tag(s);
	ck_assert_int_eq(share_bind(s, SHARE, 3, "theirs"), 0);
}
static void tag_of_the_vm(struct share_tree *s)
{
	s->want.tag = "own";
	virtio_function_set_tag(s->tree.sysfs, SHARE, "own");
}
static void tag_of_a_bound_neighbour(struct share_tree *s)
{
	virtio_function_add(s->tree.sysfs, SECOND, "0x1af4\n", "share");
	ck_assert_int_eq(share_bind(s, SECOND, 4, "share"), 0);
	ck_assert_int_eq(share_bind(s, SHARE, 3, "share"), EEXIST);
}

START_TEST(a_tag_of_another_share_is_refused_bound_or_not)
{
	static const struct {
		bool shown;
		void (*edit)(struct share_tree *s);
		const char *says;
	} rows[] = {
		{ true, with_another_tag, "has the tag \"theirs\" (expected \"share\"" },
		{ false, with_another_tag, "has the tag \"theirs\" (expected \"share\"" },
		{ true, bound_with_another_tag, "has the tag \"theirs\"" },
		{ false, bound_with_another_tag, "has the tag \"theirs\"" },
		{ true, tag_of_the_vm,
		  "the tag \"own\" is that of virtio0 of " OWN_SHARE
		  ", not of PCI function " SHARE },
		{ true, tag_of_a_bound_neighbour,
		  "the tag \"share\" is that of virtio4 of " SECOND },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct share_tree s AUTO(share_tree_clear);

		share_tree_init(&s, rows[i].shown);
		rows[i].edit(&s);
		share_assert_refused(&s, share_find(&s), rows[i].says, rows[i].says);
		ck_assert_int_eq(s.err.kind, ERR_KIND_WRONG_DEVICE);
		/* A wait ends at once, and binds nothing. */
		share_assert_refused(&s, share_wait_ms(&s, 20000), rows[i].says, rows[i].says);
		ck_assert_int_eq(s.err.kind, ERR_KIND_WRONG_DEVICE);
		share_assert_writes(&s, "");
	}
}
END_TEST

START_TEST(a_want_without_tag_or_address_is_refused)
{
	struct share_tree s AUTO(share_tree_clear);

	share_tree_init(&s, false);
	s.want.tag = NULL;
	ck_assert_int_eq(share_find(&s), -1);
	ck_assert_int_eq(s.err.code, ERR_INVALID);
	s.want.tag = "share";
	s.want.pci = "0000:00:00.0";
	ck_assert_int_eq(share_find(&s), -1);
	ck_assert_int_eq(s.err.code, ERR_INVALID);
}
END_TEST

SUITE("device_virtiofs", a_share_is_found_by_its_function_and_its_tag_is_proven,
      a_share_that_is_not_complete_is_waited_for_and_one_of_others_is_refused,
      what_a_vm_uses_is_not_even_looked_at,
      only_virtio_fs_functions_in_the_slots_of_the_dpu_are_taken,
      an_nvme_volume_is_never_on_a_virtio_fs_function,
      a_tag_of_another_share_is_refused_bound_or_not, a_want_without_tag_or_address_is_refused);
