/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot-plug slots that the DPU has: the ports of its PCIe switch below which it plugs functions.
 * Reads sysfs only; no state, any thread.
 *
 * Sources: Documentation/ABI/testing/sysfs-bus-pci (secondary_bus_number), drivers/pci/slot.c.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"

/*
 * Adds the addresses of all such slots, "0000:28:00", to ret. None is no error. UNAVAILABLE: not
 * all could be read.
 */
int pci_slots(const struct device_world *w, struct strs *ret, struct err *err) MUST_CHECK;
/* Is this function ("0000:28:00.0") in one of them? */
bool pci_in_slot(const struct strs *slots, const char *pci);
