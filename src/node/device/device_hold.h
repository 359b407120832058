/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that the disks below a function are unused, and prevents their use until released. Private
 * to this directory. No state, any thread.
 */
#pragma once

#include <stddef.h>

#include "common/cleanup.h"
#include "node/device/device.h"

struct device_kind; /* device_kind.h */

enum { DEVICE_HOLD_MAX = 32 };

/* Descriptors of disks, opened exclusively. */
struct device_hold {
	int fds[DEVICE_HOLD_MAX];
	size_t n;
};

void device_hold_release(struct device_hold *h);
DEFINE_AUTO_VALUE(struct device_hold, device_hold_release);

/*
 * Implements hold() of struct device_kind for kinds of disks: opens every disk that the kind lists
 * below the function. If `only` is given, refuses any other disk below the function without opening
 * it, because that disk may be a raw block volume, which is in use without being open exclusively.
 */
int device_hold_disks(const struct device_kind *kind, const struct device_world *w, const char *pci,
                      const struct device *only, struct device_hold *ret, struct err *err)
	MUST_CHECK;
