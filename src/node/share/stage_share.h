/* SPDX-License-Identifier: Apache-2.0 */
/* Stages the share of a virtio-fs device. Private to stage.c; no state. */
#pragma once

#include "common/deadline.h"
#include "node/staged/staging.h"

/*
 * Before device_wait(), which may give the function its driver: loads the kernel's modules where
 * they are missing, and looks whether the tag is somebody else's. UNAVAILABLE: the kernel has no
 * such module. FAILED_PRECONDITION: the tag can be mounted although the volume's device is not
 * there yet, so it is another device's.
 */
int stage_share_prepare(struct staging *s, struct deadline d, struct err *err) MUST_CHECK;
/*
 * s->dev is the device, which device_wait() has just found. 0: its share is at the staging path as
 * wanted, and s->mounted says whether it was not before. When it fails, what was done is undone;
 * what device_wait() has changed is the caller's to undo.
 */
int stage_share(struct staging *s, struct err *err) MUST_CHECK;
