/* SPDX-License-Identifier: Apache-2.0 */
/* CSI's Node service on the wire. */
#pragma once

#include "common/keylock.h"
#include "rpc/rpc.h"
#include "node/node.h"

/* `n` and `locks` outlive it. */
struct rpc_service node_service(struct node *n, struct keylock *locks);
