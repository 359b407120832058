/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a virtio-fs tag mounted anywhere on this host? Private to this room. No state, any thread.
 *
 * Sources: Documentation/filesystems/proc.rst (mountinfo), Documentation/ABI/stable/sysfs-module
 * (refcnt).
 */
#pragma once

#include "node/device/device.h"

/*
 * 0: it is certain that no mount, in any mount namespace and of any process, is of the device with
 * this tag ("": it is unknown). -1 FAILED_PRECONDITION: one is, or that is not certain; the text
 * says which.
 */
int virtiofs_unused(const struct device_world *w, const char *tag, struct err *err) MUST_CHECK;
