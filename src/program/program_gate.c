/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of --controlled-mode, and the actions when it opens and closes. The gatekeeper's thread
 * calls the functions that are passed to it here.
 */
#include "program/program.h"

#include "common/log.h"
#include "node/gate/control_csi.h"
#include "node/host/count.h"
#include "node/host/max_volumes.h"
#include "node/host/prepare.h"

/* Time in which modules are loaded; it is extended as long as VFs appear. */
#define PREPARE_QUIET_MS 5000

/*
 * A preparation that is still running is reported as a failure and retried; the driver still
 * registers.
 */
static int gate_prepare(void *arg, struct err *err)
{
	struct program *p = arg;

	return node_prepare_beside(&p->node, true, PREPARE_QUIET_MS, err) ? -1 : 0;
}

static void gate_count(void *arg, unsigned *ret_pools, unsigned *ret_devices)
{
	const struct program *p = arg;
	struct max_volumes max;

	max_volumes_count(&p->node, &max);
	*ret_pools = (max.vfs > 0) + (max.slots > 0);
	*ret_devices = max.vfs + max.slots;
}

static bool gate_staged(void *arg)
{
	const struct program *p = arg;

	return node_may_have_staged(&p->node);
}

static bool gate_in_use(void *arg)
{
	return gatekeeper_permits(arg);
}

static void gate_serve(void *arg)
{
	struct program *p = arg;
	struct err err = ERR_INIT;

	if (shared_path_keep(&p->control, &err))
		log_limited(LOG_WARNING, 60, "the gate stays closed, --control-socket: %s",
		            err.msg);
}

static void gate_register(void *arg, bool registered)
{
	struct program *p = arg;
	struct err err = ERR_INIT;

	if (!registered)
		p->registration = registration_stop(p->registration);
	else if (program_start_registration(p, &err))
		log_event(LOG_ERROR, "cannot be registered with kubelet", "error", err.msg, NULL);
}

void program_add_gate(struct program *p)
{
	const struct gatekeeper_options options = {
		.node_id = p->flags.node_id,
		.socket = p->flags.control_socket,
		.notify = control_notify,
		.end = control_end,
		.prepare = gate_prepare,
		.count = gate_count,
		.staged = gate_staged,
		.serve = gate_serve,
		.set_registered = gate_register,
		.arg = p,
	};

	p->gate = gatekeeper_new(&options);
	p->control = (struct shared_path) {
		.path = p->flags.control_socket,
		.service = control_service(p->gate),
		.in_use = gate_in_use,
		.arg = p->gate,
	};
}

int program_start_gate(struct program *p, struct err *err)
{
	if (!str_empty(p->flags.registration_path))
		health_registered(&p->health, false);
	log_event(LOG_INFO, "the gate is closed until EnableDevices", "node", p->flags.node_id,
	          "socket", p->flags.control_socket, NULL);
	return gatekeeper_start(p->gate, err);
}
