/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop devices over a raw-block volume. Kubelet puts one on each published block file, as its own
 * mark that the volume is in use, and has been seen to leave it behind; an administrator may have
 * mounted something through one. The kernel tells by number which device a loop device is over, so
 * one over a deleted file is found as well.
 */
#pragma once

#include "common/str.h"
#include "node/device/device.h"
#include "node/device/partitions.h"
#include "node/mount/mount.h"

/*
 * Adds "loop3 (over /path)" for each loop device over the disk or a partition of it: to `used` if
 * the loop device is claimed, else to `idle`. -1: a loop device could not be checked, so the lists
 * may be incomplete.
 */
int loops_over(const struct device_world *w, const struct mount_table *t, dev_t disk,
               const struct partitions *partitions, struct strs *used, struct strs *idle,
               struct err *err) MUST_CHECK;
