/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DPU's hot-plugged PFs, on a host that also has a static PF of the DPU, its VF and local
 * disks; and the reasons for a missing function.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mem.h"
#include "node/device/device_function.h"
#include "node/device/device_kind.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/kernel.h"
#include "test/lib/suite.h"
#include "test/lib/tree.h"

#define DEVICES "/sys/bus/pci/devices/"
#define PLUGGED "0000:23:00.0"
#define STATIC "0000:26:00.0"
#define STATIC_VF "0000:26:00.1"
#define WITHOUT_VFS "0000:27:00.0"
#define LOCAL "0000:28:00.0"
#define VUID "MT2328XZ17DFNVMES1D0F0"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };

struct function_world {
	struct tree tree;
	struct kernel kernel; /* detects writes, which a search must not do */
	struct device_world world;
	struct device_want want;
	struct device dev;
	struct str why;
	struct err err;
};

static void function_world_clear_p(struct function_world *f)
{
	ck_assert_uint_eq(f->kernel.writes.n, 0);
	kernel_clear(&f->kernel);
	tree_clear(&f->tree);
	str_clear(&f->why);
}

static void attr(struct function_world *f, const char *pci, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf(DEVICES "%s/%s", pci, name);

	tree_write(&f->tree, path, text);
}

static void add_function(struct function_world *f, const char *pci, const char *vendor)
{
	attr(f, pci, "class", "0x010802\n");
	attr(f, pci, "vendor", vendor);
	attr(f, pci, "device", "0x6001\n");
	attr(f, pci, "driver_override", "(null)\n");
}

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

static void add_vuid(struct function_world *f, const char *pci, const char *vuid)
{
	unsigned char vpd[64] = { 0x90, 0, 0, 'V', 'U' };
	char *path AUTO(free) = xasprintf(DEVICES "%s/vpd", pci);
	size_t n = strlen(vuid);

	vpd[1] = (unsigned char)(n + 3);
	vpd[5] = (unsigned char)n;
	memcpy(vpd + 6, vuid, n);
	vpd[6 + n] = 0x78;
	tree_write_bytes(&f->tree, path, vpd, n + 7);
}

/* Slots 0000:22:00 to 0000:25:00; none of the functions has a driver. */
static void function_world_init(struct function_world *f)
{
	*f = (struct function_world) {
		.why = STR_INIT(700),
		.want = { .volume_id = "vol", .nsid = 1, .function = DEVICE_FUNCTION_PF },
	};
	tree_unpack(&f->tree, NULL);
	kernel_init(&f->kernel, &f->tree);
	f->world = (struct device_world) { .sysfs = f->tree.sysfs,
		                           .dev = f->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "6001",
		                           .writer = &f->kernel.writer };
	dpu_switch_add(f->tree.sysfs, "0x15b3\n", 4);
	dpu_switch_plug(f->tree.sysfs, 1, "0x15b3\n", "0x010802\n", NULL);
	add_function(f, STATIC, "0x15b3\n");
	attr(f, STATIC, "sriov_totalvfs", "125\n");
	add_function(f, STATIC_VF, "0x15b3\n");
	tree_link(&f->tree, DEVICES STATIC_VF "/physfn", "../" STATIC);
	add_function(f, WITHOUT_VFS, "0x15b3\n");
	attr(f, WITHOUT_VFS, "sriov_totalvfs", "0\n");
	add_function(f, LOCAL, "0x144d\n");
}

static int find(struct function_world *f, const char *pci)
{
	f->want.pci = pci;
	err_clear(&f->err);
	return device_find(&f->world, &f->want, &f->dev, &f->why, &f->err);
}

/* ---- accepted functions ---- */

