/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC service of the gate: sriovdp.control.v1's ControlService, which calls a gatekeeper. */
#pragma once

#include "node/gate/gatekeeper.h"
#include "rpc/rpc.h"

/* Returns the service; `g` must outlive it. */
struct rpc_service control_service(struct gatekeeper *g);
/* Implement notify() and end() of struct gatekeeper_options. */
void control_notify(void *stream, const struct gate_status *status);
void control_end(void *stream, const struct err *err);
