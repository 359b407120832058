/* SPDX-License-Identifier: Apache-2.0 */
/* What the API knows of a host: DPF's DPUNode, and Kubernetes' own Node and CSINode. */
#pragma once

#include <stdint.h>

#include "common/json.h"
#include "kube/kube.h"

extern const struct kube_kind dpu_node_kind; /* namespaced; its name is the host's node name */
extern const struct kube_kind core_node_kind;
extern const struct kube_kind csi_node_kind;

/* How many volumes of that driver the host can have, as kubelet published it; 0: not known. */
int64_t csi_node_limit(const struct json *csi_node, const char *driver);
