/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loop devices that are backed by a raw-block volume. Kubelet creates one on each
 * published block file to mark the volume as used, and sometimes leaves it behind; an administrator
 * may also have mounted one. The kernel identifies the backing device of a loop device by its
 * device number, so a loop device over a deleted file is found as well.
 */
#pragma once

#include "common/str.h"
#include "node/device/device.h"
#include "node/device/partitions.h"
#include "node/mount/mount.h"

/*
 * Adds "loop3 (over /path)" for each loop device that is backed by the disk or a partition of it:
 * to `used` if the loop device is claimed, otherwise to `idle`. -1: a loop device could not be
 * checked, so the lists may be incomplete.
 */
int loops_over(const struct device_world *w, const struct mount_table *t, dev_t disk,
               const struct partitions *partitions, struct strs *used, struct strs *idle,
               struct err *err) MUST_CHECK;
