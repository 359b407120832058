/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a node exists, whether it has a DPU, and how many volumes it can have, as far as
 * the driver has the permissions to read that.
 */
#pragma once

#include <stdint.h>

#include "controller/controller.h"

/*
 * Checks that the node exists. Sends no request for a node that has attachments, or that was found
 * less than NODE_EXISTS_FOR_NS ago. NOT_FOUND if there is no DPUNode of that name in the driver's
 * namespace. Without permission to read DPUNodes, the driver checks the core Node instead; without
 * permission for either, it accepts every name and logs one warning.
 */
int node_check(struct controller *c, const char *node, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Checks, for a new attachment, that the node has a DPU that DPF can use. Sends one request,
 * answered from the API server's cache; none for a node whose DPU was found less than
 * NODE_DPU_FOR_NS ago. UNAVAILABLE if a read from etcd also shows no usable DPU, because without
 * one, DPF could not detach the volume later. No code is final. Succeeds if the driver has no
 * permission to list DPUs, or if they are not served. A DPU need not be Ready, because DPF can
 * detach from a DPU that is not Ready.
 */
int node_check_dpu(struct controller *c, const char *node, struct deadline d, struct err *err)
	MUST_CHECK;
/*
 * Returns the volume count that kubelet has published for this driver (CSINode); 0: not known.
 * Unless `fresh` is set, the count may be NODE_LIMIT_FOR_NS old.
 */
int64_t node_limit(struct controller *c, const char *node, bool fresh, struct deadline d);
