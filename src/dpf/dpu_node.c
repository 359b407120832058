/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds that represent a host. The driver uses only their existence, the volume count in
 * CSINode, and the host's DPU that DPF uses.
 */
#include "dpf/dpu_node.h"

#include "common/str.h"

const struct kube_kind dpu_node_kind = {
	.group = "provisioning.dpu.nvidia.com",
	.version = "v1alpha1",
	.plural = "dpunodes",
	.kind = "DPUNode",
};

const struct kube_kind dpu_kind = {
	.group = "provisioning.dpu.nvidia.com",
	.version = "v1alpha1",
	.plural = "dpus",
	.kind = "DPU",
};

const struct kube_kind core_node_kind = {
	.group = "",
	.version = "v1",
	.plural = "nodes",
	.kind = "Node",
};

const struct kube_kind csi_node_kind = {
	.group = "storage.k8s.io",
	.version = "v1",
	.plural = "csinodes",
	.kind = "CSINode",
};

void dpu_count_add(struct dpu_count *n, const struct json *dpu)
{
	const struct json *annotations = json_at(dpu, "metadata.annotations");
	bool going = json_at(dpu, "metadata.deletionTimestamp");
	bool preferred = json_member(annotations, DPU_ANNOTATION_PREFERRED);

	if (!str_eq(json_str(dpu, "spec.dpuNodeName"), n->node))
		return;
	n->all++;
	n->going += going;
	n->preferred += preferred;
	n->preferred_going += preferred && going;
}

bool dpu_count_is_usable(const struct dpu_count *n)
{
	return n->all == 1 ? !n->going : n->preferred == 1 && !n->preferred_going;
}

int64_t csi_node_limit(const struct json *csi_node, const char *driver)
{
	json_foreach (item, json_at(csi_node, "spec.drivers")) {
		struct err ignored = ERR_INIT;
		int64_t count;

		if (!str_eq(json_str(item, "name"), driver))
			continue;
		if (json_get_i64(item, "allocatable.count", &count, &ignored) || count < 0)
			return 0;
		return count;
	}
	return 0;
}

const char *csi_node_id(const struct json *csi_node, const char *driver)
{
	json_foreach (item, json_at(csi_node, "spec.drivers"))
		if (str_eq(json_str(item, "name"), driver))
			return json_str(item, "nodeID");
	return NULL;
}

bool csi_node_is_of(const struct json *csi_node, const char *node_uid)
{
	json_foreach (owner, json_at(csi_node, "metadata.ownerReferences"))
		if (str_eq(json_str(owner, "kind"), "Node") &&
		    str_eq(json_str(owner, "uid"), node_uid))
			return true;
	return false;
}