static void nothing(struct function_world *f)
{
	(void)f;
}
static void no_slots(struct function_world *f)
{
	tree_remove(&f->tree, "/sys/bus/pci/slots");
}
static void no_slots_but_vuids(struct function_world *f)
{
	no_slots(f);
	f->want.vuid = VUID;
	add_vuid(f, PLUGGED, VUID);
	add_vuid(f, STATIC, VUID);
	add_vuid(f, LOCAL, VUID);
}
static void vuid_of_the_one_without_vfs(struct function_world *f)
{
	f->want.vuid = VUID;
	add_vuid(f, WITHOUT_VFS, VUID);
}
static void another_device_in_the_slot(struct function_world *f)
{
	attr(f, PLUGGED, "device", "0x6002\n");
}
static void vfs_in_the_slot(struct function_world *f)
{
	attr(f, PLUGGED, "sriov_totalvfs", "16\n");
}
static void a_local_disk_in_the_slot(struct function_world *f)
{
	attr(f, PLUGGED, "vendor", "0x144d\n");
}
static void a_network_card_in_the_slot(struct function_world *f)
{
	attr(f, PLUGGED, "class", "0x020000\n");
}
static void a_port_of_the_host(struct function_world *f)
{
	attr(f, "0000:21:01.0", "vendor", "0x8086\n");
}
static void a_port_without_bus(struct function_world *f)
{
	attr(f, "0000:21:02.0", "secondary_bus_number", "0\n");
	tree_remove(&f->tree, "/sys/bus/pci/slots/4-1"); /* the kernel creates none */
}
static void no_port_with_a_bus(struct function_world *f)
{
	a_port_without_bus(f);
	no_slots(f);
}
static void no_functiontype(struct function_world *f)
{
	f->want.function = DEVICE_FUNCTION_ANY;
}

START_TEST(only_what_the_dpu_has_plugged_into_its_slots_is_taken_for_a_pf)
{
	static const struct {
		const char *what;
		void (*edit)(struct function_world *f);
		const char *pci, *says; /* says NULL: accepted, and waits for its driver */
	} rows[] = {
		{ "in a slot", nothing, PLUGGED, NULL },
		{ "in a slot, without domain", nothing, "23:00.0", NULL },
		{ "in a slot, any function", no_functiontype, PLUGGED, NULL },
		{ "the static PF", nothing, STATIC,
		  "PCI function " STATIC " is a static PF of the DPU, with up to 125 VFs" },
		{ "the static PF, any function", no_functiontype, STATIC, "is a static PF" },
		{ "its VF", nothing, STATIC_VF, "is a VF of " STATIC },
		{ "a static PF without VFs", nothing, WITHOUT_VFS,
		  "is in none of the DPU's hot-plug slots (0000:22:00, 0000:23:00, 0000:24:00, "
		  "0000:25:00), so the DPU has not hot-plugged it" },
		{ "a static PF whose VUID was published", vuid_of_the_one_without_vfs, WITHOUT_VFS,
		  "is in none of the DPU's hot-plug slots" },
		{ "a local disk", nothing, LOCAL, "is of vendor 144d" },
		{ "a local disk in the slot", a_local_disk_in_the_slot, PLUGGED,
		  "is of vendor 144d" },
		{ "a network card in the slot", a_network_card_in_the_slot, PLUGGED,
		  "class 0x020000" },
		{ "another device of the DPU in the slot", another_device_in_the_slot, PLUGGED,
		  "has device id 6002, not the SNAP controller's 6001" },
		{ "a function with VFs in the slot", vfs_in_the_slot, PLUGGED,
		  "with up to 16 VFs" },
		{ "a slot of the host", a_port_of_the_host, PLUGGED, "is in none of the DPU's" },
		{ "no slots", no_slots, PLUGGED,
		  "could not be verified as hot-plugged, and is left alone: the attachment "
		  "has no VUID for it; the host shows no hot-plug slot of the DPU in " },
		{ "no slots for want of bus numbers", no_port_with_a_bus, PLUGGED,
		  "for it; the host has no bus number for the DPU's ports 0000:21:02.0 "
		  "(add pci=assign-busses to the kernel's arguments)" },
		{ "no slots, but its VUID", no_slots_but_vuids, PLUGGED, NULL },
		{ "no slots, but the VUID of a static PF", no_slots_but_vuids, STATIC,
		  "is a static PF" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);
		int rc;

		function_world_init(&f);
		rows[i].edit(&f);
		rc = find(&f, rows[i].pci);
		ck_assert_msg(rc == (rows[i].says ? -1 : DEVICE_ABSENT), "%s: %d %s%s",
		              rows[i].what, rc, f.err.msg, f.why.ptr);
		ck_assert_msg(strstr(rc < 0 ? f.err.msg : f.why.ptr,
		                     rc < 0 ? rows[i].says : PLUGGED " has no driver"),
		              "%s: %s%s", rows[i].what, f.err.msg, f.why.ptr);
		ck_assert_msg(rc > 0 || f.err.code == ERR_PRECONDITION, "%s", rows[i].what);
	}
}
END_TEST

