/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log says about a call: one line when it ends.
 *
 * Fields of a request are logged by an allow-list: names, ids and paths always; from verbosity 4 on
 * also numbers, enums and the keys of maps. Values of maps are never logged (contexts carry
 * tokens), nor anything of a secrets map.
 */
#pragma once

#include "rpc/rpc.h"

/*
 * Fills call->about from the unpacked request; the strings are borrowed from it or put into the
 * arena.
 */
void rpc_log_request(struct rpc_call *call, const ProtobufCMessage *req);
/* The volume, or the name of one that is to be made, of call->about; NULL: there is none. */
const char *rpc_log_volume(const struct rpc_call *call);
/*
 * Logs the line. `method` NULL: no service has the method. err NULL: the call succeeded, which is
 * logged from verbosity 2 on (quiet methods: 5). Failures are always logged.
 */
void rpc_log_call(struct rpc_call *call, const struct rpc_method *method, const struct err *err);
/*
 * The same for a call whose message never came whole. Any client can have thousands of them in a
 * second, and none of them was a request yet: logged from verbosity 4 on.
 */
void rpc_log_unread(struct rpc_call *call, const struct rpc_method *method, const struct err *err);
