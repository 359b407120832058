/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RPC handlers of the controller's lists and health. The table in controller_csi.c registers them.
 */
#pragma once

#include "csi/csi.pb-c.h"

#include "controller/controller.h"
#include "rpc/rpc.h"

/*
 * Sets the topology of a volume, in every answer that has a volume. Does nothing without
 * --topology.
 */
void csi_set_volume_topology(const struct controller *c, struct rpc_call *call,
                             Csi__V1__Volume *volume);
int csi_list_volumes(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                     struct err *err);
int csi_get_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                   struct err *err);
int csi_get_volume_health(void *self, struct rpc_call *call, const void *req,
                          ProtobufCMessage **resp, struct err *err);
