/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The taint that a node has until kubelet has registered this driver: "<driver>/agent-not-ready",
 * whatever its value and effect. The maker of the node puts it there; this takes it away. No
 * state, any thread.
 */
#pragma once

#include "common/deadline.h"
#include "common/json.h"
#include "kube/kube.h"

/* "csi.snap.nvidia.com/agent-not-ready", malloc'ed. */
char *node_taint_key(const char *driver);
bool node_taint_is_on(const struct json *node, const char *key);

enum {
	TAINT_NOT_THERE = 1, /* the node has no such taint, or there is no such node */
	TAINT_WAITS = 2,     /* kubelet has not registered the driver on this very Node */
};
/*
 * Takes the taint off, if the driver is registered there. Changes the node in no other state than
 * the one that was read, so that other taints and a new Node of the same name stay as they are.
 * 0, TAINT_NOT_THERE, TAINT_WAITS, or -1: to be tried again, for good only where a right is
 * missing (PERMISSION_DENIED).
 */
int node_taint_remove(struct kube *k, const char *driver, const char *node, struct deadline d,
                      struct err *err) MUST_CHECK;
