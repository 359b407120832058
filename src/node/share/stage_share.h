/* SPDX-License-Identifier: Apache-2.0 */
/* Stages the share of a virtio-fs device. Private to stage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * To be called before device_wait(), which may bind the function to its driver. Loads missing
 * kernel modules, and checks whether another device has the tag. UNAVAILABLE: the kernel has no
 * such module. FAILED_PRECONDITION: the tag can already be mounted although the volume's device is
 * not present yet, so the tag belongs to another device.
 */
int stage_share_prepare(struct staging *s, struct deadline d, struct err *err) MUST_CHECK;
/*
 * Stages the share of s->dev, the device that device_wait() has just returned. Returns 0 if the
 * share is at the staging path as requested; s->mounted is true if this call has mounted it. On
 * failure, this function undoes its own changes, and the caller undoes those of device_wait().
 */
int stage_share(struct staging *s, struct err *err) MUST_CHECK;
