/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who in this process waits for devices of which PCI function. Two volumes may share a
 * function: the wait that bound it and then fails must not take it from under the other one.
 * Private to device_wait.c. Thread-safe; entries live on the stacks of the waiting threads.
 */
#pragma once

#include <stdbool.h>

#include "node/device/pci_driver.h"

struct device_user {
	/* Set by device_user_join(); under the module's lock from then to the leave. */
	const char *sysfs;
	char pci[PCI_NAME_MAX];   /* "": has not joined */
	struct pci_change change; /* what is to be given back when the last user fails */
	bool in_use;              /* another user found its device below the function meanwhile */
	bool changing;            /* is binding the function just now */
	bool leaving;             /* is giving the function back just now */
	struct device_user *next;
};

/*
 * Joins the users of the function. False: somebody is giving it back just now; try again a little
 * later.
 */
bool device_user_join(struct device_user *u, const char *sysfs, const char *pci) MUST_CHECK;
/*
 * Begins a change of the function. False: another user is changing it just now, and what is seen of
 * it meanwhile is not the state to go back to.
 */
bool device_user_begin_change(struct device_user *u) MUST_CHECK;
void device_user_end_change(struct device_user *u);
/* Says that this user changed the function, now or earlier. */
void device_user_changed(struct device_user *u, const struct pci_change *c);
/* Leaves with a device that is going to be used. */
void device_user_succeed(struct device_user *u);
/*
 * Leaves without one. True: the function is nobody's now, so the caller gives it back as u->change
 * says and then calls device_user_left(); nobody joins until then. False: there is nothing to give
 * back, or another user has taken that over.
 */
bool device_user_fail(struct device_user *u) MUST_CHECK;
void device_user_left(struct device_user *u);
