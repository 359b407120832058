/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's objects, and the parts of main.c that begin what is optional: the node, its gate,
 * the HTTP endpoint. These files know all rooms that they join, as main.c does, and nobody includes
 * them but main.c. The main thread alone calls, unless a function says otherwise.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>

#include "common/running.h"
#include "common/signals.h"
#include "controller/controller.h"
#include "flags/flags.h"
#include "node/gate/gatekeeper.h"
#include "node/service.h"
#include "node/host/volume_metrics.h"
#include "rpc/health.h"
#include "rpc/identity_csi.h"
#include "rpc/registration.h"
#include "rpc/rpc_server.h"
#include "rpc/shared_path.h"
#include "web/web.h"

#define N_SERVICES_MAX 4

/* Everything that runs: made in the order of the fields, taken down in reverse. */
struct program {
	struct flags flags;
	struct running *running;
	struct signals signals;
	struct identity identity;
	struct health health;
	struct kube *kube;
	struct controller controller;
	struct attachment_index *attachments;
	struct attachment_lists *lists;
	struct node_cache *node_cache;
	char *topology_key;                  /* NULL: without --topology */
	struct startup_taint *startup_taint; /* NULL: without --startup-taint */
	struct keylock *controller_locks;
	struct gatekeeper *gate; /* NULL: without --controlled-mode */
	struct shared_path control;
	struct node node;
	bool has_node;
	struct volume_metrics *volume_metrics; /* NULL: not asked for */
	struct keylock *node_locks;
	struct rpc_service services[N_SERVICES_MAX];
	size_t n_services;
	struct web *web;
	struct rpc_server *server;
	struct registration *registration;
	bool hangs; /* at its end: a thread keeps the node and the flags */
};

static inline void program_add_service(struct program *p, struct rpc_service service)
{
	assert(p->n_services < N_SERVICES_MAX);
	p->services[p->n_services++] = service;
}

/* ---- the node (program_node.c) ---- */

void program_add_node(struct program *p);
/*
 * A mount that does not propagate is a mistake in the manifest: it is logged once here, and each
 * call that needs it is refused.
 */
void program_check_propagation(const struct program *p);
/* Before calls are served: tidies up files of earlier starts. Accesses no device. */
void program_recover_records(const struct program *p);
/*
 * While calls are served: tidies up sysfs and mounts after an earlier start and, without a gate,
 * prepares the host for its first volume. Each runs on a thread, which may hang. Logs its changes.
 */
void program_begin_host(struct program *p);
/* Waits a moment for these threads. False: one hangs, and keeps the node with its flags. */
bool program_end_host(struct program *p) MUST_CHECK;
/*
 * The last step: as soon as kubelet finds this socket, it calls the driver's own. Nothing without
 * --kubelet-registration-path. The main thread's, with a gate the gatekeeper's.
 */
int program_start_registration(struct program *p, struct err *err) MUST_CHECK;

/* ---- the gate (program_gate.c) ---- */

/* Before program_add_node(), which gives it to the node. */
void program_add_gate(struct program *p);
/* As long as it is closed, kubelet has not registered the driver. */
int program_start_gate(struct program *p, struct err *err) MUST_CHECK;

/* ---- what --http-endpoint serves (program_web.c) ---- */

/* Nothing without the flag. */
int program_start_web(struct program *p, struct err *err) MUST_CHECK;
