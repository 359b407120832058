/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock protects the state, the held stream and the passes. No call under it blocks: notify()
 * and end() only queue. Log lines are written after the lock is released. Slow actions run on the
 * thread; a result is used only if the stream for which the action was started is still held
 * (`epoch`).
 */
#include "node/gate/gatekeeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metric.h"
#include "common/wait_queue.h"

#define TICK_MS 2000
#define RETRY_NS (INT64_C(30) * 1000000000)

struct gatekeeper {
	struct gatekeeper_options o;
	pthread_t thread;
	bool started;
	bool registered;      /* used only by the thread */
	pthread_mutex_t lock; /* protects all members below */
	struct wait_queue changed;
	enum gate_state state;
	void *stream; /* the held stream; NULL: none */
	int64_t generation;
	bool was_open;         /* a stream of `generation` was held before */
	int64_t since;         /* when the state was entered, monotonic ns */
	unsigned epoch;        /* number of the preparation */
	bool prepare, recheck; /* requests for the thread */
	unsigned pools, devices;
	struct err failed; /* error of the last preparation */
	struct gate_pass *passes;
};

/* ---- events, under the lock ---- */

static void notify_locked(const struct gatekeeper *g, enum gate_state state)
{
	const struct gate_status s = {
		.state = state,
		.pools = state == GATE_OPEN ? g->pools : 0,
		.devices = state == GATE_OPEN ? g->devices : 0,
		.generation = state == GATE_OPEN || state == GATE_STOPPED ? g->generation : 0,
		.text = state == GATE_FAILED ? g->failed.msg : "",
	};

	g->o.notify(g->stream, &s);
}

static void retire_locked(struct gatekeeper *g, enum gate_state next, int64_t successor)
{
	struct err err = ERR_INIT;

	notify_locked(g, GATE_STOPPED);
	if (next == GATE_STOPPED)
		err_set(&err, ERR_UNAVAILABLE, "the driver stops");
	else
		err_set(&err, ERR_ABORTED,
		        "another EnableDevices, of generation %" PRId64
		        ", took over the gate from this one, of generation %" PRId64,
		        successor, g->generation);
	g->o.end(g->stream, &err);
}

static void withdraw_locked(struct gatekeeper *g)
{
	assert_locked(&g->lock);
	for (struct gate_pass *p = g->passes; p; p = p->next) {
		p->withdrawn = true;
		if (p->cancel)
			cancel_set(p->cancel);
	}
}

static void measure(const struct gatekeeper *g)
{
	for (enum gate_state s = 0; s < GATE_STATES; s++)
		metric_set(METRIC_GATE, s == g->state, LABELS(gate_state_name(s)));
	metric_set(METRIC_GATE_GENERATION, g->stream ? g->generation : 0, NULL);
}

/* Processes an event. `stream` and its generation are set for events of a stream. */
static void act_locked(struct gatekeeper *g, enum gate_event event, void *stream,
                       int64_t generation)
{
	const struct gate_step *step = gate_step(g->state, event);

	assert_locked(&g->lock);
	if (step->actions & GATE_RETIRE)
		retire_locked(g, step->next, generation);
	if (step->actions & GATE_WITHDRAW)
		withdraw_locked(g);
	if (step->actions & GATE_TAKE) {
		g->stream = stream;
		g->generation = generation;
		g->was_open = true;
	}
	if (step->actions & GATE_DROP)
		g->stream = NULL;
	if (step->actions & (GATE_TAKE | GATE_DROP))
		g->epoch++;
	if (step->actions & GATE_PREPARE)
		g->prepare = true;
	if (step->next != g->state)
		g->since = monotonic_ns();
	g->state = step->next;
	if (step->actions & GATE_ANNOUNCE)
		notify_locked(g, g->state);
	measure(g);
	g->recheck = true;
	wait_queue_wake(&g->changed);
}

/* ---- messages ---- */

static void why_locked(const struct gatekeeper *g, struct err *err)
{
	char *before AUTO(free) = NULL;

	if (g->state == GATE_STOPPED) {
		err_set(err, ERR_UNAVAILABLE, "the gate is closed: the driver stops");
		return;
	}
	before = g->was_open
	                 ? xasprintf("the stream of generation %" PRId64 " ended %" PRId64 " s ago",
	                             g->generation,
	                             (monotonic_ns() - g->since) / INT64_C(1000000000))
	                 : xstrdup("no stream since the driver started");
	err_set(err, ERR_UNAVAILABLE,
	        "the gate is closed: no client holds EnableDevices for node %s on %s (%s), so "
	        "the DPU's functions may be about to change; the gate opens when the daemon that "
	        "configures the functions connects again: see the log of that daemon",
	        g->o.node_id, g->o.socket, before);
}

