/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC handlers of CSI's Controller service. */
#pragma once

#include "rpc/rpc.h"
#include "controller/controller.h"

/*
 * Returns the service; `controller` and `locks` must outlive it. CreateVolume and DeleteVolume of
 * one volume take the same lock.
 */
struct rpc_service controller_service(struct controller *controller, struct keylock *locks);
