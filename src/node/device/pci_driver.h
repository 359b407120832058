/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a PCI function to a driver, and undoes that. Callers have checked with pci_usable() that
 * the function is ours to touch. Any thread.
 *
 * Each of these calls takes the kernel's lock of the device, which a removal or a probe that hangs
 * keeps permanently. So only one thread of this process at a time calls them for a function.
 * Another thread waits until hang_ms (struct device_world) after the first one began, then gets
 * UNAVAILABLE with the function's name. So a function that hangs costs one thread.
 */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"
#include "node/device/device.h"
#include "node/device/pci.h"

#define PCI_DRIVER_NAME_MAX 64

/* The function cannot be bound now; the next attempt may work. */
enum { PCI_NOT_NOW = 1 };

/* What pci_give() changed, for pci_give_back(). */
struct pci_change {
	char pci[PCI_NAME_MAX]; /* "": nothing was changed */
	char driver[PCI_DRIVER_NAME_MAX];
	char override_before[PCI_DRIVER_NAME_MAX];
	bool override_set;
	char unbound_from[PCI_DRIVER_NAME_MAX]; /* the driver that parked the function, or "" */
};

/*
 * Binds the function to `driver`: driver_override, then bind (a bind alone is ENODEV while the PF's
 * sriov_drivers_autoprobe is 0). 0: the driver holds it; ret says what was changed, nothing when it
 * held it before. PCI_NOT_NOW: the probe failed, the driver is not loaded or the function has gone,
 * as `why` says; nothing is changed. -1: it fails until somebody acts, as another driver holds the
 * function, driver_override names another one, or sysfs cannot be written; nothing is changed. -1
 * UNAVAILABLE: another thread hangs at it.
 */
int pci_give(const struct device_world *w, const char *pci, const char *driver,
             struct pci_change *ret, struct str *why, struct err *err) MUST_CHECK;
/*
 * Undoes the change: unbinds the function from the driver (with `unbind` only), restores
 * driver_override, binds the function to the driver that parked it. Tries each step; -1 with the
 * first error. 0 when the function has gone.
 */
int pci_give_back(const struct device_world *w, const struct pci_change *c, bool unbind,
                  struct err *err) MUST_CHECK;
/* driver_override is not `driver`, or the function was removed. */
enum { PCI_NOT_SET = 2 };
/* Clears driver_override when it names `driver`. */
int pci_forget(const struct device_world *w, const char *pci, const char *driver, struct err *err)
	MUST_CHECK;
/*
 * -1 UNAVAILABLE: a thread hangs at a function that it was to give to this driver, or to take from
 * it.
 */
int pci_driver_answers(const struct device_world *w, const char *driver, struct err *err)
	MUST_CHECK;
/*
 * Does this driver only reserve functions (pci-stub)? Then nobody can be using them.
 */
bool pci_driver_parks(const char *driver);
/* Sets the error for a function that another driver holds; returns -1. */
int pci_refuse_held(const struct device_world *w, const char *pci, const char *driver,
                    struct err *err);
