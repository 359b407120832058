/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which PFs get VFs, and what is written to sysfs for that; the writes go to a list instead of a
 * kernel.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "node/device/device.h"
#include "node/device/sysfs.h"
#include "test/lib/suite.h"

static char root[] = "/tmp/test_device_vfs.XXXXXX";
static struct strs writes;
static const char *failing; /* the attribute whose write fails */

static int record(void *arg, const char *path, const char *text)
{
	(void)arg;
	const char *name = strstr(path, "/bus/pci/");
	strs_addf(&writes, "%s=%.*s", name + strlen("/bus/pci/"), (int)strcspn(text, "\n"), text);
	return failing && strstr(path, failing) ? EIO : 0;
}

static const struct sysfs_writer writer = { .write = record };

static void add_file(const char *dir, const char *name, const char *text)
{
	struct err err = ERR_INIT;
	char *path = xasprintf("%s/%s", dir, name);
	ck_assert_msg(!file_replace(path, text, strlen(text), 0644, &err), "%s", err.msg);
	free(path);
}

struct pf {
	const char *name, *vendor, *device, *class_code, *total, *now, *driver;
	bool is_vf;
};

static void add_function(const struct pf *pf)
{
	struct err err = ERR_INIT;
	char *dir = xasprintf("%s/bus/pci/devices/%s", root, pf->name);
	char *driver = xasprintf("%s/driver", dir);
	char *physfn = xasprintf("%s/physfn", dir);
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
	free(physfn);
	free(driver);
	free(dir);
}

static void remove_root(void)
{
	char *command = xasprintf("rm -rf '%s'/bus", root);
	ck_assert_int_eq(system(command), 0);
	free(command);
}

#define SNAP "0x15b3\n", "0x6001\n", "0x010802\n"
#define NVME "../../drivers/nvme"

static const struct row {
	const char *what;
	struct pf pf;
	const char *fail;
	const char *writes, *did;
	const char *says; /* of the error, NULL: none */
} rows[] = {
	{ "a PF without VFs",
	  { "0000:01:00.0", SNAP, "125\n", "0\n", NVME, false },
	  NULL,
	  "devices/0000:01:00.0/sriov_drivers_autoprobe=0 devices/0000:01:00.0/sriov_numvfs=125",
	  "125 VFs on 0000:01:00.0",
	  NULL },
	{ "one that has some",
	  { "0000:01:00.0", SNAP, "125\n", "4\n", NVME, false },
	  NULL,
	  "",
	  "",
	  NULL },
	{ "SR-IOV is off",
	  { "0000:01:00.0", SNAP, "0\n", "0\n", NVME, false },
	  NULL,
	  "",
	  "",
	  "0000:01:00.0/sriov_totalvfs is 0): turn it on" },
	{ "no SR-IOV at all",
	  { "0000:01:00.0", SNAP, NULL, NULL, NVME, false },
	  NULL,
	  "",
	  "",
	  "0000:01:00.0/sriov_totalvfs is missing): turn it on" },
	{ "a VF", { "0000:01:00.1", SNAP, "4\n", "0\n", NVME, true }, NULL, "", "", NULL },
	{ "another device of the vendor",
	  { "0000:01:00.0", "0x15b3\n", "0xa2dc\n", "0x020000\n", "8\n", "0\n", NULL, false },
	  NULL,
	  "",
	  "",
	  NULL },
	{ "another vendor's NVMe",
	  { "0000:01:00.0", "0x144d\n", "0x6001\n", "0x010802\n", "8\n", "0\n", NVME, false },
	  NULL,
	  "",
	  "",
	  NULL },
	{ "a PF without a driver is bound first",
	  { "0000:01:00.0", SNAP, "2\n", "0\n", NULL, false },
	  NULL,
	  "devices/0000:01:00.0/driver_override=nvme drivers/nvme/bind=0000:01:00.0 "
	  "devices/0000:01:00.0/driver_override= "
	  "devices/0000:01:00.0/sriov_drivers_autoprobe=0 devices/0000:01:00.0/sriov_numvfs=2",
	  "2 VFs on 0000:01:00.0",
	  NULL },
	{ "an old kernel without autoprobe",
	  { "0000:01:00.0", SNAP, "2\n", "0\n", NVME, false },
	  "autoprobe",
	  "devices/0000:01:00.0/sriov_drivers_autoprobe=0 devices/0000:01:00.0/sriov_numvfs=2",
	  "2 VFs on 0000:01:00.0",
	  NULL },
	{ "the kernel refuses",
	  { "0000:01:00.0", SNAP, "2\n", "0\n", NVME, false },
	  "numvfs",
	  "devices/0000:01:00.0/sriov_drivers_autoprobe=0 devices/0000:01:00.0/sriov_numvfs=2",
	  "",
	  "create the VFs of 0000:01:00.0: write 2 to " },
};

START_TEST(vfs_are_made_where_a_snap_pf_has_none)
{
	static struct strs vendors;
	strs_add(&vendors, "15b3");
	const struct device_world world = { .sysfs = root,
		                            .dev = "/dev",
		                            .vendors = &vendors,
		                            .snap_device_id = "6001",
		                            .writer = &writer };
	ck_assert_ptr_nonnull(mkdtemp(root));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		struct err err = ERR_INIT;
		struct str did = STR_INIT(1000);
		add_function(&row->pf);
		failing = row->fail;
		int rc = device_create_vfs(&world, &did, &err);
		char *got = strs_join(&writes, " ");
		ck_assert_msg(rc == (row->says ? -1 : 0), "%s: %d %s", row->what, rc, err.msg);
		ROW_STR_EQ(row->what, got, row->writes);
		ROW_STR_EQ(row->what, did.ptr, row->did);
		if (rc)
			ck_assert_msg(strstr(err.msg, row->says), "%s: %s", row->what, err.msg);
		free(got);
		strs_clear(&writes);
		str_clear(&did);
		remove_root();
	}
	strs_clear(&vendors);
	rmdir(root);
}
END_TEST

SUITE("device_vfs", vfs_are_made_where_a_snap_pf_has_none);
