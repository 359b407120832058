/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of one block device in <sysfs>/class/block, all of the same disk even while
 * names are being reused. No state, any thread.
 */
#pragma once

#include "node/device/device.h"
#include "node/device/sysfs.h"

/* There is no such device, or it is hidden, or it is changing just now. */
enum { BLOCK_ABSENT = SYSFS_ABSENT };

/* Fills all of ret but kind and pci; or BLOCK_ABSENT. */
int block_read(const struct device_world *w, const char *name, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * The UUID of a namespace; dir is that of its block device or hidden path. "" when it has none: the
 * kernel's uuid attribute shows the NGUID then.
 */
int block_uuid(const char *dir, char ret[40], struct err *err) MUST_CHECK;
/* Are these the same UUID, whatever their case and dashes? */
bool uuid_equal(const char *a, const char *b);
/* Is there a UUID? NULL, "" and one of zeros are none. */
bool uuid_known(const char *uuid);
