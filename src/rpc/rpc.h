/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handler sees of an RPC. No gRPC type appears here, so a handler is an
 * ordinary function: a test builds a struct rpc_call on its stack and calls it,
 * or goes through rpc_dispatch() with bytes.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/deadline.h"
#include "common/err.h"
#include "common/keylock.h"
#include "common/kv.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/running.h"

#define RPC_ABOUT_MAX 24

struct rpc_call {
	const char *method;          /* "/csi.v1.Node/NodeStageVolume" */
	uint64_t id;                 /* in the log line; unique in this process */
	int peer_pid;                /* 0 when unknown */
	int64_t started;             /* monotonic_ns() of its arrival */
	struct deadline deadline;    /* carries &cancel */
	struct cancel cancel;        /* set when the caller has gone or its deadline passed */
	struct running_call running; /* its entry in the table of running calls, if there is one */
	struct arena arena;          /* owns the request, the reply and all they point to */
	/* Of the request, for the log line: volume=pvc-1 node=n1 */
	struct log_pair about[RPC_ABOUT_MAX];
	size_t n_about;
};

/* `method` outlives the call. The struct must not move afterwards: deadline points to cancel. */
void rpc_call_init(struct rpc_call *call, const char *method);
void rpc_call_clear(struct rpc_call *call);

/*
 * A handler sets *resp to a message in call->arena (RPC_NEW) or a static one; it may borrow strings
 * that live as long as `self`. Runs on a worker, or on the poller when its row says so.
 */
typedef int rpc_handler(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                        struct err *err);
/*
 * The volume that a request works on ("" = none named): the key of the one-operation-per-volume
 * lock. The string lives in the request or in call->arena.
 */
typedef const char *rpc_key(struct rpc_call *call, const void *req);

/*
 * Of a call with many answers (rpc_stream.h), both on the poller, so they never block. `opened`: 0,
 * the stream is taken, and ended by rpc_stream_end() or `closed`; or -1, the call is refused with
 * this error. `closed`: the caller has gone, or its deadline has passed; the stream must not be
 * used any more when it returns. It may come for a stream that another thread ends at this moment.
 */
struct rpc_stream;
typedef int rpc_opened(void *self, struct rpc_stream *stream, const void *req, struct err *err);
typedef void rpc_closed(void *self, struct rpc_stream *stream);

struct rpc_method {
	const char *name; /* as in the .proto: "NodeStageVolume" */
	rpc_handler *handler;
	rpc_key *key;   /* NULL: takes no lock */
	bool on_poller; /* answered by the poller thread: never blocks, takes microseconds */
	bool quiet;     /* called so often that success is logged at verbosity 5 only */
	/* Instead of a handler: many answers. */
	rpc_opened *opened;
	rpc_closed *closed;
};

/* A service: its generated descriptor and the methods that it has; the others are UNIMPLEMENTED. */
struct rpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct rpc_method *methods;
	size_t n_methods;
	void *self;
	struct keylock *locks; /* not NULL when a method has a key */
};

/*
 * Allocates and initialises a reply message in the arena: RPC_NEW(call, csi__v1__probe_response).
 */
#define RPC_NEW(call, type_) ((void *)rpc_new_message((call), &type_##__descriptor))
ProtobufCMessage *rpc_new_message(struct rpc_call *call, const ProtobufCMessageDescriptor *d);

/*
 * A unary call except the transport, in two halves. The first one checks the bytes (NUL, UTF-8,
 * lengths: wire_check.h) and unpacks into the arena what is known of them (of a map key that was
 * sent twice the last value counts). *ret points to nothing of `in`: who has the bytes frees them
 * before the second half, in which a call may wait for an hour. INVALID_ARGUMENT: malformed bytes.
 * RESOURCE_EXHAUSTED: too large when unpacked.
 */
int rpc_unpack(const struct rpc_service *service, const struct rpc_method *method,
               struct rpc_call *call, const uint8_t *in, size_t n_in, ProtobufCMessage **ret,
               struct err *err) MUST_CHECK;
/*
 * The second one takes the volume's lock, runs the handler, packs the reply. *ret_out is malloc'ed
 * (NULL when empty). ABORTED: the volume is locked. Else the handler's error.
 */
int rpc_run(const struct rpc_service *service, const struct rpc_method *method,
            struct rpc_call *call, const ProtobufCMessage *req, uint8_t **ret_out,
            size_t *ret_n_out, struct err *err) MUST_CHECK;
/* Both. */
int rpc_dispatch(const struct rpc_service *service, const struct rpc_method *method,
                 struct rpc_call *call, const uint8_t *in, size_t n_in, uint8_t **ret_out,
                 size_t *ret_n_out, struct err *err) MUST_CHECK;
/* Method by full path "/csi.v1.Node/NodeStageVolume"; NULL when no service has it. */
const struct rpc_method *rpc_find(const struct rpc_service *services, size_t n_services,
                                  const char *path, size_t n_path,
                                  const struct rpc_service **ret_service);