static void log_state(enum gate_state before, enum gate_state now, int64_t generation,
                      const char *error)
{
	char number[24];

	if (before == now && now != GATE_PREPARING)
		return;
	snprintf(number, sizeof(number), "%" PRId64, generation);
	log_event(now == GATE_CLOSED || now == GATE_FAILED ? LOG_WARNING : LOG_INFO, "the gate",
	          "state", gate_state_name(now), "before", gate_state_name(before), "generation",
	          number, "error", error, NULL);
}

/* ---- the holder of a stream ---- */

static void refuse_locked(const struct gatekeeper *g, enum gate_event event, const char *node,
                          int64_t generation, struct err *err)
{
	if (event == GATE_WRONG_NODE)
		err_set(err, ERR_INVALID,
		        "EnableDevices is for node \"%s\" (expected %s, from --node-id): send "
		        "that name in node_name",
		        node ? node : "", g->o.node_id);
	else if (event == GATE_OUTDATED)
		err_set(err, ERR_PRECONDITION,
		        "EnableDevices of generation %" PRId64
		        " is outdated: the gate is held for generation %" PRId64,
		        generation, g->generation);
	else
		err_set(err, ERR_UNAVAILABLE, "the driver stops: connect to its successor");
}

int gatekeeper_enable(struct gatekeeper *g, void *stream, const char *node, int64_t generation,
                      struct err *err)
{
	enum gate_state before, now;
	enum gate_event event;

	{
		WITH_LOCK(&g->lock);
		before = g->state;
		event = gate_event_of(g->o.node_id, node, g->stream != NULL, g->generation,
		                      generation);
		if (gate_step(before, event)->actions & GATE_REFUSE) {
			refuse_locked(g, event, node, generation, err);
			return -1;
		}
		act_locked(g, event, stream, generation);
		now = g->state;
	}
	log_state(before, now, generation, NULL);
	return 0;
}

static void happen(struct gatekeeper *g, enum gate_event event)
{
	enum gate_state before, now;
	int64_t generation;

	{
		WITH_LOCK(&g->lock);
		before = g->state;
		generation = g->generation;
		act_locked(g, event, NULL, 0);
		now = g->state;
	}
	log_state(before, now, generation, NULL);
}

static bool holds(struct gatekeeper *g, const void *stream)
{
	WITH_LOCK(&g->lock);
	return stream && g->stream == stream;
}

/* Only gatekeeper_enable(), which runs on the same thread, gives the gate to another stream. */
void gatekeeper_left(struct gatekeeper *g, void *stream)
{
	if (holds(g, stream))
		happen(g, GATE_LEFT);
}

/* ---- the rest of the node ---- */

bool gatekeeper_permits(struct gatekeeper *g)
{
	if (!g)
		return true;
	WITH_LOCK(&g->lock);
	return gate_permits(g->state);
}

int gatekeeper_check(struct gatekeeper *g, struct err *err)
{
	if (!g)
		return 0;
	WITH_LOCK(&g->lock);
	if (gate_permits(g->state))
		return 0;
	why_locked(g, err);
	return -1;
}

int gatekeeper_check_registration(struct gatekeeper *g, struct err *err)
{
	if (!gatekeeper_check(g, err))
		return 0;
	if (!g->o.staged(g->o.arg))
		return -1;
	err_clear(err);
	return 0;
}

bool gatekeeper_is_open(struct gatekeeper *g, struct str *why)
{
	struct err err = ERR_INIT;

	WITH_LOCK(&g->lock);
	if (g->state == GATE_OPEN)
		return true;
	if (!gate_permits(g->state)) {
		why_locked(g, &err);
		str_add(why, err.msg);
	} else if (g->state == GATE_FAILED) {
		str_addf(why, "is open, but the host could not be prepared: %s", g->failed.msg);
	} else {
		str_add(why, "is open, and the host is being prepared");
	}
	return false;
}

bool gatekeeper_enter(struct gatekeeper *g, struct gate_pass *pass, struct cancel *cancel)
{
	*pass = (struct gate_pass) { .cancel = cancel };
	if (!g)
		return true;
	WITH_LOCK(&g->lock);
	if (!gate_permits(g->state))
		return false;
	pass->next = g->passes;
	g->passes = pass;
	return true;
}

bool gatekeeper_withdrew(struct gatekeeper *g, struct gate_pass *pass)
{
	if (!g)
		return false;
	WITH_LOCK(&g->lock);
	return pass->withdrawn;
}

