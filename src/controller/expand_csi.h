/* SPDX-License-Identifier: Apache-2.0 */
/* The wire door of ControllerExpandVolume, for the table of controller_csi.c. */
#pragma once

#include "rpc/rpc.h"

/* An rpc_handler; self is a struct controller. */
int expand_volume(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                  struct err *err);