/* ---- a static PF ---- */

/* The driver nvme holds the function, and has one namespace, id 1, as a disk. */
static void add_disk(struct function_world *f, const char *pci, const char *controller,
                     const char *uuid)
{
	char *dir AUTO(free) = xasprintf("nvme/%s/%sn1", controller, controller);
	char *block AUTO(free) = xasprintf("/sys/class/block/%sn1", controller);
	const struct {
		const char *name, *text;
	} attrs[] = {
		{ "nsid", "1\n" },
		{ "uuid", uuid },
		{ "dev", "259:3\n" },
		{ "size", "2048\n" },
	};
	char *state AUTO(free) = xasprintf("nvme/%s/state", controller);
	char *driver AUTO(free) = xasprintf(DEVICES "%s/driver", pci);

	tree_link(&f->tree, driver, "../../drivers/nvme");
	attr(f, pci, state, "live\n");
	for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
		char *below AUTO(free) = xasprintf("%s/%s", dir, attrs[i].name);
		char *in_block AUTO(free) = xasprintf("%s/%s", block, attrs[i].name);

		attr(f, pci, below, attrs[i].text);
		tree_write(&f->tree, in_block, attrs[i].text);
	}
}

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static void other_uuid(struct function_world *f)
{
	attr(f, WITHOUT_VFS, "nvme/nvme3/nvme3n1/uuid", "11111111-aaaa-4bbb-8ccc-000000000002\n");
	tree_write(&f->tree, "/sys/class/block/nvme3n1/uuid",
	           "11111111-aaaa-4bbb-8ccc-000000000002\n");
}
static void no_uuid(struct function_world *f)
{
	tree_remove(&f->tree, DEVICES WITHOUT_VFS "/nvme/nvme3/nvme3n1/uuid");
	tree_remove(&f->tree, "/sys/class/block/nvme3n1/uuid");
}
static void no_published_uuid(struct function_world *f)
{
	f->want.uuid = "";
}
static void no_published_uuid_but_vuid(struct function_world *f)
{
	f->want.uuid = "00000000-0000-0000-0000-000000000000";
	vuid_of_the_one_without_vfs(f);
}
static void other_nsid(struct function_world *f)
{
	f->want.nsid = 2;
}
static void vfs_of_its_own(struct function_world *f)
{
	attr(f, WITHOUT_VFS, "sriov_totalvfs", "16\n");
}
static void held_by_a_virtual_machine(struct function_world *f)
{
	tree_remove(&f->tree, DEVICES WITHOUT_VFS "/driver");
	tree_link(&f->tree, DEVICES WITHOUT_VFS "/driver", "../../drivers/vfio-pci");
}

