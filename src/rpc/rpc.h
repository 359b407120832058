/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RPC as its handler sees it. No gRPC type appears here, so a handler is an ordinary function: a
 * test builds a struct rpc_call on its stack and calls it, or goes through rpc_dispatch() with
 * bytes.
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
	uint64_t id;                 /* for the log line; unique in this process */
	int peer_pid;                /* 0: unknown */
	int64_t started;             /* when the call arrived; monotonic_ns() */
	struct deadline deadline;    /* has a pointer to `cancel` below */
	struct cancel cancel;        /* set when the caller has left or the deadline has passed */
	struct running_call running; /* the call's entry in the table of running calls, if any */
	struct arena arena;          /* owns the request, the reply and all their memory */
	/* Fields of the request for the log line: volume=pvc-1 node=n1 */
	struct log_pair about[RPC_ABOUT_MAX];
	size_t n_about;
};

/*
 * `method` must outlive the call. The struct must not be moved afterwards, because `deadline`
 * points to `cancel`.
 */
void rpc_call_init(struct rpc_call *call, const char *method);
void rpc_call_clear(struct rpc_call *call);

/*
 * A handler sets *resp to a message in call->arena (RPC_NEW) or to a static message, which may
 * borrow strings that live as long as `self`. Runs on a worker, or on the poller if `on_poller` of
 * its rpc_method is set.
 */
typedef int rpc_handler(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                        struct err *err);
/*
 * Returns the volume that a request concerns ("": none), which is the key of the
 * one-operation-per-volume lock. The string lives in the request or in call->arena.
 */
typedef const char *rpc_key(struct rpc_call *call, const void *req);

/*
 * Callbacks of a call with many answers (rpc_stream.h). Both run on the poller, so they must not
 * block. `opened` returns 0 if the stream is accepted; the stream then ends with rpc_stream_end()
 * or `closed`. It returns -1 if the call is refused with this error. `closed` is called when the
 * caller has left or its deadline has passed; after its return the stream must not be used. It may
 * be called for a stream that another thread is ending at the same time.
 */
struct rpc_stream;
typedef int rpc_opened(void *self, struct rpc_stream *stream, const void *req, struct err *err);
typedef void rpc_closed(void *self, struct rpc_stream *stream);

struct rpc_method {
	const char *name; /* as in the .proto: "NodeStageVolume" */
	rpc_handler *handler;
	rpc_key *key;   /* NULL: the method takes no lock */
	bool reads;     /* reads a volume without its lock; see failing_note_read() */
	bool on_poller; /* answered by the poller thread: never blocks, takes microseconds */
	bool quiet;     /* called so often that success is logged only at verbosity 5 */
	/* For a method with many answers; `handler` is then NULL. */
	rpc_opened *opened;
	rpc_closed *closed;
};

/* A service: its generated descriptor and its implemented methods; the others are UNIMPLEMENTED. */
struct rpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct rpc_method *methods;
	size_t n_methods;
	void *self;
	struct keylock *locks; /* not NULL if a method has a key */
};

/*
 * Allocates and initialises a reply message in the arena: RPC_NEW(call, csi__v1__probe_response).
 */
#define RPC_NEW(call, type_) ((void *)rpc_new_message((call), &type_##__descriptor))
ProtobufCMessage *rpc_new_message(struct rpc_call *call, const ProtobufCMessageDescriptor *d);

/*
 * A unary call without the transport has two steps. rpc_unpack() checks the bytes (NUL, UTF-8,
 * lengths: wire_check.h) and unpacks the known fields into the arena (if a map key was sent twice,
 * the last value counts). *ret does not point into `in`, so the caller can free the bytes before
 * rpc_run(), in which a call may wait for an hour. INVALID_ARGUMENT: malformed bytes.
 * RESOURCE_EXHAUSTED: too large when unpacked.
 */
int rpc_unpack(const struct rpc_service *service, const struct rpc_method *method,
               struct rpc_call *call, const uint8_t *in, size_t n_in, ProtobufCMessage **ret,
               struct err *err) MUST_CHECK;
/*
 * The second step: takes the volume's lock, runs the handler and packs the reply. *ret_out is
 * malloc'ed (NULL if empty). ABORTED if the volume is locked, otherwise the handler's error.
 */
int rpc_run(const struct rpc_service *service, const struct rpc_method *method,
            struct rpc_call *call, const ProtobufCMessage *req, uint8_t **ret_out,
            size_t *ret_n_out, struct err *err) MUST_CHECK;
/* Calls rpc_unpack() and rpc_run(). */
int rpc_dispatch(const struct rpc_service *service, const struct rpc_method *method,
                 struct rpc_call *call, const uint8_t *in, size_t n_in, uint8_t **ret_out,
                 size_t *ret_n_out, struct err *err) MUST_CHECK;
/* Finds a method by its full path "/csi.v1.Node/NodeStageVolume"; NULL if no service has it. */
const struct rpc_method *rpc_find(const struct rpc_service *services, size_t n_services,
                                  const char *path, size_t n_path,
                                  const struct rpc_service **ret_service);
