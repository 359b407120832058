/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of this process that wait for a device, by PCI function. Two volumes may share a
 * function. If the call that bound the function fails, it must not unbind the function while
 * another call waits for its device or uses it. The duty to undo the change then passes to the
 * other call, or ends if the other call uses the device. Private to device_wait.c. Thread-safe;
 * entries are on the stacks of the waiting threads.
 */
#pragma once

#include <stdbool.h>

#include "node/device/pci_driver.h"

struct device_user {
	/* While in the list, all fields are protected by the lock of device_users.c. */
	const char *sysfs;
	char pci[PCI_NAME_MAX];   /* "": not in the list */
	struct pci_change change; /* undone if the last user fails; pci "": no change */
	bool in_use;              /* another user has found its device after this user joined */
	bool changing;            /* this user is binding the function now */
	bool leaving;             /* this user is undoing the change now */
	struct device_user *next;
};

/*
 * Adds a user of the function. Returns false if another user is undoing its change now; the caller
 * then retries a little later.
 */
bool device_user_join(struct device_user *u, const char *sysfs, const char *pci) MUST_CHECK;
/*
 * Starts a change of the function. Returns false if another user is changing it now; the current
 * state must then not be saved as the state to restore.
 */
bool device_user_begin_change(struct device_user *u) MUST_CHECK;
void device_user_end_change(struct device_user *u);
/* Records a change that this user made, now or earlier. Only the first change is kept. */
void device_user_changed(struct device_user *u, const struct pci_change *c);
/* Removes a user that has found the device and will use it, so no other user may undo a change. */
void device_user_succeed(struct device_user *u);
/*
 * Removes a user that has found no device. Returns true if the function has no other user: the
 * caller must undo u->change and then call device_user_left(), and no user can join before that.
 * Returns false if there is nothing to undo, or another user has taken over the undo.
 */
bool device_user_fail(struct device_user *u) MUST_CHECK;
void device_user_left(struct device_user *u);
