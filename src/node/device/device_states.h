/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines the states of the functions and slots that the DPU has for volumes. Only reports and
 * metrics use them; no decision depends on them. Only reads sysfs; no state, any thread.
 */
#pragma once

#include "node/device/device.h"

enum device_state {
	DEVICE_STATE_EMPTY,        /* an empty slot */
	DEVICE_STATE_UNBOUND,      /* not bound to a driver, or only to one that parks functions */
	DEVICE_STATE_IDLE,         /* bound to the driver of its kind; it has no disk or share */
	DEVICE_STATE_IN_USE,       /* bound to that driver; it has a disk or a share */
	DEVICE_STATE_FAILED,       /* bound to that driver; its controller does not work */
	DEVICE_STATE_OTHER_DRIVER, /* bound to any other driver, and stays bound to it */
	/* a slot with a function that is not for volumes, or a PF with VFs */
	DEVICE_STATE_OTHER_FUNCTION,
	DEVICE_STATES
};

/* Returns the state's name for metrics and messages: "in use". */
const char *device_state_name(enum device_state state);

struct device_states {
	unsigned vfs[DEVICE_STATES], slots[DEVICE_STATES];
};

/*
 * Counts the VFs of SNAP PFs and the DPU's hot-plug slots, each once. Skips functions and slots
 * that are removed during the count. -1: the functions or slots cannot be listed.
 */
int device_count_states(const struct device_world *w, struct device_states *ret, struct err *err)
	MUST_CHECK;
