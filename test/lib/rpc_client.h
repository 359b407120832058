/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small gRPC client for tests and measurements: unary calls to a unix socket.
 *
 * Any thread may call; each call polls for itself. Bytes or protobuf-c messages.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_client;
struct rpc_pending;

struct rpc_client_options {
	const char *path;    /* of the socket */
	bool gzip;           /* compress requests */
	bool wait_for_ready; /* a call waits for a server instead of failing with UNAVAILABLE */
};

struct rpc_answer {
	int code; /* gRPC's number, as enum err_code */
	char text[1100];
	uint8_t *bytes; /* the message; NULL if there was none */
	size_t n;
};

struct rpc_client *rpc_client_new(const struct rpc_client_options *options);
struct rpc_client *rpc_client_free(struct rpc_client *c); /* no call may be pending; returns NULL */

/* Blocks. timeout_ms < 0: no deadline. Returns answer->code; rpc_answer_clear() afterwards. */
int rpc_client_call_bytes(struct rpc_client *c, const char *method, const void *in, size_t n,
                          int timeout_ms, struct rpc_answer *answer);
/*
 * The same with messages; *ret (may be NULL) is for protobuf_c_message_free_unpacked(), NULL unless
 * the code is 0.
 */
int rpc_client_call(struct rpc_client *c, const char *method, const ProtobufCMessage *req,
                    const ProtobufCMessageDescriptor *resp, int timeout_ms, ProtobufCMessage **ret,
                    struct rpc_answer *answer);
void rpc_answer_clear(struct rpc_answer *answer);

/*
 * The same in two halves: start and wait. The caller may cancel in between, or have many calls in
 * flight. key: of one metadata entry, or NULL.
 */
struct rpc_pending *rpc_client_start(struct rpc_client *c, const char *method, const void *in,
                                     size_t n, int timeout_ms);
struct rpc_pending *rpc_client_start_with(struct rpc_client *c, const char *method, const void *in,
                                          size_t n, int timeout_ms, const char *key,
                                          const char *value);
/*
 * A call that is answered with many messages: all are read as they arrive, but only while
 * rpc_pending_wait() runs, which returns the last one.
 */
struct rpc_pending *rpc_client_start_many(struct rpc_client *c, const char *method, const void *in,
                                          size_t n, int timeout_ms);
/* Sends the same message `count` times (0: none), as no correct client of a unary call does. */
struct rpc_pending *rpc_client_start_stream(struct rpc_client *c, const char *method,
                                            const void *in, size_t n, int count, int timeout_ms);
/* Sends only headers: the server waits for the message. */
struct rpc_pending *rpc_client_start_headers(struct rpc_client *c, const char *method,
                                             int timeout_ms);
void rpc_pending_cancel(struct rpc_pending *p);
/* Blocks until the call has ended, and frees it. Returns answer->code. */
int rpc_pending_wait(struct rpc_pending *p, struct rpc_answer *answer);
