/* SPDX-License-Identifier: Apache-2.0 */
/* CSI's Controller service: the wire door of src/controller. */
#pragma once

#include "rpc/rpc.h"
#include "controller/controller.h"

/*
 * The service; controller and locks outlive it. Create and Delete of one volume take the same lock.
 */
struct rpc_service controller_service(struct controller *controller, struct keylock *locks);
