/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerExpandVolume: the message to a plain struct and back. Secrets are not read. */
#include "controller/expand_csi.h"

#include "csi/csi.pb-c.h"

#include "rpc/csi_wire.h"
#include "volume/volume_cap_csi.h"
#include "controller/expand.h"

int expand_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                  struct err *err)
{
	const Csi__V1__ControllerExpandVolumeRequest *q = req;
	Csi__V1__ControllerExpandVolumeResponse *reply =
		CSI_REPLY(call, resp, csi__v1__controller_expand_volume_response);
	struct volume_growth r = { .volume = q->volume_id };
	struct grown_volume grown;
	struct volume_cap cap;

	if (csi_require(q->volume_id, "VolumeId", err))
		return -1;
	if (!q->capacity_range)
		return err_set(err, ERR_INVALID, "CapacityRange: field is required");
	r.required = q->capacity_range->required_bytes;
	r.limit = q->capacity_range->limit_bytes;
	if (q->volume_capability) {
		if (volume_cap_shape_from_csi(q->volume_capability, "VolumeCapability",
		                              &call->arena, &cap, err))
			return -1;
		r.cap = &cap;
	}
	kube_begin(0);
	if (volume_expand(self, &r, call->deadline, &grown, err))
		return -1;
	reply->capacity_bytes = grown.capacity;
	reply->node_expansion_required = grown.node_grows;
	return 0;
}
