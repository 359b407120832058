/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a node: from its options to the end of the last thread that works for it. The calls
 * are in stage/; plain structs in and out, the wire is node_csi.c's. Any thread may make a call;
 * two calls for one volume never run at once (the RPC layer's volume lock).
 */
#pragma once

#include "common/deadline.h"
#include "node/node.h"

void node_init(struct node *n, const struct node_options *o);
/*
 * Waits for mkfs and e2fsck that outlived their calls, which end with the driver's container; logs
 * what is waited for, and what still runs at the deadline. Between the last call and node_clear().
 */
void node_wait_jobs(struct node *n, struct deadline d);
/*
 * Waits until no thread of the node accesses this host's sysfs any more. False: a thread hangs
 * there; the node and its options must then stay until the process has ended.
 */
bool node_wait_host(const struct node *n, struct deadline d) MUST_CHECK;
void node_clear(struct node *n);
