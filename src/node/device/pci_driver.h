/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds a PCI function to a driver, and undoes the binding. Callers must have checked with
 * pci_usable() that the driver may use the function. Any thread.
 *
 * Each of these calls takes the kernel's lock of the device, which a removal or a probe that hangs
 * keeps permanently. Therefore only one thread of this process at a time makes such a call for a
 * function. Another thread waits until hang_ms (struct device_world) after the start of the first
 * call, then gets UNAVAILABLE with the function's name. So a function that hangs blocks only one
 * thread.
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

/* The changes that pci_give() made, for pci_give_back(). */
struct pci_change {
	char pci[PCI_NAME_MAX]; /* "": no change */
	char driver[PCI_DRIVER_NAME_MAX];
	char override_before[PCI_DRIVER_NAME_MAX];
	bool override_set;
	char unbound_from[PCI_DRIVER_NAME_MAX]; /* the driver that parked the function, or "" */
};

/*
 * Binds the function to `driver`: writes driver_override, then bind. Without driver_override, bind
 * fails with ENODEV while the PF's sriov_drivers_autoprobe is 0. Returns 0 if the function is bound
 * to the driver; ret has the changes, none if it already was. Returns PCI_NOT_NOW, with the reason
 * in `why`, if the probe failed, the driver is not loaded or the function was removed; nothing is
 * changed. Returns -1 if an administrator has to act, because the function is bound to another
 * driver, driver_override names another driver, or sysfs cannot be written; nothing is changed. -1
 * UNAVAILABLE: another thread hangs in a call for this function.
 */
int pci_give(const struct device_world *w, const char *pci, const char *driver,
             struct pci_change *ret, struct str *why, struct err *err) MUST_CHECK;
/*
 * Undoes the change: unbinds the function from the driver (only with `unbind`), restores
 * driver_override, and binds the function to the driver that parked it. Tries each step, and
 * returns -1 with the first error. Returns 0 if the function was removed.
 */
int pci_give_back(const struct device_world *w, const struct pci_change *c, bool unbind,
                  struct err *err) MUST_CHECK;
/* driver_override is not `driver`, or the function was removed. */
enum { PCI_NOT_SET = 2 };
/* Clears driver_override if it names `driver`. */
int pci_forget(const struct device_world *w, const char *pci, const char *driver, struct err *err)
	MUST_CHECK;
/*
 * Returns -1 (UNAVAILABLE) if a thread hangs while it binds a function to this driver or unbinds
 * one.
 */
int pci_driver_answers(const struct device_world *w, const char *driver, struct err *err)
	MUST_CHECK;
/*
 * Returns true if this driver only reserves functions (pci-stub). Functions bound to it cannot be
 * in use.
 */
bool pci_driver_parks(const char *driver);
/* Sets the error for a function that is bound to another driver, `driver`; returns -1. */
int pci_refuse_held(const struct device_world *w, const char *pci, const char *driver,
                    struct err *err);
