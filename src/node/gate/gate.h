/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of --controlled-mode: it decides whether this driver may use the DPU's functions now. A
 * daemon that sets up the functions opens the gate by holding a stream open (docs/operate/gate.md).
 *
 * A table maps a state and an event to the next state and its actions. Pure functions: no lock, no
 * clock, no stream. gatekeeper.h executes the actions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum gate_state {
	GATE_CLOSED,    /* no client holds a stream */
	GATE_PREPARING, /* a client holds a stream; modules are being loaded and VFs created */
	GATE_OPEN,      /* the preparation has succeeded */
	GATE_FAILED,    /* the preparation has failed, and will be retried */
	GATE_STOPPED,   /* the driver is stopping */
	GATE_STATES,
};

enum gate_event {
	GATE_ENABLE,     /* EnableDevices, of a generation not older than that of the held stream */
	GATE_OUTDATED,   /* EnableDevices, of a generation older than that of the held stream */
	GATE_WRONG_NODE, /* EnableDevices, for another node or without a node */
	GATE_PREPARED,   /* the preparation of the held stream has succeeded */
	GATE_UNPREPARED, /* the preparation of the held stream has failed */
	/* the held stream has ended: it was closed, its process died, or its deadline passed */
	GATE_LEFT,
	GATE_STOP, /* the driver has received the request to stop */
	GATE_EVENTS,
};

/* Actions, executed in this order. */
enum gate_action {
	GATE_REFUSE = 1,    /* end the new stream with an error; nothing else changes */
	GATE_RETIRE = 2,    /* send STOPPING on the held stream, and end it */
	GATE_WITHDRAW = 4,  /* cancel the stages that are waiting */
	GATE_TAKE = 8,      /* hold the new stream */
	GATE_DROP = 16,     /* hold no stream */
	GATE_PREPARE = 32,  /* start to prepare the host */
	GATE_ANNOUNCE = 64, /* send the state on the held stream */
};

/* The effect of a state on the registration with kubelet. */
enum gate_registration {
	/*
	 * Registered only while a volume is staged, because kubelet has to unmount it through the
	 * driver.
	 */
	GATE_WHILE_STAGED,
	GATE_AS_BEFORE, /* unchanged, but always registered while a volume is staged */
	GATE_REGISTERED,
};

struct gate_step {
	enum gate_state next;
	unsigned actions;
	const char *text; /* description for docs/operate/gate.md */
};

const struct gate_step *gate_step(enum gate_state state, enum gate_event event);
/*
 * Returns the event for this EnableDevices request. `held`: the generation of the held stream, if
 * is_held.
 */
enum gate_event gate_event_of(const char *node, const char *asked_node, bool is_held, int64_t held,
                              int64_t asked);
/*
 * Returns true if functions may be used: modules loaded, VFs created, drivers bound, volumes
 * staged.
 */
bool gate_permits(enum gate_state state);
enum gate_registration gate_registration(enum gate_state state);
const char *gate_state_name(enum gate_state state);