void gatekeeper_leave(struct gatekeeper *g, struct gate_pass *pass)
{
	struct gate_pass **at;

	if (!g)
		return;
	WITH_LOCK(&g->lock);
	for (at = &g->passes; *at; at = &(*at)->next)
		if (*at == pass) {
			*at = pass->next;
			break;
		}
	/* This stage may have been the last reason for the registration. */
	if (!gate_permits(g->state)) {
		g->recheck = true;
		wait_queue_wake(&g->changed);
	}
}

void gatekeeper_notify_unstaged(struct gatekeeper *g)
{
	if (!g)
		return;
	WITH_LOCK(&g->lock);
	g->recheck = true;
	wait_queue_wake(&g->changed);
}

/* ---- the thread ---- */

/* Waits until there is an action to run, or the next check is due. */
static enum gate_state wait_for_work(struct gatekeeper *g, bool *ret_prepare, unsigned *ret_epoch)
{
	struct deadline until = deadline_in_ms(g->o.tick_ms ? g->o.tick_ms : TICK_MS);

	WITH_LOCK(&g->lock);
	while (!g->recheck && g->state != GATE_STOPPED &&
	       wait_queue_wait(&g->changed, &g->lock, until))
		;
	g->recheck = false;
	if (g->state == GATE_FAILED && monotonic_ns() - g->since >= RETRY_NS)
		g->prepare = true;
	*ret_prepare = g->prepare && gate_permits(g->state);
	*ret_epoch = g->epoch;
	g->prepare = false;
	return g->state;
}

static void gatekeeper_prepare(struct gatekeeper *g, unsigned epoch)
{
	enum gate_state before, now;
	struct err err = ERR_INIT;
	int64_t generation;
	unsigned pools = 0, devices = 0;
	int rc = g->o.prepare(g->o.arg, &err);

	g->o.count(g->o.arg, &pools, &devices);
	{
		WITH_LOCK(&g->lock);
		if (epoch != g->epoch)
			return;
		before = g->state;
		generation = g->generation;
		g->pools = pools;
		g->devices = devices;
		g->failed = err;
		act_locked(g, rc ? GATE_UNPREPARED : GATE_PREPARED, NULL, 0);
		now = g->state;
		if (rc)
			g->since = monotonic_ns();
	}
	log_state(before, now, generation, rc ? err.msg : NULL);
}

static bool has_passes(struct gatekeeper *g)
{
	WITH_LOCK(&g->lock);
	return g->passes != NULL;
}

static void register_or_not(struct gatekeeper *g, enum gate_state state)
{
	bool wanted = true;

	switch (gate_registration(state)) {
	case GATE_REGISTERED:
		break;
	case GATE_AS_BEFORE:
		wanted = g->registered || g->o.staged(g->o.arg);
		break;
	case GATE_WHILE_STAGED:
		wanted = has_passes(g) || g->o.staged(g->o.arg);
		break;
	}
	if (wanted != g->registered)
		g->o.set_registered(g->o.arg, wanted);
	g->registered = wanted;
}

static void *gatekeeper_run(void *arg)
{
	struct gatekeeper *g = arg;
	enum gate_state state;
	unsigned epoch;
	bool due;

	pthread_setname_np(pthread_self(), "gatekeeper");
	while ((state = wait_for_work(g, &due, &epoch)) != GATE_STOPPED) {
		if (due) {
			gatekeeper_prepare(g, epoch);
			continue; /* the state has changed */
		}
		g->o.serve(g->o.arg);
		register_or_not(g, state);
	}
	return NULL;
}

/* ---- start and stop ---- */

struct gatekeeper *gatekeeper_new(const struct gatekeeper_options *o)
{
	struct gatekeeper *g = xcalloc(1, sizeof(*g));

	g->o = *o;
	g->recheck = true;
	g->since = monotonic_ns();
	pthread_mutex_init(&g->lock, NULL);
	measure(g);
	return g;
}

int gatekeeper_start(struct gatekeeper *g, struct err *err)
{
	int rc = pthread_create(&g->thread, NULL, gatekeeper_run, g);

	if (rc)
		return err_sys_of(err, ERR_CALL_TASK, rc, "start the thread that keeps the gate");
	g->started = true;
	return 0;
}

void gatekeeper_stop(struct gatekeeper *g)
{
	if (!g)
		return;
	happen(g, GATE_STOP);
	if (g->started)
		pthread_join(g->thread, NULL);
	g->started = false;
}

struct gatekeeper *gatekeeper_free(struct gatekeeper *g)
{
	if (!g)
		return NULL;
	pthread_mutex_destroy(&g->lock);
	free(g);
	return NULL;
}
