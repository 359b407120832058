/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the attributes of one block device from <sysfs>/class/block. All are of the same disk, even
 * if names are reused during the read. No state, any thread.
 */
#pragma once

#include "node/device/device.h"
#include "node/device/sysfs.h"

/* There is no such device, it is hidden, or it is changing right now. */
enum { BLOCK_ABSENT = SYSFS_ABSENT };

/* Fills in all of *ret except kind and pci. Returns BLOCK_ABSENT if there is no such device. */
int block_read(const struct device_world *w, const char *name, struct device *ret, struct err *err)
	MUST_CHECK;
/*
 * Reads the number in the `dev` attribute of a block or character device's directory. Returns 0,
 * SYSFS_ABSENT or -1.
 */
int block_read_devno(const char *dir, dev_t *ret, struct err *err) MUST_CHECK;
/*
 * Returns the UUID of a namespace; dir is the directory of its block device or hidden path. Returns
 * "" if the namespace lacks a UUID; the kernel's uuid attribute then shows the NGUID.
 */
int block_uuid(const char *dir, char ret[40], struct err *err) MUST_CHECK;
/* Returns true if the UUIDs are equal, ignoring case and dashes. */
bool uuid_equal(const char *a, const char *b);
/* Returns false for NULL, "" and a UUID of zeros. */
bool uuid_known(const char *uuid);
