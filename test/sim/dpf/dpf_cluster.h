/* SPDX-License-Identifier: Apache-2.0 */
/* DPU clusters and their DPUs: which of them serve a node, and whether they are reachable. */
#pragma once

#include "test/sim/dpf/state.h"

/* The pause after which DPF checks again whether a DPU cluster is reachable. */
#define CLUSTER_RETRY_MS 5000

/* The controller of DPU (step.h): assigns a DPU cluster and sets Ready. */
int64_t dpf_dpu(struct dpf *d, struct object_version *v, struct json *o);
/* Whether DPF has lost the DPU cluster of that name. */
bool cluster_is_unreachable(struct dpf *d, const char *name);
/*
 * Whether it has lost any: then it can neither create nor remove objects in any of them, and
 * reports nothing.
 */
bool cluster_any_unreachable(struct dpf *d);
/*
 * The DPU of the node: its only one, or the only one that is preferred. NULL: the node has no such DPU, *why
 * (malloc'ed) says why. A new root.
 */
struct json *cluster_find_dpu(struct dpf *d, const char *ns, const char *node, char **why);
