/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and ends a node: from its options to the end of its last thread. The RPC calls are
 * implemented in stage/, with plain structs as input and output; node_csi.c maps these structs to
 * protobuf messages. Any thread may make a call; two calls for one volume never run concurrently
 * (the RPC layer's volume lock).
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"

void node_init(struct node *n, const struct node_options *o);
/*
 * Waits for mkfs and e2fsck that have outlived their calls, because they would be killed with the
 * driver's container. Logs the tools that it waits for, and those that are still running at the
 * deadline. To be called between the last call and node_clear().
 */
void node_wait_jobs(struct node *n, struct deadline d);
/*
 * Waits until no thread of the node accesses this host's sysfs any more. Returns false if a thread
 * still hangs there; the node and its options must then stay valid until the process ends.
 */
bool node_wait_host(const struct node *n, struct deadline d) MUST_CHECK;
void node_clear(struct node *n);
