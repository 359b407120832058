/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of the pages of --http-endpoint: liveness, readiness, and the host state for
 * /metrics. The web module's threads call all functions except program_start_web().
 */
#include "program/program.h"

#include "common/cleanup.h"
#include "common/failing.h"
#include "common/metric.h"
#include "controller/ready.h"
#include "node/host/count.h"
#include "rpc/rpc_probe.h"

/* The time limit for /healthz, shorter than the timeout of its client (10 s in the manifests). */
#define HEALTH_MS 5000

/* Tests the whole path of a call: socket, listener, gRPC, poller. */
static int is_alive(void *arg, struct err *err)
{
	const struct program *p = arg;

	return rpc_probe(p->flags.socket_path, HEALTH_MS, err);
}

static void look_at_controller(const struct program *p, struct web_checks *ret)
{
	struct deadline d = deadline_in_ms(HEALTH_MS / 2);
	struct err api = ERR_INIT, attachments = ERR_INIT;

	web_check(ret, "api", controller_check_api(&p->controller, d, &api) ? api.msg : NULL);
	web_check(ret, "attachments",
	          controller_check_attachments(&p->controller, &attachments) ? attachments.msg
	                                                                     : NULL);
}

static void look_at_gate(const struct program *p, struct web_checks *ret)
{
	struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

	if (p->gate)
		web_check(ret, "gate", gatekeeper_is_open(p->gate, &why) ? NULL : why.ptr);
}

static void look_for_readiness(void *arg, struct web_checks *ret)
{
	const struct program *p = arg;
	struct err err = ERR_INIT;

	web_check(ret, "csi-socket", is_alive(arg, &err) ? err.msg : NULL);
	if (p->flags.controller)
		look_at_controller(p, ret);
	if (p->has_node) {
		struct str why AUTO(str_clear) = STR_INIT(ERR_MSG_MAX);

		look_at_gate(p, ret);
		web_check(ret, "functions", node_has_functions(&p->node, &why) ? NULL : why.ptr);
	}
	if (!str_empty(p->flags.registration_path))
		web_check(ret, "kubelet",
		          health_is_registered(&p->health)
		                  ? NULL
		                  : "has not registered the driver: the driver's log has the "
		                    "reason");
}

/* Never waits. */
static void count_now(void *arg)
{
	int64_t oldest;
	unsigned n = failing_count(monotonic_ns(), &oldest);
	const struct program *p = arg;

	if (p->has_node)
		node_count_hung(&p->node);
	if (!str_empty(p->flags.registration_path))
		metric_set(METRIC_REGISTERED, health_is_registered(&p->health), NULL);
	metric_set(METRIC_VOLUMES_FAILING, n, NULL);
	metric_set(METRIC_VOLUMES_FAILING_OLDEST, oldest, NULL);
}

static void look_at_host(void *arg)
{
	struct program *p = arg;

	node_count(&p->node);
	if (p->volume_metrics)
		volume_metrics_sample(p->volume_metrics, &p->node);
}

static void add_volumes(void *arg, struct str *page)
{
	struct program *p = arg;

	volume_metrics_print(p->volume_metrics, page);
}

int program_start_web(struct program *p, struct err *err)
{
	const struct web_options options = {
		.address = p->flags.http_endpoint,
		.version = SNAP_CSI_VERSION,
		.mode = p->flags.mode,
		.node = p->flags.node ? p->flags.node_id : "",
		.modes = (p->flags.controller ? METRIC_CONTROLLER : 0) |
		         (p->flags.node ? METRIC_NODE : 0),
		.alive = is_alive,
		.ready = look_for_readiness,
		.count = count_now,
		.look = p->has_node ? look_at_host : NULL,
		.more = p->volume_metrics ? add_volumes : NULL,
		.arg = p,
	};

	return str_empty(p->flags.http_endpoint) ? 0 : web_start(&options, &p->web, err);
}