START_TEST(a_static_pf_is_taken_by_address_nsid_and_uuid)
{
	static const struct {
		const char *what;
		void (*edit)(struct function_world *f);
		const char *pci, *says; /* says NULL: it is the device */
	} rows[] = {
		{ "all three", nothing, WITHOUT_VFS, NULL },
		{ "the DPU has no slots", no_slots, WITHOUT_VFS, NULL },
		{ "it can have VFs", vfs_of_its_own, WITHOUT_VFS, NULL },
		{ "another UUID", other_uuid, WITHOUT_VFS, "not this volume's disk" },
		{ "the kernel has no UUID", no_uuid, WITHOUT_VFS,
		  "has no UUID (expected " UUID ")" },
		{ "the attachment has no UUID", no_published_uuid, WITHOUT_VFS,
		  "the attachment has no namespaceUUID" },
		{ "a UUID of zeros, and the VUID", no_published_uuid_but_vuid, WITHOUT_VFS,
		  "the attachment has no namespaceUUID" },
		{ "another namespace", other_nsid, WITHOUT_VFS,
		  "but the attachment has this UUID for namespace 2" },
		{ "a VF", nothing, STATIC_VF, "is a VF of " STATIC },
		{ "a hot-plugged function", nothing, PLUGGED,
		  "is in a hot-plug slot of the DPU, but the attachment's hotplugFunction is "
		  "false" },
		{ "a local disk", nothing, LOCAL, "is of vendor 144d" },
		{ "a virtual machine has it", held_by_a_virtual_machine, WITHOUT_VFS, "vfio-pci" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);
		int rc;

		function_world_init(&f);
		add_disk(&f, WITHOUT_VFS, "nvme3", UUID "\n");
		f.want.function = DEVICE_FUNCTION_STATIC_PF;
		f.want.uuid = UUID;
		rows[i].edit(&f);
		rc = find(&f, rows[i].pci);
		ck_assert_msg(rc == (rows[i].says ? -1 : 0), "%s: %d %s%s", rows[i].what, rc,
		              f.err.msg, f.why.ptr);
		ck_assert_msg(!rows[i].says || strstr(f.err.msg, rows[i].says), "%s: %s",
		              rows[i].what, f.err.msg);
		ck_assert_msg(!rc || f.err.code == ERR_PRECONDITION, "%s", rows[i].what);
	}
}
END_TEST

START_TEST(a_published_uuid_does_not_make_a_static_pf_a_plugged_one)
{
	const char *const uuid = "11111111-aaaa-4bbb-8ccc-000000000001";
	struct function_world f AUTO(function_world_clear);
	struct device dev = { .kind = &device_kind_nvme, .nsid = 1 };

	function_world_init(&f);
	f.want.uuid = uuid;
	snprintf(dev.uuid, sizeof(dev.uuid), "%s", uuid);
	attr(&f, STATIC, "nvme/nvme0/state", "live\n");
	attr(&f, PLUGGED, "nvme/nvme1/state", "live\n");
	f.want.pci = STATIC;
	snprintf(dev.pci, sizeof(dev.pci), STATIC);
	ck_assert(!device_is_surely(&f.world, &dev, &f.want));
	f.want.pci = PLUGGED;
	snprintf(dev.pci, sizeof(dev.pci), PLUGGED);
	ck_assert(device_is_surely(&f.world, &dev, &f.want));
}
END_TEST

/* ---- its VUID ---- */

#define EMPTY_SLOT "0000:24:00.0"

static void plug_another(struct function_world *f)
{
	dpu_switch_plug(f->tree.sysfs, 2, "0x15b3\n", "0x010802\n", NULL);
}
static void at_another_address(struct function_world *f)
{
	add_vuid(f, PLUGGED, VUID);
}
static void beside_another_one(struct function_world *f)
{
	plug_another(f);
	add_vuid(f, EMPTY_SLOT, "MT2328XZ17DFNVMES1D9F0");
	add_vuid(f, PLUGGED, VUID);
}
static void two_with_it(struct function_world *f)
{
	add_vuid(f, PLUGGED, VUID);
	dpu_switch_plug(f->tree.sysfs, 3, "0x15b3\n", "0x010802\n", NULL);
	add_vuid(f, "0000:25:00.0", VUID);
}
static void a_static_pf_with_it(struct function_world *f)
{
	add_vuid(f, STATIC, VUID);
}
static void a_local_disk_with_it(struct function_world *f)
{
	add_vuid(f, LOCAL, VUID);
}
static void a_vf_of_the_one_with_it(struct function_world *f)
{
	add_vuid(f, WITHOUT_VFS, VUID);
	tree_link(&f->tree, DEVICES PLUGGED "/physfn", "../" WITHOUT_VFS);
}

