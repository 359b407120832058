/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of --controlled-mode: may this driver use the DPU's functions now? A daemon that sets
 * them up says so, by holding a stream open (docs/gate.md).
 *
 * A table: state and event -> the next state, and what has to be done. Pure: no lock, no clock, no
 * stream. gatekeeper.h acts by it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum gate_state {
	GATE_CLOSED,    /* nobody holds a stream */
	GATE_PREPARING, /* a stream is held; modules are loaded and VFs made */
	GATE_OPEN,      /* and that is done */
	GATE_FAILED,    /* or it failed, and is tried again */
	GATE_STOPPED,   /* the driver stops */
	GATE_STATES,
};

enum gate_event {
	GATE_ENABLE,     /* EnableDevices, no older than the stream that is held */
	GATE_OUTDATED,   /* EnableDevices, of an older generation than the stream that is held */
	GATE_WRONG_NODE, /* EnableDevices, of another node or of none */
	GATE_PREPARED,   /* the preparing of the stream that is held has succeeded */
	GATE_UNPREPARED, /* or failed */
	GATE_LEFT, /* the stream that is held has ended: closed, its process died, its deadline */
	GATE_STOP, /* the driver is told to stop */
	GATE_EVENTS,
};

/* What has to be done, in this order. */
enum gate_action {
	GATE_REFUSE = 1,    /* end the new stream with an error; nothing else changes */
	GATE_RETIRE = 2,    /* send STOPPING to the held stream, and end it */
	GATE_WITHDRAW = 4,  /* end the stages that wait */
	GATE_TAKE = 8,      /* hold the new stream */
	GATE_DROP = 16,     /* hold none */
	GATE_PREPARE = 32,  /* begin to prepare the host */
	GATE_ANNOUNCE = 64, /* send the state to the held stream */
};

/* What a state means for the rest of the driver. */
enum gate_registration {
	/* With kubelet only while something is staged, which kubelet has to unmount. */
	GATE_WHILE_STAGED,
	GATE_AS_BEFORE, /* as it was, or while something is staged */
	GATE_REGISTERED,
};

struct gate_step {
	enum gate_state next;
	unsigned actions;
	const char *text; /* for docs/gate.md */
};

const struct gate_step *gate_step(enum gate_state state, enum gate_event event);
/* Which event is this request? `held`: the generation of the stream that is held, if any is. */
enum gate_event gate_event_of(const char *node, const char *asked_node, bool is_held, int64_t held,
                              int64_t asked);
/* May functions be used: modules loaded, VFs made, drivers bound, volumes staged? */
bool gate_permits(enum gate_state state);
enum gate_registration gate_registration(enum gate_state state);
const char *gate_state_name(enum gate_state state);
