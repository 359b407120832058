/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The taint that a node has until kubelet has registered this driver: "<driver>/agent-not-ready",
 * with any value and effect. The node is created with the taint; node_taint_remove() removes it.
 * Stateless; any thread.
 */
#pragma once

#include "common/deadline.h"
#include "common/json.h"
#include "kube/kube.h"

/* Returns "csi.snap.nvidia.com/agent-not-ready", malloc'ed. */
char *node_taint_key(const char *driver);
bool node_taint_is_on(const struct json *node, const char *key);

enum {
	TAINT_NOT_THERE = 1, /* the node does not exist or has no such taint */
	TAINT_WAITS = 2,     /* kubelet has not registered the driver on this Node (by uid) */
};
/*
 * Removes the taint if the driver is registered on the node. Changes the node only in the state
 * that was read, so that other taints and a new Node of the same name stay unchanged. Returns 0,
 * TAINT_NOT_THERE, TAINT_WAITS, or -1. After -1, retry; the error is permanent only if a permission
 * is missing (PERMISSION_DENIED).
 */
int node_taint_remove(struct kube *k, const char *driver, const char *node, struct deadline d,
                      struct err *err) MUST_CHECK;
