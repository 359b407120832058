/* SPDX-License-Identifier: Apache-2.0 */
/* The DPU's hot-plug slots, and those of them that are for volumes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "node/device/pci_slots.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

static char *vendor_list[] = { (char *)"15b3", (char *)"1b36", NULL };
static const struct strs vendors = { vendor_list, 2 };
static struct tree tree;
static struct device_world world;

static int opens_left = -1; /* number of opens until one fails; negative: none fails */

/* Replaces the C library's function for the driver. */
int open(const char *path, int flags, ...)
{
	if (opens_left >= 0 && opens_left-- == 0) {
		errno = ENFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

static void begin(const char *recorded)
{
	tree_unpack(&tree, recorded);
	world = (struct device_world) {
		.sysfs = tree.sysfs, .dev = tree.dev, .vendors = &vendors, .snap_device_id = "6001"
	};
}

static unsigned count(void)
{
	struct str where AUTO(str_clear) = STR_INIT(500);
	struct err err = ERR_INIT;
	unsigned n = 77;

	ck_assert_msg(!device_count_slots(&world, &n, &where, &err), "%s", err.msg);
	ck_assert_msg(strstr(where.ptr, tree.sysfs) != NULL, "%s", where.ptr);
	return n;
}

START_TEST(slots_below_the_switch_are_the_dpus_and_the_hosts_are_not)
{
	static char one[] = "0000:22:00", two[] = "0000:23:00";
	struct strs slots AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	begin(NULL);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
	ck_assert_int_eq(pci_slots(&world, &slots, &err), 0);
	ck_assert_uint_eq(slots.n, 2);
	ck_assert_str_eq(slots.v[0], one);
	ck_assert_str_eq(slots.v[1], two);
	ck_assert(pci_in_slot(&slots, "0000:22:00.0") && pci_in_slot(&slots, "0000:23:00.7"));
	ck_assert(!pci_in_slot(&slots, "0000:20:00.0") && !pci_in_slot(&slots, "0000:22:01.0"));
	ck_assert(!pci_in_slot(&slots, "none") && !pci_in_slot(&slots, ""));
	tree_clear(&tree);
}
END_TEST

typedef int (*reads_fn)(const struct device_world *w, struct strs *ret, struct err *err);

/* A slot missing in the list would cause a permanent refusal of a volume. */
static void all_or_an_error(reads_fn reads, size_t all)
{
	int failed = 0;

	for (int at = 0; failed == at; at++) {
		struct strs found AUTO(strs_clear) = STRS_INIT;
		struct err err = ERR_INIT;
		int rc;

		opens_left = at;
		rc = reads(&world, &found, &err);
		failed += opens_left < 0;
		opens_left = -1;
		if (failed > at)
			ck_assert_msg(rc == -1 && err.code == ERR_UNAVAILABLE,
			              "open %d fails: %d, %zu found, %s", at, rc, found.n, err.msg);
		else
			ck_assert_msg(rc == 0 && found.n == all, "%zu found", found.n);
	}
	ck_assert_int_gt(failed, 2);
}

START_TEST(what_cannot_be_read_is_not_taken_for_no_slot)
{
	begin(NULL);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
	all_or_an_error(pci_slots, 2);
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:00.0/secondary_bus_number", "0\n");
	all_or_an_error(device_ports_without_bus, 1);
	tree_clear(&tree);
}
END_TEST

START_TEST(a_slot_counts_when_a_volume_can_be_plugged_there)
{
	static const struct {
		const char *what, *vendor, *class_code, *vfs;
		unsigned n;
	} rows[] = {
		{ "a plugged volume", "0x15b3\n", "0x010802\n", NULL, 4 },
		{ "a plugged volume that names SR-IOV", "0x15b3\n", "0x010802\n", "0\n", 4 },
		{ "a static function, whose VFs count", "0x15b3\n", "0x010802\n", "125\n", 3 },
		{ "an emulated network card", "0x15b3\n", "0x020000\n", NULL, 3 },
		{ "somebody else's disk", "0x144d\n", "0x010802\n", NULL, 3 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin(NULL);
		dpu_switch_add(tree.sysfs, "0x15b3\n", 4);
		ck_assert_uint_eq(count(), 4);
		dpu_switch_plug(tree.sysfs, 1, rows[i].vendor, rows[i].class_code, rows[i].vfs);
		ck_assert_msg(count() == rows[i].n, "%s: %u", rows[i].what, count());
		tree_clear(&tree);
	}
}
END_TEST

START_TEST(a_slot_that_somebody_else_uses_does_not_count)
{
	static const struct {
		const char *what, *device, *driver;
		unsigned n;
	} rows[] = {
		{ "no driver", "0x6001\n", NULL, 2 },
		{ "the driver of volumes", "0x6001\n", "nvme", 2 },
		{ "parked", "0x6001\n", "pci-stub", 2 },
		{ "a virtual machine has it", "0x6001\n", "vfio-pci", 1 },
		{ "a function of the DPU that is not for volumes", "0x6002\n", "nvme", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin(NULL);
		dpu_switch_add(tree.sysfs, "0x15b3\n", 2);
		dpu_switch_plug(tree.sysfs, 0, "0x15b3\n", "0x010802\n", NULL);
		tree_write(&tree, "/sys/bus/pci/devices/0000:22:00.0/device", rows[i].device);
		if (rows[i].driver)
			tree_link(&tree, "/sys/bus/pci/devices/0000:22:00.0/driver",
			          rows[i].driver);
		ck_assert_msg(count() == rows[i].n, "%s: %u", rows[i].what, count());
		tree_clear(&tree);
	}
}
END_TEST

START_TEST(ports_without_a_bus_are_named)
{
	struct str where AUTO(str_clear) = STR_INIT(500);
	struct strs ports AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;
	unsigned n;

	begin(NULL);
	dpu_switch_add(tree.sysfs, "0x15b3\n", 3);
	ck_assert_int_eq(device_ports_without_bus(&world, &ports, &err), 0);
	ck_assert_uint_eq(ports.n, 0);
	/* A port with a different vendor, and one that is not a switch's, are not the DPU's. */
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:01.0/secondary_bus_number", "0\n");
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:02.0/secondary_bus_number", "0\n");
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:02.0/vendor", "0x8086\n");
	tree_write(&tree, "/sys/bus/pci/devices/0000:40:00.0/vendor", "0x15b3\n");
	tree_write(&tree, "/sys/bus/pci/devices/0000:40:00.0/secondary_bus_number", "0\n");
	ck_assert_int_eq(device_ports_without_bus(&world, &ports, &err), 0);
	ck_assert_uint_eq(ports.n, 1);
	ck_assert_str_eq(ports.v[0], "0000:21:01.0");
	ck_assert_int_eq(device_count_slots(&world, &n, &where, &err), 0);
	ck_assert_msg(strstr(where.ptr, ", no bus number for its ports 0000:21:01.0 "
	                                "(add pci=assign-busses to the kernel's arguments)"),
	              "%s", where.ptr);
	tree_clear(&tree);
}
END_TEST

static void no_switch(void)
{
}
static void switch_of_the_host(void)
{
	dpu_switch_add(tree.sysfs, "0x8086\n", 4);
}
static void switch_without_its_upper_port(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 4);
	tree_write(&tree, "/sys/bus/pci/devices/0000:20:00.0/vendor", "0x8086\n");
}
static void other_domain(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 1);
	tree_write(&tree, "/sys/bus/pci/slots/2-1/address", "0001:22:00\n");
}
static void strange_slots(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 1);
	tree_write(&tree, "/sys/bus/pci/slots/2-1/address", "0000:22\n");
	tree_write(&tree, "/sys/bus/pci/slots/3/address", "\n");
	tree_mkdir(&tree, "/sys/bus/pci/slots/4");
}
static void bus_zero_beside_a_port_without_a_bus(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 1);
	tree_write(&tree, "/sys/bus/pci/devices/0000:21:00.0/secondary_bus_number", "0\n");
	tree_write(&tree, "/sys/bus/pci/slots/2-1/address", "0000:00:07\n");
}
static void gone_again(void)
{
	dpu_switch_add(tree.sysfs, "0x15b3\n", 3);
	dpu_switch_remove(tree.sysfs, 3);
}

