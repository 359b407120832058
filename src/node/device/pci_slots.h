/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the DPU's hot-plug slots: the ports of its PCIe switch below which it plugs in functions.
 * Only reads sysfs; no state, any thread.
 *
 * Sources: Documentation/ABI/testing/sysfs-bus-pci (secondary_bus_number), drivers/pci/slot.c.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"

/*
 * Adds the addresses of all such slots, "0000:28:00", to ret. No slot is not an error. UNAVAILABLE:
 * not all slots could be read.
 */
int pci_slots(const struct device_world *w, struct strs *ret, struct err *err) MUST_CHECK;
/* Returns true if this function ("0000:28:00.0") is in one of the slots. */
bool pci_in_slot(const struct strs *slots, const char *pci);
