/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's node: its service, the preparation of the host at startup, and the registration with
 * kubelet. Makes no decisions about volumes.
 */
#include "program/program.h"

#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/detached.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "node/node_csi.h"
#include "node/host/max_volumes.h"
#include "node/host/prepare.h"
#include "node/target/propagation.h"
#include "node/host/recover.h"
#include "node/host/topology.h"
#include "settings/node_settings.h"

/*
 * Longer than a scan of the host takes; modprobe and the creation of VFs continue without the
 * driver.
 */
#define END_HOST_MS 1000
#define COUNT_MS 10000

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
		log_event(LOG_WARNING, "cannot determine whether pods will see volumes", "error",
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
		log_event(LOG_WARNING, "leftovers of an earlier start cannot be cleaned up",
		          "error", err.msg, NULL);
	if (did.len)
		log_event(LOG_INFO, "cleaned up after an earlier start", "removed", did.ptr, NULL);
	for (size_t i = 0; i < unfinished.n; i++)
		log_event(LOG_WARNING,
		          "an earlier run of the driver ended during this work; the volume's "
		          "next stage on this node repeats it",
		          "work", unfinished.v[i], NULL);
}

/* Mounts and modules need this capability, which root has in a privileged container. */
void program_check_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { .effective = 0 } };
	char user[16];

	if (syscall(SYS_capget, &header, data) ||
	    data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN))
		return;
	snprintf(user, sizeof(user), "%u", geteuid());
	log_event(LOG_WARNING, "volumes cannot be mounted: the driver lacks CAP_SYS_ADMIN", "user",
	          user, "expected", "root, in a pod with securityContext.privileged: true", NULL);
}

/*
 * After the recovery, the number for NodeGetInfo is counted once, so that a host without functions
 * is logged.
 */
static void recover(void *box)
{
	struct node *n = *(struct node **)box;
	struct err ignored = ERR_INIT;
	struct max_volumes max;

	node_recover_host(n);
	if (!n->o.gate)
		IGNORE_RESULT(max_volumes_answer(n, deadline_in_ms(COUNT_MS), &max, &ignored));
}

void program_begin_host(struct program *p)
{
	struct node *n = &p->node;
	struct err err = ERR_INIT, unfinished = ERR_INIT;

	if (!p->gate)
		IGNORE_RESULT(node_prepare_beside(&p->node, true, 0, &unfinished));
	if (detached_slot_run(n->recovery, recover, &n, sizeof(struct node *), deadline_in_ms(0),
	                      &err) < 0)
		log_event(LOG_WARNING, "leftovers of an earlier start cannot be cleaned up",
		          "error", err.msg, NULL);
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