START_TEST(a_plugged_function_is_found_by_its_vuid_in_another_slot_than_published)
{
	static const struct {
		const char *what;
		void (*edit)(struct function_world *f);
		enum device_function wanted;
		int rc;
		const char *says;
	} rows[] = {
		{ "in another slot", at_another_address, DEVICE_FUNCTION_PF, DEVICE_ABSENT,
		  "PCI function " PLUGGED " has no driver" },
		{ "in another slot, while another is in the published one", beside_another_one,
		  DEVICE_FUNCTION_PF, DEVICE_ABSENT, "PCI function " PLUGGED " has no driver" },
		{ "none has it", nothing, DEVICE_FUNCTION_PF, DEVICE_ABSENT,
		  "no PCI function " EMPTY_SLOT " of any domain with VUID " VUID },
		{ "another one is in the published slot", plug_another, DEVICE_FUNCTION_PF,
		  DEVICE_ABSENT, "the VUID of " EMPTY_SLOT " is unknown" },
		{ "two have it", two_with_it, DEVICE_FUNCTION_PF, -1,
		  "several PCI functions have the published VUID: " PLUGGED ", 0000:25:00.0" },
		{ "a static PF it", a_static_pf_with_it, DEVICE_FUNCTION_PF, -1, "is a static PF" },
		{ "a local disk has it", a_local_disk_with_it, DEVICE_FUNCTION_PF, DEVICE_ABSENT,
		  "no PCI function " EMPTY_SLOT },
		{ "a VF of a PF that has it", a_vf_of_the_one_with_it, DEVICE_FUNCTION_PF, -1,
		  "PCI function " WITHOUT_VFS " is in none of" },
		{ "a VF is wanted: it has its PF's", at_another_address, DEVICE_FUNCTION_VF,
		  DEVICE_ABSENT, "no PCI function " EMPTY_SLOT },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);
		int rc;

		function_world_init(&f);
		rows[i].edit(&f);
		f.want.vuid = VUID;
		f.want.function = rows[i].wanted;
		rc = find(&f, EMPTY_SLOT);
		ck_assert_msg(rc == rows[i].rc, "%s: %d %s%s", rows[i].what, rc, f.err.msg,
		              f.why.ptr);
		ck_assert_msg(strstr(rc < 0 ? f.err.msg : f.why.ptr, rows[i].says), "%s: %s%s",
		              rows[i].what, f.err.msg, f.why.ptr);
	}
}
END_TEST

/* ---- reasons for a missing function ---- */

START_TEST(what_keeps_a_plugged_function_away_is_said)
{
	static const struct {
		const char *what;
		void (*edit)(struct function_world *f);
		enum device_function wanted;
		const char *says, *says_not;
	} rows[] = {
		{ "a free slot", nothing, DEVICE_FUNCTION_PF, "no PCI function 0000:24:00.0",
		  "hot-plug" },
		{ "no slots", no_slots, DEVICE_FUNCTION_PF,
		  "the host shows no hot-plug slot of the DPU in", "pci=" },
		{ "no bus number", a_port_without_bus, DEVICE_FUNCTION_PF,
		  "the host has no bus number for the DPU's ports 0000:21:02.0 (add pci=assign-busses to "
		  "the kernel's arguments)",
		  "pciehp" },
		{ "a VF", no_slots, DEVICE_FUNCTION_VF, "no PCI function 0000:24:00.0",
		  "hot-plug" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);

		function_world_init(&f);
		rows[i].edit(&f);
		f.want.function = rows[i].wanted;
		ck_assert_msg(find(&f, "0000:24:00.0") == DEVICE_ABSENT, "%s: %s", rows[i].what,
		              f.err.msg);
		ck_assert_msg(strstr(f.why.ptr, rows[i].says) != NULL, "%s: %s", rows[i].what,
		              f.why.ptr);
		ck_assert_msg(!strstr(f.why.ptr, rows[i].says_not), "%s: %s", rows[i].what,
		              f.why.ptr);
		/* A wait reports it as well, at its deadline. */
		err_clear(&f.err);
		ck_assert_int_eq(device_wait(&f.world, &f.want, deadline_in_ms(30), &f.dev, &f.err),
		                 -1);
		ck_assert_msg(f.err.code == ERR_DEADLINE && strstr(f.err.msg, rows[i].says),
		              "%s: %s", rows[i].what, f.err.msg);
	}
}
END_TEST

