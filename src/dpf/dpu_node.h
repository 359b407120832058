/* SPDX-License-Identifier: Apache-2.0 */
/* The API objects of a host: DPF's DPUNode and its DPUs, and Kubernetes' own Node and CSINode. */
#pragma once

#include <stdint.h>

#include "common/json.h"
#include "kube/kube.h"

extern const struct kube_kind dpu_node_kind; /* namespaced; named like the host's Node */
extern const struct kube_kind dpu_kind;      /* namespaced */
extern const struct kube_kind core_node_kind;
extern const struct kube_kind csi_node_kind;

/* The label that DPF sets on each DPU that it creates. Its value is the name of the DPUNode. */
#define DPU_LABEL_NODE "provisioning.dpu.nvidia.com/dpunode-name"
/* With any value, this annotation marks the DPU that DPF uses if a DPUNode has several. */
#define DPU_ANNOTATION_PREFERRED "storage.nvidia.com/preferred-dpu"

/* Counts of the DPUs of one DPUNode. */
struct dpu_count {
	const char *node; /* name of the DPUNode */
	size_t all, preferred;
	size_t going, preferred_going; /* of these, those with a deletionTimestamp */
};
/* Counts the DPU if it belongs to `node`, by spec.dpuNodeName, as DPF does. */
void dpu_count_add(struct dpu_count *n, const struct json *dpu);
/*
 * Returns true if DPF finds exactly one DPU that is not being deleted. Otherwise DPF neither
 * attaches nor detaches.
 */
bool dpu_count_is_usable(const struct dpu_count *n);

/* Returns the host's limit of volumes for that driver, as published by kubelet; 0: not known. */
int64_t csi_node_limit(const struct json *csi_node, const char *driver);
/*
 * Returns true if this CSINode was created for the Node with this uid, not for an earlier Node of
 * the same name.
 */
bool csi_node_is_of(const struct json *csi_node, const char *node_uid);
/*
 * Returns the id that the driver has passed to kubelet for this host, which is the name of its
 * DPUNode; NULL: none.
 */
const char *csi_node_id(const struct json *csi_node, const char *driver);
