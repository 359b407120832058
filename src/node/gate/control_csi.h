/* SPDX-License-Identifier: Apache-2.0 */
/* The wire door of the gate: sriovdp.control.v1's ControlService, in front of a gatekeeper. */
#pragma once

#include "node/gate/gatekeeper.h"
#include "rpc/rpc.h"

/* The service; `g` outlives it. */
struct rpc_service control_service(struct gatekeeper *g);
/* For gatekeeper_options: notify() and end() of its streams. */
void control_notify(void *stream, const struct gate_status *status);
void control_end(void *stream, const struct err *err);
