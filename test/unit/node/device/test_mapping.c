/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of encrypted volumes, over a recorded tree to which a device-mapper device is added. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "common/mem.h"
#include "test/lib/suite.h"

static int fake_ioctl(int fd, unsigned long request, void *arg);
#define ioctl fake_ioctl
#include "node/device/mapping.c" /* its control device is simulated */
#undef ioctl

#include "test/lib/tree.h"

struct tree_of_disks {
	struct tree tree;
	struct device_world world;
	struct device dev;
	struct err err;
};

static void tree_of_disks_clear_p(struct tree_of_disks *f)
{
	tree_clear(&f->tree);
}

static void tree_of_disks_init(struct tree_of_disks *f)
{
	static char *list[] = { (char *)"15b3", (char *)"1b36", NULL };
	static const struct strs vendors = { list, 2 };

	*f = (struct tree_of_disks) { .err = ERR_INIT };
	tree_unpack(&f->tree, "s3-multipath-attached");
	f->world = (struct device_world) { .sysfs = f->tree.sysfs,
		                           .dev = f->tree.dev,
		                           .vendors = &vendors,
		                           .snap_device_id = "0010" };
}

#define DM0 "/sys/devices/virtual/block/dm-0/"

static void put_mapping(struct tree_of_disks *f, const char *name, const char *uuid,
                        const char *disk)
{
	tree_write(&f->tree, DM0 "dev", "253:0\n");
	tree_write(&f->tree, DM0 "size", "8\n");
	tree_write(&f->tree, DM0 "dm/name", name);
	tree_write(&f->tree, DM0 "dm/uuid", uuid);
	if (disk)
		tree_write(&f->tree, disk, "");
	tree_link(&f->tree, "/sys/class/block/dm-0", "../../devices/virtual/block/dm-0");
	tree_link(&f->tree, "/sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
}

START_TEST(a_mapping_of_this_driver_has_the_identity_of_its_disk)
{
	static const struct {
		const char *what, *name, *uuid, *disk;
		uint32_t nsid;
	} rows[] = {
		{ "ours", "snap-csi-u\n", "CRYPT-LUKS2-x\n", DM0 "slaves/nvme0n3", 3 },
		{ "another name", "luks-u\n", "CRYPT-LUKS2-x\n", DM0 "slaves/nvme0n3", 0 },
		{ "LVM", "snap-csi-u\n", "LVM-x\n", DM0 "slaves/nvme0n3", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree_of_disks f AUTO(tree_of_disks_clear);

		tree_of_disks_init(&f);
		put_mapping(&f, rows[i].name, rows[i].uuid, rows[i].disk);
		ck_assert_int_eq(device_by_number(&f.world, makedev(253, 0), &f.dev, &f.err), 0);
		ROW_STR_EQ(rows[i].what, f.dev.name, "dm-0");
		ck_assert_uint_eq(f.dev.size, 4096);
		ck_assert_uint_eq(f.dev.nsid, rows[i].nsid);
		ROW_STR_EQ(rows[i].what, f.dev.pci, rows[i].nsid ? "0000:01:00.1" : "");
		ROW_STR_EQ(rows[i].what, f.dev.mapping, rows[i].nsid ? "snap-csi-u" : "");
		ck_assert_msg(f.dev.lower == (rows[i].nsid ? makedev(259, 5) : 0), "%s",
		              rows[i].what);
		ck_assert_uint_eq(device_capacity(&f.dev), rows[i].nsid ? f.dev.lower_size : 4096);
	}
}
END_TEST

START_TEST(a_mapping_whose_disk_was_removed_is_found_by_its_name_only)
{
	static const char *const disks[] = { NULL, DM0 "slaves/nvme0n77" };

	for (size_t i = 0; i < ARRAY_LEN(disks); i++) {
		struct tree_of_disks f AUTO(tree_of_disks_clear);

		tree_of_disks_init(&f);
		put_mapping(&f, "snap-csi-u\n", "CRYPT-LUKS2-x\n", disks[i]);
		ck_assert_int_eq(device_by_number(&f.world, makedev(253, 0), &f.dev, &f.err),
		                 DEVICE_ABSENT);
		ck_assert_int_eq(device_by_mapping(&f.world, "snap-csi-u", &f.dev, &f.err), 0);
		ck_assert_str_eq(f.dev.mapping, "snap-csi-u");
		ck_assert_msg(f.dev.lower == 0, "%zu", i);
		ck_assert_int_eq(device_by_mapping(&f.world, "snap-csi-v", &f.dev, &f.err),
		                 DEVICE_ABSENT);
	}
}
END_TEST

START_TEST(mappings_are_listed_and_others_are_not)
{
	struct tree_of_disks f AUTO(tree_of_disks_clear);
	struct strs names AUTO(strs_clear) = STRS_INIT;

	tree_of_disks_init(&f);
	ck_assert_int_eq(mapping_list(&f.world, &names, &f.err), 0);
	ck_assert_uint_eq(names.n, 0);
	put_mapping(&f, "snap-csi-u\n", "CRYPT-LUKS2-x\n", DM0 "slaves/nvme0n3");
	ck_assert_int_eq(mapping_list(&f.world, &names, &f.err), 0);
	ck_assert_uint_eq(names.n, 1);
	ck_assert_str_eq(names.v[0], "snap-csi-u");
}
END_TEST

START_TEST(without_device_mapper_a_mapping_is_not_removed)
{
	struct tree_of_disks f AUTO(tree_of_disks_clear);
	const struct device mapping = { .mapping = "snap-csi-u", .path = "/dev/dm-0" };

	tree_of_disks_init(&f);
	ck_assert_int_eq(mapping_remove(&f.world, &mapping, &f.err), -1);
	ck_assert_msg(strstr(f.err.msg, "/mapper/control"), "%s", f.err.msg);
}
END_TEST

static int remove_errno; /* of DM_DEV_REMOVE; 0: success */

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	const struct dm_ioctl *dm = arg;

	(void)fd;
	ck_assert_uint_eq(request, DM_DEV_REMOVE);
	ck_assert_str_eq(dm->name, "snap-csi-u");
	errno = remove_errno;
	return errno ? -1 : 0;
}

START_TEST(a_mapping_that_no_longer_exists_is_removed_and_one_in_use_is_not)
{
	static const int rows[][2] = { { 0, 0 }, { ENXIO, 0 }, { EBUSY, -1 }, { EPERM, -1 } };
	const struct device mapping = { .mapping = "snap-csi-u", .path = "/dev/dm-0" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tree_of_disks f AUTO(tree_of_disks_clear);

		tree_of_disks_init(&f);
		tree_write(&f.tree, "/dev/mapper/control", "");
		remove_errno = rows[i][0];
		ck_assert_msg(mapping_remove(&f.world, &mapping, &f.err) == rows[i][1], "%d: %s",
		              rows[i][0], f.err.msg);
		ck_assert_int_eq(f.err.sys, rows[i][1] ? rows[i][0] : 0);
	}
}
END_TEST

SUITE("mapping", a_mapping_of_this_driver_has_the_identity_of_its_disk,
      a_mapping_whose_disk_was_removed_is_found_by_its_name_only,
      mappings_are_listed_and_others_are_not, without_device_mapper_a_mapping_is_not_removed,
      a_mapping_that_no_longer_exists_is_removed_and_one_in_use_is_not);
