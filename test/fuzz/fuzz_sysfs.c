/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as one attribute of a recorded sysfs tree: the first byte chooses the attribute, the rest
 * is its content. Then the device of a volume is searched. It may be found only if it has the
 * wanted namespace id and size, and the wanted UUID or none.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "node/device/device.h"
#include "test/lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define VF "/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.1"
#define PATH_NS VF "/nvme/nvme1/nvme0c1n1"
#define UUID "11111111-aaaa-4bbb-8ccc-000000000001"
#define HEAD "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"

static struct tree tree;
static struct strs attributes;

static void remember(const char *dir)
{
	static const char *const names[] = { "vendor", "class", "driver_override",
		                             "vpd",    "nsid",  "uuid",
		                             "wwid",   "size",  "dev",
		                             "ro",     "state", "hidden" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		strs_addf(&attributes, "%s/%s", dir, names[i]);
}

static void tidy(void)
{
	strs_clear(&attributes);
	tree_clear(&tree);
}

static void set_up(void)
{
	tree_unpack(&tree, "s3-multipath-attached");
	remember(VF);
	remember(PATH_NS);
	remember(HEAD);
	remember(VF "/nvme/nvme1");
	remember("/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.0");
	atexit(tidy);
}

static bool look(const char *uuid)
{
	struct strs vendors AUTO(strs_clear) = STRS_INIT;
	struct device_world world = {
		.sysfs = tree.sysfs, .dev = tree.dev, .vendors = &vendors, .snap_device_id = "0010"
	};
	struct device_want want = { .volume_id = "pvc-1",
		                    .pci = "01:00.1",
		                    .vuid = "",
		                    .nsid = 1,
		                    .uuid = uuid,
		                    .capacity = 1 << 20 };
	struct err err = ERR_INIT;
	struct device dev;

	strs_add(&vendors, "1b36");
	if (device_find(&world, &want, &dev, NULL, &err))
		return false;
	if (dev.nsid != want.nsid || dev.size < want.capacity ||
	    (*uuid && *dev.uuid && strcasecmp(dev.uuid, uuid) != 0))
		abort();
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *before AUTO(free) = NULL;
	const char *attribute;

	if (n < 1)
		return 0;
	if (!attributes.n) {
		set_up();
		if (!look(UUID))
			abort(); /* not the tree that this target was written for */
	}
	attribute = attributes.v[data[0] % attributes.n];
	before = tree_read(&tree, attribute);
	tree_write_bytes(&tree, attribute, data + 1, n - 1);
	(void)look("");
	(void)look(UUID);
	if (before)
		tree_write(&tree, attribute, before);
	else
		tree_remove(&tree, attribute);
	return 0;
}
