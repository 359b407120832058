/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log line of a call, written when it ends.
 *
 * Fields of a request are logged according to an allow-list: names, ids and paths always; from
 * verbosity 4 on also numbers, enums and the keys of maps. Values of maps are never logged
 * (contexts carry tokens), nor any part of a secrets map.
 */
#pragma once

#include "rpc/rpc.h"

/*
 * Fills call->about from the unpacked request. The strings are borrowed from the request or put
 * into the arena.
 */
void rpc_log_request(struct rpc_call *call, const ProtobufCMessage *req);
/*
 * Returns the volume in call->about, or the name of a volume to be created; NULL if it has neither.
 */
const char *rpc_log_volume(const struct rpc_call *call);
/*
 * Logs the line of a call. `method` NULL: no service has the method. err NULL: the call succeeded,
 * which is logged from verbosity 2 on (quiet methods: 5). Failures are always logged.
 */
void rpc_log_call(struct rpc_call *call, const struct rpc_method *method, const struct err *err);
/*
 * Like rpc_log_call(), but for a call whose message never arrived completely, and logs only from
 * verbosity 4 on. A client can open thousands of such calls in a second, and they are not requests
 * yet.
 */
void rpc_log_unread(struct rpc_call *call, const struct rpc_method *method, const struct err *err);
