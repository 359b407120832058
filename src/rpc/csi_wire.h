/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the doors of the two services (controller_csi.c, node_csi.c) share: replies, maps, required
 * fields and the volume key of the lock. Any thread; everything lives in the call's arena.
 */
#pragma once

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"

/*
 * Allocates the reply of a handler and sets *resp: the first thing that a handler does. Then it
 * fills the reply, and any return is right, since rpc_dispatch() drops the reply of a handler that
 * fails. A reply without fields is the same macro as a statement.
 *
 *     Csi__V1__ProbeResponse *reply = CSI_REPLY(call, resp, csi__v1__probe_response);
 */
#define CSI_REPLY(call, resp, type_) csi_reply((call), (resp), &type_##__descriptor)
void *csi_reply(struct rpc_call *call, ProtobufCMessage **resp,
                const ProtobufCMessageDescriptor *type);

/* INVALID_ARGUMENT "<field>: field is required" when the value is NULL or "". */
int csi_require(const char *value, const char *field, struct err *err) MUST_CHECK;

/*
 * The map<string, string> field of that name ("volume_context") as a list of pairs. Keys and values
 * are borrowed from the message, the list is in the arena. The message must have such a field.
 */
struct kvs csi_map(struct rpc_call *call, const ProtobufCMessage *message, const char *field);
/* The other direction: fills the map field. Keys and values are borrowed from `map`. */
void csi_set_map(struct rpc_call *call, ProtobufCMessage *message, const char *field,
                 const struct kvs *map);

/* A Topology of one segment, borrowed. */
Csi__V1__Topology *csi_topology(struct rpc_call *call, const char *key, const char *value);

/* Text for people in a reply, as it may be shown (str_add_shown()); in the arena. */
char *csi_shown(struct rpc_call *call, const char *text);

/* An rpc_key for every request that has a volume_id: that id. */
const char *csi_volume_id(struct rpc_call *call, const void *request);
