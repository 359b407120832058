/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the gate of --controlled-mode (gate.h): who holds the stream, which stages go on by its
 * leave, and a thread that does what takes time: it prepares the host, serves the control socket,
 * and registers the driver with kubelet and takes it back.
 *
 * A NULL gatekeeper is a driver without --controlled-mode: everything is permitted.
 */
#pragma once

#include <pthread.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/str.h"
#include "node/gate/gate.h"

struct gatekeeper;

/* What is sent to the holder of the stream. GATE_STOPPED is STOPPING. */
struct gate_status {
	enum gate_state state;
	unsigned pools, devices; /* with GATE_OPEN; else 0 */
	int64_t generation;      /* with GATE_OPEN and GATE_STOPPED; else 0 */
	const char *text;        /* with GATE_FAILED; else "" */
};

/* All but notify() and end() are called on the gatekeeper's thread, and may take seconds. */
struct gatekeeper_options {
	const char *node_id;
	const char *socket; /* for texts */
	/* Of a stream: called under the gatekeeper's lock, so they do not block. */
	void (*notify)(void *stream, const struct gate_status *status);
	void (*end)(void *stream, const struct err *err);
	int (*prepare)(void *arg, struct err *err);
	void (*count)(void *arg, unsigned *ret_pools, unsigned *ret_devices);
	bool (*staged)(void *arg); /* is any volume? Any thread */
	/* Every two seconds and whenever something has changed. */
	void (*serve)(void *arg);                           /* the control socket */
	void (*set_registered)(void *arg, bool registered); /* with kubelet, or not */
	void *arg;
	int tick_ms; /* 0: 2 s */
};

/* The gate is closed until gatekeeper_enable(). Strings and `arg` outlive it. */
struct gatekeeper *gatekeeper_new(const struct gatekeeper_options *o);
int gatekeeper_start(struct gatekeeper *g, struct err *err) MUST_CHECK;
/* Ends the stream that is held, and the thread; the gate stays closed. NULL is fine. */
void gatekeeper_stop(struct gatekeeper *g);
/* After gatekeeper_stop(), when no call runs any more. NULL is fine; returns NULL. */
struct gatekeeper *gatekeeper_free(struct gatekeeper *g);

/* ---- the holder of a stream ---- */

/*
 * EnableDevices. 0: the stream holds the gate until gatekeeper_left() or its end(). -1
 * INVALID_ARGUMENT: another node's; FAILED_PRECONDITION: older than the one that is held;
 * UNAVAILABLE: the driver stops.
 */
int gatekeeper_enable(struct gatekeeper *g, void *stream, const char *node, int64_t generation,
                      struct err *err) MUST_CHECK;
/* The stream has ended. Nothing happens when it holds the gate no more. */
void gatekeeper_left(struct gatekeeper *g, void *stream);

/* ---- the rest of the node; any thread ---- */

bool gatekeeper_permits(struct gatekeeper *g);
/* 0, or -1 UNAVAILABLE: the gate is closed; the text says since when, and who opens it. */
int gatekeeper_check(struct gatekeeper *g, struct err *err) MUST_CHECK;
/* The same for a node that kubelet wants to register: with something staged it may. */
int gatekeeper_check_registration(struct gatekeeper *g, struct err *err) MUST_CHECK;
/* For /readyz: false, and why, unless the gate is open. */
bool gatekeeper_is_open(struct gatekeeper *g, struct str *why);

/* A stage that goes on by the gate's leave; lives on its stack. */
struct gate_pass {
	struct cancel *cancel; /* may be NULL */
	bool withdrawn;        /* under the gatekeeper's lock */
	struct gate_pass *next;
};
/* False: the gate is closed, and there is no pass. When it closes later, `cancel` is set. */
bool gatekeeper_enter(struct gatekeeper *g, struct gate_pass *pass, struct cancel *cancel);
/* Has the gate been closed since? */
bool gatekeeper_withdrew(struct gatekeeper *g, struct gate_pass *pass);
void gatekeeper_leave(struct gatekeeper *g, struct gate_pass *pass);
/* A volume was unstaged: perhaps it was the last one. */
void gatekeeper_notify_unstaged(struct gatekeeper *g);
