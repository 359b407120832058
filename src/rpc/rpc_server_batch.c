/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of operations of a call, with annotations for ThreadSanitizer, because gRPC, which passes
 * a call from thread to thread, is not instrumented. Stateless.
 */
#include "rpc/rpc_server_priv.h"

#include <assert.h>

#include "common/sanitizer.h"

#if SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

void rpc_hand(void *what)
{
	__tsan_release(what);
}

void rpc_unhand(void *what)
{
	__tsan_acquire(what);
}

void rpc_call_start(struct server_call *c, const grpc_op *ops, size_t n, struct tag *tag)
{
	grpc_call *grpc = c->grpc;
	grpc_call_error e;

	rpc_hand(c);
	e = grpc_call_start_batch(grpc, ops, n, tag, NULL);
	assert(e == GRPC_CALL_OK);
}
