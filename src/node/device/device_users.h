/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of this process that wait for a device, by PCI function. Two volumes may share a
 * function: when the call that bound it fails, it must not unbind the function while the other call
 * waits or uses its device. Then the duty to undo the change passes to the other call, or ends.
 * Private to device_wait.c. Thread-safe; entries live on the stacks of the waiting threads.
 */
#pragma once

#include <stdbool.h>

#include "node/device/pci_driver.h"

struct device_user {
	/* In the list, all fields are under the lock of device_users.c. */
	const char *sysfs;
	char pci[PCI_NAME_MAX];   /* "": it is not in the list */
	struct pci_change change; /* to be undone when the last user fails; pci "": nothing is */
	bool in_use;              /* another user has found its device since this one joined */
	bool changing;            /* this user is binding the function now */
	bool leaving;             /* this user is undoing the change now */
	struct device_user *next;
};

/*
 * Joins the users of the function. False: another user is undoing its change now; try again a
 * little later.
 */
bool device_user_join(struct device_user *u, const char *sysfs, const char *pci) MUST_CHECK;
/*
 * Begins to change the function. False: another user is changing it now, so the present state is
 * not the one to restore later.
 */
bool device_user_begin_change(struct device_user *u) MUST_CHECK;
void device_user_end_change(struct device_user *u);
/* Records a change that this user made, now or earlier. Only the first one is kept. */
void device_user_changed(struct device_user *u, const struct pci_change *c);
/* Leaves the list; the device was found and will be used, so nobody else may undo a change. */
void device_user_succeed(struct device_user *u);
/*
 * Leaves the list without a device. True: nobody else uses the function, so the caller undoes
 * u->change and then calls device_user_left(); nobody can join before that. False: there is nothing
 * to undo, or another user has taken it over.
 */
bool device_user_fail(struct device_user *u) MUST_CHECK;
void device_user_left(struct device_user *u);