#define NO_BAR "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
#define SOME_BAR "0x00000000fe800000 0x00000000fe803fff 0x0000000000140204\n"
#define UNSET_BAR "0x0000000000000000 0x0000000000003fff 0x0000000020140204\n"
#define SIX_LINES(bar0, bar1, bar4) bar0 bar1 NO_BAR NO_BAR bar4 NO_BAR

START_TEST(a_function_that_got_no_memory_says_so)
{
	static const struct {
		const char *what, *resource;
		bool says;
	} rows[] = {
		{ "memory", "0x00000000fe800000 0x00000000fe803fff 0x0000000000140204\n0x0\n",
		  false },
		{ "none", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n", true },
		{ "none, only a size", "0x0000000000000000 0x0000000000003fff 0x20140204\n", true },
		{ "none for any", SIX_LINES(NO_BAR, NO_BAR, NO_BAR), true },
		{ "no BAR 0, as virtio has none", SIX_LINES(NO_BAR, SOME_BAR, SOME_BAR), false },
		{ "not enough for one of them", SIX_LINES(NO_BAR, SOME_BAR, UNSET_BAR), true },
		{ "not enough for the VFs'", SIX_LINES(SOME_BAR, NO_BAR, NO_BAR) UNSET_BAR, false },
		{ "no such attribute", NULL, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);

		function_world_init(&f);
		if (rows[i].resource)
			attr(&f, PLUGGED, "resource", rows[i].resource);
		ck_assert_int_eq(find(&f, PLUGGED), DEVICE_ABSENT);
		ck_assert_msg(rows[i].says ==
		                      !!strstr(f.why.ptr, "assigned no memory to its BARs (add"),
		              "%s: %s", rows[i].what, f.why.ptr);
		if (!rows[i].says)
			continue;
		ck_assert_int_eq(device_wait(&f.world, &f.want, deadline_in_ms(30), &f.dev, &f.err),
		                 -1);
		ck_assert_msg(strstr(f.err.msg, "(add pci=realloc to the kernel's arguments)"),
		              "%s: %s", rows[i].what, f.err.msg);
	}
}
END_TEST

/* A temporary shortage neither refuses a volume permanently nor replaces a proof. */
START_TEST(where_the_slots_cannot_be_read_nothing_is_decided)
{
	static const struct {
		const char *pci;
		bool proven;
		int rc;
	} rows[] = {
		{ PLUGGED, false, 0 },
		{ PLUGGED, true, 0 },
		{ WITHOUT_VFS, true, -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct function_world f AUTO(function_world_clear);
		bool failed = true;

		function_world_init(&f);
		for (int at = 0; failed; at++) {
			int rc;

			err_clear(&f.err);
			opens_left = at;
			rc = device_function_check(&f.world, &device_kind_nvme, rows[i].pci,
			                           DEVICE_FUNCTION_PF, rows[i].proven, &f.why,
			                           &f.err);
			failed = opens_left < 0;
			opens_left = -1;
			ck_assert_msg(rc == (failed ? -1 : rows[i].rc), "%s, open %d: %d %s",
			              rows[i].pci, at, rc, f.err.msg);
			ck_assert_msg(!failed || f.err.code == ERR_UNAVAILABLE, "%s, open %d: %s",
			              rows[i].pci, at, f.err.msg);
		}
	}
}
END_TEST

SUITE("device_function", a_static_pf_is_taken_by_address_nsid_and_uuid,
      only_what_the_dpu_has_plugged_into_its_slots_is_taken_for_a_pf,
      a_published_uuid_does_not_make_a_static_pf_a_plugged_one,
      a_plugged_function_is_found_by_its_vuid_in_another_slot_than_published,
      what_keeps_a_plugged_function_away_is_said, a_function_that_got_no_memory_says_so,
      where_the_slots_cannot_be_read_nothing_is_decided);
