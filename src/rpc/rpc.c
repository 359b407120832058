/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects bytes and handlers by protobuf-c's descriptors, with one function for every method of
 * every service. All data of a call are in the call's arena; calls share only the counter of ids.
 * This file is independent of the transport: bytes, deadline and cancellation are arguments.
 */
#include "rpc/rpc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "rpc/rpc_log.h"
#include "rpc/wire_check.h"

static _Atomic uint64_t last_id;

void rpc_call_init(struct rpc_call *call, const char *method)
{
	*call = (struct rpc_call) {
		.method = method,
		.id = atomic_fetch_add(&last_id, 1) + 1,
		.started = monotonic_ns(),
		.arena = ARENA_INIT(LIMIT_RPC_ARENA),
	};
	cancel_init(&call->cancel);
	call->deadline = (struct deadline) { .at = DEADLINE_NEVER, .cancel = &call->cancel };
}

void rpc_call_clear(struct rpc_call *call)
{
	arena_clear(&call->arena);
	cancel_destroy(&call->cancel);
}

ProtobufCMessage *rpc_new_message(struct rpc_call *call, const ProtobufCMessageDescriptor *d)
{
	ProtobufCMessage *m = arena_alloc(&call->arena, d->sizeof_message);

	protobuf_c_message_init(d, m);
	return m;
}

const struct rpc_method *rpc_find(const struct rpc_service *services, size_t n_services,
                                  const char *path, size_t n_path,
                                  const struct rpc_service **ret_service)
{
	const char *slash = n_path > 1 && *path == '/' ? memrchr(path + 1, '/', n_path - 1) : NULL;
	size_t n_service, n_method;

	if (!slash)
		return NULL;
	n_service = (size_t)(slash - path) - 1;
	n_method = n_path - n_service - 2;
	for (const struct rpc_service *s = services; s < services + n_services; s++) {
		if (strlen(s->descriptor->name) != n_service ||
		    memcmp(s->descriptor->name, path + 1, n_service) != 0)
			continue;
		for (const struct rpc_method *m = s->methods; m < s->methods + s->n_methods; m++)
			if (strlen(m->name) == n_method &&
			    memcmp(m->name, slash + 1, n_method) == 0) {
				*ret_service = s;
				return m;
			}
	}
	return NULL;
}

/* ---- one call ---- */

/* protobuf-c's allocator for one request, which uses the call's arena. */
struct call_memory {
	struct arena *arena;
	bool exhausted;
};

static void *call_alloc(void *arg, size_t n)
{
	struct call_memory *memory = arg;
	void *p = arena_try_alloc(memory->arena, n);

	if (!p)
		memory->exhausted = true;
	return p;
}

static void call_free(void *arg, void *p)
{
	(void)arg;
	(void)p;
}

static int unpack_into(struct arena *arena, const ProtobufCMessageDescriptor *d, const uint8_t *in,
                       size_t n_in, ProtobufCMessage **ret, struct err *err)
{
	struct call_memory memory = { .arena = arena };
	ProtobufCAllocator allocator = { call_alloc, call_free, &memory };

	*ret = protobuf_c_message_unpack(d, &allocator, n_in, in);
	if (!*ret && memory.exhausted)
		return err_set(err, ERR_EXHAUSTED,
		               "%s needs more than %d bytes of memory when unpacked", d->short_name,
		               LIMIT_RPC_ARENA);
	if (!*ret)
		return err_set(err, ERR_INVALID, "malformed %s", d->short_name);
	wire_settle(*ret);
	return 0;
}

/*
 * Unpacks the known fields into the call's arena. protobuf-c copies unknown fields, and a waiting
 * call would keep them until it ends, so the message is first unpacked elsewhere.
 */
static int unpack_known(const ProtobufCMessageDescriptor *d, struct rpc_call *call,
                        const uint8_t *in, size_t n_in, ProtobufCMessage **ret, struct err *err)
{
	struct arena all = ARENA_INIT(LIMIT_RPC_ARENA);
	uint8_t *known AUTO(free) = NULL;
	ProtobufCMessage *m;
	size_t n = 0;
	int rc;

	rc = unpack_into(&all, d, in, n_in, &m, err);
	if (rc == 0) {
		known = xmalloc(protobuf_c_message_get_packed_size(m));
		n = protobuf_c_message_pack(m, known);
	}
	arena_clear(&all);
	return rc ? rc : unpack_into(&call->arena, d, known, n, ret, err);
}

int rpc_unpack(const struct rpc_service *service, const struct rpc_method *method,
               struct rpc_call *call, const uint8_t *in, size_t n_in, ProtobufCMessage **ret,
               struct err *err)
{
	const ProtobufCMethodDescriptor *d =
		protobuf_c_service_descriptor_get_method_by_name(service->descriptor, method->name);
	int rc;

	if (!d)
		return err_set(err, ERR_INTERNAL, "%s has no method %s", service->descriptor->name,
		               method->name);
	rc = wire_check(d->input, in, n_in, err);
	if (rc < 0)
		return -1;
	return rc == WIRE_HAS_UNKNOWN ? unpack_known(d->input, call, in, n_in, ret, err)
	                              : unpack_into(&call->arena, d->input, in, n_in, ret, err);
}

/* Runs the handler under the lock of the call's volume. */
static int handle(const struct rpc_service *service, const struct rpc_method *method,
                  struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage **resp,
                  struct err *err)
{
	const char *key = method->key ? method->key(call, req) : NULL;
	struct keylock_hold *hold AUTO(keylock_release) = NULL;

	assert(!method->key || service->locks);
	if (key && *key && keylock_take(service->locks, key, method->name, &hold, err))
		return -1;
	if (method->handler(service->self, call, req, resp, err) == 0 && *resp)
		return 0;
	return err->code != ERR_OK
	               ? -1
	               : err_set(err, ERR_INTERNAL, "%s ended without an answer", method->name);
}

int rpc_run(const struct rpc_service *service, const struct rpc_method *method,
            struct rpc_call *call, const ProtobufCMessage *req, uint8_t **ret_out,
            size_t *ret_n_out, struct err *err)
{
	const ProtobufCMethodDescriptor *d =
		protobuf_c_service_descriptor_get_method_by_name(service->descriptor, method->name);
	ProtobufCMessage *resp = NULL;
	size_t n;
	int rc;

	assert(call->deadline.cancel == &call->cancel); /* the struct has not moved */
	assert(d && req->descriptor == d->input);
	rpc_log_request(call, req);
	running_about(&call->running, rpc_log_volume(call));
	rc = handle(service, method, call, req, &resp, err);
	/* The handler may have been refused before it has read them. */
	wire_forget_secrets(req);
	if (rc)
		return -1;
	if (resp->descriptor != d->output)
		return err_set(err, ERR_INTERNAL, "%s answered with a %s", method->name,
		               resp->descriptor->name);
	n = protobuf_c_message_get_packed_size(resp);
	*ret_out = n ? xmalloc(n) : NULL;
	if (n)
		protobuf_c_message_pack(resp, *ret_out);
	*ret_n_out = n;
	return 0;
}

int rpc_dispatch(const struct rpc_service *service, const struct rpc_method *method,
                 struct rpc_call *call, const uint8_t *in, size_t n_in, uint8_t **ret_out,
                 size_t *ret_n_out, struct err *err)
{
	ProtobufCMessage *req;

	if (rpc_unpack(service, method, call, in, n_in, &req, err))
		return -1;
	return rpc_run(service, method, call, req, ret_out, ret_n_out, err);
}
