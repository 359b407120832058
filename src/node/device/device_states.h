/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which state are the functions and slots that the DPU has for volumes? For people and their
 * graphs: nothing is decided by it. Reads sysfs only; no state, any thread.
 */
#pragma once

#include "node/device/device.h"

enum device_state {
	DEVICE_STATE_EMPTY,          /* a slot in which nothing is plugged */
	DEVICE_STATE_UNBOUND,        /* no driver has it, or one that only parks functions */
	DEVICE_STATE_IDLE,           /* the driver of its kind has it, and there is no disk */
	DEVICE_STATE_IN_USE,         /* the driver has it, and there is a disk or a share */
	DEVICE_STATE_FAILED,         /* the driver has it, and its controller does not work */
	DEVICE_STATE_OTHER_DRIVER,   /* a driver of another kind has it, which keeps it */
	DEVICE_STATE_OTHER_FUNCTION, /* a slot with what is not for volumes, or a PF with VFs */
	DEVICE_STATES
};

/* "in use"; for metrics and people. */
const char *device_state_name(enum device_state state);

struct device_states {
	unsigned vfs[DEVICE_STATES], slots[DEVICE_STATES];
};

/*
 * Counts the VFs of SNAP PFs and the hot-plug slots of the DPU, each once. What goes meanwhile is
 * left out. -1: the functions or slots cannot be listed.
 */
int device_count_states(const struct device_world *w, struct device_states *ret, struct err *err)
	MUST_CHECK;
