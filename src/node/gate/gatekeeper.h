/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the gate of --controlled-mode (gate.h): keeps the stream that holds it, and the stages
 * in flight that need it open. A thread executes the slow actions: it prepares the host, serves the
 * control socket, and registers and unregisters the driver with kubelet.
 *
 * A NULL gatekeeper represents a driver without --controlled-mode: everything is permitted.
 */
#pragma once

#include <pthread.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"
#include "node/gate/gate.h"

struct gatekeeper;

/* The message sent on the held stream. GATE_STOPPED is sent as STOPPING. */
struct gate_status {
	enum gate_state state;
	unsigned pools, devices; /* set with GATE_OPEN; otherwise 0 */
	int64_t generation;      /* set with GATE_OPEN and GATE_STOPPED; otherwise 0 */
	const char *text;        /* set with GATE_FAILED; otherwise "" */
};

/*
 * All functions except notify(), end() and staged() are called on the gatekeeper's thread, and may
 * take seconds.
 */
struct gatekeeper_options {
	const char *node_id;
	const char *socket; /* for messages */
	/*
	 * Send the status on a stream, or end it. Called under the gatekeeper's lock, so they must
	 * not block.
	 */
	void (*notify)(void *stream, const struct gate_status *status);
	void (*end)(void *stream, const struct err *err);
	int (*prepare)(void *arg, struct err *err);
	void (*count)(void *arg, unsigned *ret_pools, unsigned *ret_devices);
	bool (*staged)(void *arg); /* returns true if any volume is staged; called on any thread */
	/* Called after each change, and every tick_ms. */
	void (*serve)(void *arg); /* serves the control socket */
	/* registers the driver with kubelet, or unregisters it */
	void (*set_registered)(void *arg, bool registered);
	void *arg;
	int tick_ms; /* interval of these calls; 0: 2 s */
};

/*
 * Creates a gatekeeper, whose gate is closed until gatekeeper_enable(). Strings and `arg` must
 * outlive it.
 */
struct gatekeeper *gatekeeper_new(const struct gatekeeper_options *o);
int gatekeeper_start(struct gatekeeper *g, struct err *err) MUST_CHECK;
/* Ends the held stream and the thread; the gate stays closed. `g` may be NULL. */
void gatekeeper_stop(struct gatekeeper *g);
/*
 * Frees the gatekeeper after gatekeeper_stop(), when no call is in flight; returns NULL. `g` may be
 * NULL.
 */
struct gatekeeper *gatekeeper_free(struct gatekeeper *g);

/* ---- the holder of a stream ---- */

/*
 * Handles EnableDevices. Returns 0 if the stream holds the gate, until gatekeeper_left() or the
 * call of end() for it. -1 INVALID_ARGUMENT: it is for another node; FAILED_PRECONDITION: its
 * generation is older than that of the held stream; UNAVAILABLE: the driver is stopping.
 */
int gatekeeper_enable(struct gatekeeper *g, void *stream, const char *node, int64_t generation,
                      struct err *err) MUST_CHECK;
/* Reports that the stream has ended. Does nothing if the stream no longer holds the gate. */
void gatekeeper_left(struct gatekeeper *g, void *stream);

/* ---- for the rest of the node; callable from any thread ---- */

bool gatekeeper_permits(struct gatekeeper *g);
/*
 * Checks that the gate is open. -1 UNAVAILABLE: it is closed; the message names the time since
 * which it is closed, and how to open it.
 */
int gatekeeper_check(struct gatekeeper *g, struct err *err) MUST_CHECK;
/*
 * Like gatekeeper_check(), for a registration with kubelet, which is also permitted while a volume
 * is staged.
 */
int gatekeeper_check_registration(struct gatekeeper *g, struct err *err) MUST_CHECK;
/* For /readyz: returns true if the gate is open; otherwise `why` has the reason. */
bool gatekeeper_is_open(struct gatekeeper *g, struct str *why);

/* A stage that needs the gate to stay open; on the stack of the stage's thread. */
struct gate_pass {
	struct cancel *cancel; /* set if the gate closes; may be NULL */
	bool withdrawn;        /* protected by the gatekeeper's lock */
	struct gate_pass *next;
};
/*
 * Issues a pass. Returns false, without a pass, if the gate is closed. If the gate closes later,
 * `cancel` is set.
 */
bool gatekeeper_enter(struct gatekeeper *g, struct gate_pass *pass, struct cancel *cancel);
/* Returns true if the gate was closed after gatekeeper_enter(). */
bool gatekeeper_withdrew(struct gatekeeper *g, struct gate_pass *pass);
void gatekeeper_leave(struct gatekeeper *g, struct gate_pass *pass);
/* Reports that a volume was unstaged, possibly the last one. */
void gatekeeper_notify_unstaged(struct gatekeeper *g);
