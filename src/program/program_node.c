/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node of the driver: its service, what is done to the host at the start, kubelet. Decides
 * nothing about volumes.
 */
#include "program/program.h"

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "node/node_csi.h"
#include "node/host/prepare.h"
#include "node/target/propagation.h"
#include "node/host/recover.h"
#include "node/host/topology.h"
#include "settings/node_settings.h"

/* A look at the host ends sooner; modprobe and VFs that are being made go on without the driver. */
#define END_HOST_MS 1000

void program_add_node(struct program *p)
{
	const struct flags *f = &p->flags;
	struct node_options options = settings_node(f);

	options.topology_key = p->topology_key;
	options.running = p->running;
	options.gate = p->gate;
	options.own_probes = true;
	node_init(&p->node, &options);
	p->has_node = true;
	if (f->volume_metrics && !str_empty(f->http_endpoint))
		p->volume_metrics = volume_metrics_new();
	p->node_locks = keylock_new();
	program_add_service(p, node_service(&p->node, p->node_locks));
}

void program_check_propagation(const struct program *p)
{
	struct strs errors AUTO(strs_clear) = STRS_INIT;
	struct strs warnings AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (propagation_scan(&p->node.o, &errors, &warnings, &err))
		log_event(LOG_WARNING, "cannot tell whether pods will see volumes", "error",
		          err.msg, NULL);
	for (size_t i = 0; i < errors.n; i++)
		log_event(LOG_ERROR, "volumes will be refused", "error", errors.v[i], NULL);
	for (size_t i = 0; i < warnings.n; i++)
		log_event(LOG_WARNING, "mounts are not shared", "warning", warnings.v[i], NULL);
}

void program_recover_records(const struct program *p)
{
	struct str did AUTO(str_clear) = STR_INIT(2000);
	struct strs unfinished AUTO(strs_clear) = STRS_INIT;
	struct err err = ERR_INIT;

	if (node_recover_records(&p->node, &did, &unfinished, &err))
		log_event(LOG_WARNING, "what an earlier start has left cannot be tidied up",
		          "error", err.msg, NULL);
	if (did.len)
		log_event(LOG_INFO, "tidied up after an earlier start", "removed", did.ptr, NULL);
	for (size_t i = 0; i < unfinished.n; i++)
		log_event(LOG_WARNING,
		          "an earlier start was ended during its work; the volume's next stage on "
		          "this node repeats it",
		          "work", unfinished.v[i], NULL);
}

static void recover(void *box)
{
	node_recover_host(*(struct node **)box);
}

void program_begin_host(struct program *p)
{
	struct node *n = &p->node;
	struct err err = ERR_INIT, unfinished = ERR_INIT;

	if (detached_slot_run(n->recovery, recover, &n, sizeof(struct node *), deadline_in_ms(0),
	                      &err) < 0)
		log_event(LOG_WARNING, "what an earlier start has left cannot be tidied up",
		          "error", err.msg, NULL);
	if (!p->gate)
		IGNORE_RESULT(node_prepare_beside(&p->node, true, 0, &unfinished));
}

bool program_end_host(struct program *p)
{
	return node_wait_host(&p->node, deadline_in_ms(END_HOST_MS));
}

static void is_registered(void *arg, bool registered)
{
	struct program *p = arg;

	health_registered(&p->health, registered);
}

static bool is_outdated(void *arg)
{
	struct program *p = arg;

	return node_topology_appeared(&p->node);
}

int program_start_registration(struct program *p, struct err *err)
{
	const struct registration_options options = {
		.dir = p->flags.registration_dir,
		.driver = p->flags.name,
		.endpoint = p->flags.registration_path,
		.registered = is_registered,
		.outdated = p->topology_key ? is_outdated : NULL,
		.arg = p,
	};

	if (str_empty(p->flags.registration_path))
		return 0;
	return registration_start(&options, &p->registration, err);
}
