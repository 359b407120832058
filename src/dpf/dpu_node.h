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
/* Was this CSINode made for the Node with this uid, and not for an earlier one of its name? */
bool csi_node_is_of(const struct json *csi_node, const char *node_uid);
/* The id that the driver gave to kubelet for this host, the name of its DPUNode; NULL: none. */
const char *csi_node_id(const struct json *csi_node, const char *driver);
