/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a virtio-fs tag is mounted anywhere on this host. Private to this directory. No
 * state, any thread.
 *
 * Sources: Documentation/filesystems/proc.rst (mountinfo), Documentation/ABI/stable/sysfs-module
 * (refcnt).
 */
#pragma once

#include "node/device/device.h"

/*
 * Returns 0 if it is certain that the device with this tag ("": unknown) is not mounted by any
 * process, in any mount namespace. -1 FAILED_PRECONDITION: it is mounted, or may be; the message
 * says which.
 */
int virtiofs_unused(const struct device_world *w, const char *tag, struct err *err) MUST_CHECK;
