/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a PCI function of the type that a volume asks for: a VF, or a PF that the DPU has hot-plugged?
 * Private to this room. No state, any thread.
 */
#pragma once

#include <stdbool.h>

#include "node/device/device.h"
#include "node/device/device_kind.h"

/*
 * The function is usable (pci_usable()). 0; DEVICE_ABSENT: it has gone; -1 FAILED_PRECONDITION: it
 * is of the other type, or it is not certain that the DPU has hot-plugged it. `proven`: its VPD has
 * the published VUID, which counts where the host shows no slots of the DPU.
 */
int device_function_check(const struct device_world *w, const struct device_kind *kind,
                          const char *pci, enum device_function wanted, bool proven,
                          struct str *why, struct err *err) MUST_CHECK;
/* A PF is not there: appends what may keep it away to `why`, nothing when nothing is to be seen. */
void device_function_missing(const struct device_world *w, struct str *why);
/* Did the host find no memory for one of the function's BARs? Then no driver can use it. */
bool device_function_without_memory(const struct device_world *w, const char *pci);
