/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a PCI function has the type that a volume requests: a VF, or a PF that the DPU has
 * hot-plugged. Private to this directory. No state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/device/device.h"
#include "node/device/device_kind.h"

/*
 * Checks the type of a usable function (pci_usable()). Returns 0 if it is the wanted type, or
 * DEVICE_ABSENT if the function was removed. -1 FAILED_PRECONDITION: it has the other type, or it
 * is not certain that the DPU has hot-plugged it. `proven`: its VPD has the published VUID, which
 * is accepted as proof if the host shows no slots of the DPU.
 */
int device_function_check(const struct device_world *w, const struct device_kind *kind,
                          const char *pci, enum device_function wanted, bool proven,
                          struct str *why, struct err *err) MUST_CHECK;
/* Appends possible causes of a missing PF to `why`, or nothing if the host shows none. */
void device_function_missing(const struct device_world *w, struct str *why);
/*
 * Returns true if the host found no memory for one of the function's BARs, so no driver can use it.
 */
bool device_function_without_memory(const struct device_world *w, const char *pci);
