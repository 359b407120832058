/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PFs that get VFs, and the writes to sysfs for that; a list records the writes in place of a
 * kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/mem.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"
#include "test/lib/dpu_switch.h"
#include "test/lib/suite.h"

static char *vendor_list[] = { (char *)"15b3", NULL };
static const struct strs vendors = { vendor_list, 1 };

static char root[40];
static struct strs writes;
static const char *failing; /* the attribute whose write fails */

static int record(void *arg, const char *path, const char *text)
{
	const char *name = strstr(path, "/bus/pci/");

	(void)arg;
	strs_addf(&writes, "%s=%.*s", name + strlen("/bus/pci/"), (int)strcspn(text, "\n"), text);
	return failing && strstr(path, failing) ? EIO : 0;
}

static const struct sysfs_writer writer = { .write = record };

static void add_file(const char *dir, const char *name, const char *text)
{
	char *path AUTO(free) = xasprintf("%s/%s", dir, name);
	struct err err = ERR_INIT;

	ck_assert_msg(!file_replace(path, text, strlen(text), 0644, &err), "%s", err.msg);
}

struct pf {
	const char *name; /* NULL: 0000:01:00.0 */
	const char *vendor, *device, *class_code, *total, *now, *driver;
	bool is_vf;
};

static void add_function(const struct pf *pf)
{
	char *dir AUTO(free) =
		xasprintf("%s/bus/pci/devices/%s", root, pf->name ? pf->name : "0000:01:00.0");
	char *driver AUTO(free) = xasprintf("%s/driver", dir);
	char *physfn AUTO(free) = xasprintf("%s/physfn", dir);
	struct err err = ERR_INIT;

	ck_assert(!dir_make(dir, 0755, &err));
	add_file(dir, "vendor", pf->vendor);
	add_file(dir, "device", pf->device);
	add_file(dir, "class", pf->class_code);
	add_file(dir, "driver_override", "(null)\n");
	if (pf->total) {
		add_file(dir, "sriov_totalvfs", pf->total);
		add_file(dir, "sriov_numvfs", pf->now);
	}
	if (pf->driver)
		ck_assert(!symlink(pf->driver, driver));
	if (pf->is_vf)
		ck_assert(!symlink("../0000:01:00.0", physfn));
}

