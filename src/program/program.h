/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's objects, and the parts of main.c that start optional components: the node, its gate,
 * the HTTP endpoint. Like main.c, these files use all modules that they connect. Only main.c and
 * these files include this header. Only the main thread calls the functions, unless noted
 * otherwise.
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

#define N_SERVICES_MAX 5

/* All running components: created in the order of the fields, stopped in reverse. */
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
	struct event_recorder *events;
	char *topology_key;                  /* NULL: without --topology */
	struct startup_taint *startup_taint; /* NULL: without --startup-taint */
	struct keylock *controller_locks;
	struct gatekeeper *gate; /* NULL: without --controlled-mode */
	struct shared_path control;
	struct node node;
	bool has_node;
	struct volume_metrics *volume_metrics; /* NULL: not enabled */
	struct keylock *node_locks;
	struct rpc_service services[N_SERVICES_MAX];
	size_t n_services;
	struct web *web;
	struct rpc_server *server;
	struct registration *registration;
	bool hangs; /* at exit: a thread still uses the node and the flags */
};

static inline void program_add_service(struct program *p, struct rpc_service service)
{
	assert(p->n_services < N_SERVICES_MAX);
	p->services[p->n_services++] = service;
}

/* ---- the node (program_node.c) ---- */

void program_add_node(struct program *p);
/*
 * Logs a mount that does not propagate, once, because it is a mistake in the manifest. Each call
 * that needs propagation is refused.
 */
void program_check_propagation(const struct program *p);
/*
 * Logs a warning if the process lacks the privilege to mount; the driver still serves calls and is
 * ready.
 */
void program_check_rights(void);
/* Cleans up files of earlier processes. Call it before calls are served. Accesses no device. */
void program_recover_records(const struct program *p);
/*
 * Cleans up sysfs and mounts of an earlier process, while calls are served. Without a gate, also
 * prepares the host for its first volume and counts its functions. Each part runs on its own
 * thread, which may hang, and logs its changes.
 */
void program_begin_host(struct program *p);
/*
 * Waits a moment for these threads. Returns false if one hangs, and still uses the node and its
 * flags.
 */
bool program_end_host(struct program *p) MUST_CHECK;
/*
 * The last step of the start, because kubelet calls the driver's CSI socket as soon as it finds the
 * registration socket. Does nothing without --kubelet-registration-path. Called by the main thread,
 * or with a gate by the gatekeeper.
 */
int program_start_registration(struct program *p, struct err *err) MUST_CHECK;

/* ---- the gate (program_gate.c) ---- */

/* Creates the gate. Call it before program_add_node(), which passes the gate to the node. */
void program_add_gate(struct program *p);
/* Starts the gate. While it is closed, the driver is not registered with kubelet. */
int program_start_gate(struct program *p, struct err *err) MUST_CHECK;

/* ---- the pages of --http-endpoint (program_web.c) ---- */

/* Starts the HTTP server; does nothing without the flag. */
int program_start_web(struct program *p, struct err *err) MUST_CHECK;