START_TEST(other_slots_do_not_count)
{
	static const struct {
		const char *what;
		void (*world)(void);
	} rows[] = {
		{ "no slots at all", no_switch },
		{ "a switch of the host", switch_of_the_host },
		{ "a port of the DPU that is no switch's", switch_without_its_upper_port },
		{ "another domain", other_domain },
		{ "slots that are not for hot-plugging, or unreadable", strange_slots },
		{ "a slot of the host on bus 0", bus_zero_beside_a_port_without_a_bus },
		{ "the DPU has gone", gone_again },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		begin(NULL);
		rows[i].world();
		ck_assert_msg(count() == 0, "%s: %u", rows[i].what, count());
		tree_clear(&tree);
	}
}
END_TEST

/* Their root ports have slots and the vendor of their functions, but there is no switch. */
START_TEST(recorded_hosts_have_no_slots_for_volumes)
{
	static const char *const recorded[] = { "s1-pf-only", "s5-two-pfs-multipath", "s7-20-vfs",
		                                "s9-bf3-vpd-15b3" };

	for (size_t i = 0; i < ARRAY_LEN(recorded); i++) {
		begin(recorded[i]);
		ck_assert_msg(count() == 0, "%s: %u", recorded[i], count());
		tree_clear(&tree);
	}
}
END_TEST

SUITE("pci_slots", slots_below_the_switch_are_the_dpus_and_the_hosts_are_not,
      what_cannot_be_read_is_not_taken_for_no_slot,
      a_slot_counts_when_a_volume_can_be_plugged_there,
      a_slot_that_somebody_else_uses_does_not_count, ports_without_a_bus_are_named,
      other_slots_do_not_count, recorded_hosts_have_no_slots_for_volumes);
