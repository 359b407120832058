/* SPDX-License-Identifier: Apache-2.0 */
/* Serves CSI's Node service. */
#pragma once

#include "common/keylock.h"
#include "rpc/rpc.h"
#include "node/node.h"

/* Returns the service; `n` and `locks` must outlive the service. */
struct rpc_service node_service(struct node *n, struct keylock *locks);
