/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions shared by the RPC handlers of the two services (controller_csi.c, node_csi.c), for
 * replies, maps, required fields and the volume key of the lock. Any thread; everything lives in
 * the call's arena.
 */
#pragma once

#include "csi/csi.pb-c.h"

#include "rpc/rpc.h"

/*
 * Allocates a handler's reply and sets *resp. A handler calls it first; after that every return
 * path is valid, because rpc_dispatch() drops the reply of a handler that fails. For a reply
 * without fields, use the macro as a statement.
 *
 *     Csi__V1__ProbeResponse *reply = CSI_REPLY(call, resp, csi__v1__probe_response);
 */
#define CSI_REPLY(call, resp, type_) csi_reply((call), (resp), &type_##__descriptor)
void *csi_reply(struct rpc_call *call, ProtobufCMessage **resp,
                const ProtobufCMessageDescriptor *type);

/* Sets INVALID_ARGUMENT "<field>: field is required" if the value is NULL or "". */
int csi_require(const char *value, const char *field, struct err *err) MUST_CHECK;

/*
 * Returns the map<string, string> field of that name ("volume_context") as a list of pairs. Keys
 * and values are borrowed from the message; the list is in the arena. The message must have such a
 * field.
 */
struct kvs csi_map(struct rpc_call *call, const ProtobufCMessage *message, const char *field);
/* Fills the map field; the reverse of csi_map(). Keys and values are borrowed from `map`. */
void csi_set_map(struct rpc_call *call, ProtobufCMessage *message, const char *field,
                 const struct kvs *map);

/* Returns a Topology of one segment; key and value are borrowed. */
Csi__V1__Topology *csi_topology(struct rpc_call *call, const char *key, const char *value);

/* Returns a human-readable text for a reply, escaped (str_add_shown()); in the arena. */
char *csi_shown(struct rpc_call *call, const char *text);
/*
 * Like csi_shown(), but for the message of a health entry, cut to LIMIT_HEALTH_MESSAGE bytes. The
 * API server also rejects a reason above 256 bytes, more than 16 entries, and two entries with the
 * same status and reason.
 */
char *csi_health_message(struct rpc_call *call, const char *text);

/* An rpc_key that returns the volume_id, for every request that has one. */
const char *csi_volume_id(struct rpc_call *call, const void *request);
