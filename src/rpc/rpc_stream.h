/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that is answered with many messages and may stay open for days. Its method has `opened`
 * and `closed` instead of a handler (rpc.h).
 *
 * The stream has no thread. For a client that does not read, only one message is kept: a message
 * that is sent while an earlier one is being written replaces the queued one. So each message must
 * contain the full state.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"

struct rpc_stream;

/*
 * Queues the message behind the one that is being written. Any thread, between `opened` and
 * rpc_stream_end() or `closed`; packs the message at once, and never blocks.
 */
void rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message);
/*
 * Ends the call with this error (NULL: OK) once the sent messages have been written. Any thread.
 * The stream must not be used afterwards, and `closed` is not called for it, unless `closed` is
 * already running.
 */
void rpc_stream_end(struct rpc_stream *stream, const struct err *err);
