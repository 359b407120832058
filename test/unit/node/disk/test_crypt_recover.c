/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the driver's start, which mappings of an earlier driver are closed, and the read-ahead of an
 * opened mapping. device-mapper is simulated: sysfs has a mapping, and its removal is noted.
 */
#include "test/lib/suite.h"

#define mapping_remove fake_mapping_remove
#include "node/disk/crypt.c" /* the removal of its mappings is simulated */
#undef mapping_remove

#include "test/lib/node_world.h"
#include "test/lib/skip.h"

#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"

static struct node_world w;
static struct nvme_disk *disk;
static unsigned removed;

int fake_mapping_remove(const struct device_world *world, const struct device *mapping,
                        struct err *err)
{
	(void)world, (void)err;
	ck_assert_str_eq(mapping->mapping, "snap-csi-u");
	removed++;
	return 0;
}

/* A mapping on the disk. */
static void begin(void)
{
	node_world_init(&w);
	disk = nvme_world_add(&w.nvme, 1, UUID, 64 * MIB);
	run_tool("d=%s/devices/virtual/block/dm-0; mkdir -p $d/dm $d/slaves/%s; cd $d && "
	         "echo 253:77 >dev; echo 8 >size; echo snap-csi-u >dm/name; "
	         "echo CRYPT-LUKS2-x >dm/uuid; ln -s $d %s/class/block/dm-0; "
	         "ln -s $d %s/dev/block/253:77",
	         w.nvme.sysfs, disk->name, w.nvme.sysfs, w.nvme.sysfs);
}

START_TEST(a_mapping_is_closed_at_the_start_unless_a_call_works_on_its_disk)
{
	struct str did AUTO(str_clear) = STR_INIT(200);
	struct err err = ERR_INIT;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	begin();
	fd = open(disk->node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_int_eq(crypt_recover(&w.node, &did, &err), 0);
	ck_assert_uint_eq(removed, 0);
	ck_assert_str_eq(did.ptr, "");
	ck_assert_int_eq(flock(fd, LOCK_UN), 0);
	ck_assert_int_eq(crypt_recover(&w.node, &did, &err), 0);
	ck_assert_uint_eq(removed, 1);
	ck_assert_str_eq(did.ptr, "encrypted mapping snap-csi-u");
	node_world_clear(&w);
}
END_TEST

START_TEST(the_read_ahead_of_a_mapping_is_in_kilobytes)
{
	struct volume_params params = { .settings = { [SETTING_READ_AHEAD_KB] = "512" } };
	const struct crypt_request r = { .params = &params };
	struct device mapping;
	struct err err = ERR_INIT;
	long sectors = 0;
	int fd AUTO(fd) = -1;

	SKIP_UNLESS_LOOP();
	begin();
	/* The disk takes the place of the mapping. */
	ck_assert_int_eq(device_by_number(&w.node.o.world, disk->devno, &mapping, &err), 0);
	set_read_ahead(&r, &mapping);
	fd = open(disk->node, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(ioctl(fd, BLKRAGET, &sectors), 0);
	ck_assert_int_eq(sectors, 1024);
	node_world_clear(&w);
}
END_TEST

SUITE("crypt_recover", a_mapping_is_closed_at_the_start_unless_a_call_works_on_its_disk,
      the_read_ahead_of_a_mapping_is_in_kilobytes);