static void make_root(void)
{
	snprintf(root, sizeof(root), "/tmp/test_device_vfs.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void)
{
	char *command AUTO(free) = xasprintf("rm -rf '%s'/bus", root);

	ck_assert_int_eq(system(command), 0);
}

#define SNAP .vendor = "0x15b3\n", .device = "0x6001\n", .class_code = "0x010802\n"
#define NVME .driver = "../../drivers/nvme"
#define SRIOV "devices/0000:01:00.0/sriov_"

static const struct vfs_row {
	const char *what;
	struct pf pf;
	const char *fail;         /* the attribute whose write fails */
	const char *writes, *did; /* NULL: nothing */
	const char *says;         /* of the error, NULL: none */
} rows[] = {
	{ .what = "a PF without VFs",
	  .pf = { SNAP, NVME, .total = "125\n", .now = "0\n" },
	  .writes = SRIOV "drivers_autoprobe=0 " SRIOV "numvfs=125",
	  .did = "125 VFs on 0000:01:00.0" },
	{ .what = "one that has some", .pf = { SNAP, NVME, .total = "125\n", .now = "4\n" } },
	{ .what = "SR-IOV is off",
	  .pf = { SNAP, NVME, .total = "0\n", .now = "0\n" },
	  .says = "0000:01:00.0/sriov_totalvfs is 0): enable it" },
	{ .what = "no SR-IOV at all",
	  .pf = { SNAP, NVME },
	  .says = "0000:01:00.0/sriov_totalvfs is missing): enable it" },
	{ .what = "a VF",
	  .pf = { SNAP, NVME, .name = "0000:01:00.1", .is_vf = true, .total = "4\n",
	          .now = "0\n" } },
	{ .what = "another device of the vendor",
	  .pf = { .vendor = "0x15b3\n",
	          .device = "0xa2dc\n",
	          .class_code = "0x020000\n",
	          .total = "8\n",
	          .now = "0\n" } },
	{ .what = "another vendor's NVMe",
	  .pf = { .vendor = "0x144d\n",
	          .device = "0x6001\n",
	          .class_code = "0x010802\n",
	          NVME,
	          .total = "8\n",
	          .now = "0\n" } },
	{ .what = "a PF without a driver is bound first",
	  .pf = { SNAP, .total = "2\n", .now = "0\n" },
	  .writes = "devices/0000:01:00.0/driver_override=nvme drivers/nvme/bind=0000:01:00.0 "
	            "devices/0000:01:00.0/driver_override= " SRIOV "drivers_autoprobe=0 " SRIOV
	            "numvfs=2",
	  .did = "2 VFs on 0000:01:00.0" },
	{ .what = "an old kernel without autoprobe",
	  .pf = { SNAP, NVME, .total = "2\n", .now = "0\n" },
	  .fail = "autoprobe",
	  .writes = SRIOV "drivers_autoprobe=0 " SRIOV "numvfs=2",
	  .did = "2 VFs on 0000:01:00.0" },
	{ .what = "the kernel refuses",
	  .pf = { SNAP, NVME, .total = "2\n", .now = "0\n" },
	  .fail = "numvfs",
	  .writes = SRIOV "drivers_autoprobe=0 " SRIOV "numvfs=2",
	  .says = "create the VFs of 0000:01:00.0: write 2 to " },
};

START_TEST(vfs_are_made_where_a_snap_pf_has_none)
{
	const struct device_world world = { .sysfs = root,
		                            .dev = "/dev",
		                            .vendors = &vendors,
		                            .snap_device_id = "6001",
		                            .writer = &writer };

	make_root();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct vfs_row *row = &rows[i];
		struct str did AUTO(str_clear) = STR_INIT(1000);
		char *got AUTO(free) = NULL;
		struct err err = ERR_INIT;
		int rc;

		add_function(&row->pf);
		failing = row->fail;
		rc = device_create_vfs(&world, &did, &err);
		got = strs_join(&writes, " ");
		ck_assert_msg(rc == (row->says ? -1 : 0), "%s: %d %s", row->what, rc, err.msg);
		ROW_STR_EQ(row->what, got, row->writes ? row->writes : "");
		ROW_STR_EQ(row->what, did.ptr, row->did ? row->did : "");
		if (rc)
			ck_assert_msg(strstr(err.msg, row->says), "%s: %s", row->what, err.msg);
		strs_clear(&writes);
		remove_root();
	}
	rmdir(root);
}
END_TEST

START_TEST(a_hot_plugged_function_needs_no_sr_iov)
{
	const struct device_world world = { .sysfs = root,
		                            .dev = "/dev",
		                            .vendors = &vendors,
		                            .snap_device_id = "6001",
		                            .writer = &writer };
	struct str did AUTO(str_clear) = STR_INIT(1000);
	struct err err = ERR_INIT;

	make_root();
	dpu_switch_add(root, "0x15b3\n", 2);
	dpu_switch_plug(root, 0, "0x15b3\n", "0x010802\n", NULL);
	dpu_switch_plug(root, 1, "0x15b3\n", "0x010802\n", "0\n");
	ck_assert_msg(!device_create_vfs(&world, &did, &err), "%s", err.msg);
	ck_assert_str_eq(did.ptr, "");
	/* Outside of its slot it counts as the DPU's static function. */
	dpu_switch_remove(root, 2);
	add_function(&(struct pf) { SNAP, NVME });
	ck_assert_int_eq(device_create_vfs(&world, &did, &err), -1);
	ck_assert_msg(strstr(err.msg, "0000:01:00.0") && !strstr(err.msg, "0000:23"), "%s",
	              err.msg);
	remove_root();
	rmdir(root);
}
END_TEST

SUITE("device_vfs", a_hot_plugged_function_needs_no_sr_iov, vfs_are_made_where_a_snap_pf_has_none);
