/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that is answered with many messages and may stay open for days: a method of a server with
 * `opened` and `closed` instead of a handler (rpc.h).
 *
 * It has no thread. A client that does not read costs one message: what is sent while an earlier
 * one is still being written replaces the one that waits, so each message must say all that is
 * known.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/err.h"

struct rpc_stream;

/*
 * Sends the message, after the one that is being written. Any thread, between `opened` and
 * rpc_stream_end() or `closed`; packs at once, and never blocks.
 */
void rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message);
/*
 * Ends the call with this error (NULL: OK) once what was sent has been written. Any thread; the
 * stream must not be used afterwards, and `closed` is not called for it, unless it is running.
 */
void rpc_stream_end(struct rpc_stream *stream, const struct err *err);
