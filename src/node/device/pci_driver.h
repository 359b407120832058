/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving a PCI function to a driver and taking that back. Callers have checked with pci_usable()
 * that the function is ours to touch. No state, any thread; two threads on one function meet in
 * the kernel's own errors.
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
	char pci[PCI_NAME_MAX]; /* "" : nothing was changed */
	char driver[PCI_DRIVER_NAME_MAX];
	char override_before[PCI_DRIVER_NAME_MAX];
	bool override_set;
	char unbound_from[PCI_DRIVER_NAME_MAX]; /* a driver that only parks functions, or "" */
};

/*
 * Makes `driver` hold the function: driver_override and bind (driver_override because a plain bind
 * is ENODEV while the PF's sriov_drivers_autoprobe is 0). 0: done or held already, ret says what
 * was changed. PCI_NOT_NOW (a probe that failed, a driver that is not loaded, a function that went
 * away), `why` says what; nothing is changed. -1: never, so long as nobody acts (another driver
 * holds or is to hold the function, sysfs cannot be written); nothing is changed.
 */
int pci_give(const struct device_world *w, const char *pci, const char *driver,
             struct pci_change *ret, struct str *why, struct err *err) MUST_CHECK;
/*
 * Undoes it: takes the function from `driver` (only when `unbind`), restores driver_override,
 * gives it back to the driver that parked it. Tries each step; a function that has gone is fine.
 */
int pci_give_back(const struct device_world *w, const struct pci_change *c, bool unbind,
                  struct err *err) MUST_CHECK;
/* Clears driver_override when it names `driver`. A function that has gone is fine. */
int pci_forget(const struct device_world *w, const char *pci, const char *driver, struct err *err)
	MUST_CHECK;
/*
 * Does this driver hold functions only to keep others off (pci-stub)? Then nothing can be using it.
 */
bool pci_driver_parks(const char *driver);
/* The refusal for a function that another driver holds; returns -1. */
int pci_held_by_other(const struct device_world *w, const char *pci, const char *driver,
                      struct err *err);
