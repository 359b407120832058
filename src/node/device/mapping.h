/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of encrypted volumes: device-mapper devices of dm-crypt that this driver has
 * created, by their names in sysfs. Other device-mapper devices are not mappings. Any thread.
 *
 * Source: Documentation/ABI/testing/sysfs-block-dm, drivers/md/dm-ioctl.c, linux/dm-ioctl.h.
 */
#pragma once

#include "node/device/device.h"

/*
 * If the block device is a mapping, sets `name` to its name of device-mapper, and *ret to the name
 * of the disk below it, malloc'ed, or to NULL if that disk was removed. Returns DEVICE_ABSENT if it
 * is not a mapping.
 */
int mapping_disk(const struct device_world *w, const char *block, char name[LUKS_MAPPING_SIZE],
                 char **ret, struct err *err) MUST_CHECK;
/*
 * Finds the mapping with this name of device-mapper ("snap-csi-..."). Sets *ret to the name of its
 * block device ("dm-0"), malloc'ed. Returns 0, DEVICE_ABSENT or -1.
 */
int mapping_block(const struct device_world *w, const char *mapping, char **ret, struct err *err)
	MUST_CHECK;
/* Adds the name of device-mapper of each mapping on this host. */
int mapping_list(const struct device_world *w, struct strs *ret, struct err *err) MUST_CHECK;
/*
 * Removes the mapping. Returns 0 if it is removed, or no longer exists. -1 with err->sys EBUSY: a process, a
 * mount or another device has it open.
 */
int mapping_remove(const struct device_world *w, const struct device *mapping, struct err *err)
	MUST_CHECK;
