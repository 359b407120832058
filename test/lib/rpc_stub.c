/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_stub.h. The state is three counters and a gate. */
#include "test/lib/rpc_stub.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "rpc/identity_csi.h"
#include "common/str.h"

static const Csi__V1__PluginCapability__Service__Type capabilities[] = {
	CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE,
};

static struct identity identity = {
	.name = "stub.csi.example.com",
	.version = "1.2.3",
	.services = capabilities,
	.n_services = ARRAY_LEN(capabilities),
};

static int wait_ms(struct stub *stub, struct rpc_call *call, const char *what, struct err *err)
{
	int64_t ms = strtol(strchr(what, ':') + 1, NULL, 10);
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	if (str_has_prefix(what, "busy:")) {
		nanosleep(&t, NULL);
		return 0;
	}
	if (deadline_sleep(call->deadline, ms, err, "sleep") == 0)
		return 0;
	stub->cancelled++;
	return -1;
}

static int wait_at_gate(struct stub *stub)
{
	WITH_LOCK(&stub->lock);
	while (!stub->open)
		pthread_cond_wait(&stub->opened, &stub->lock);
	return 0;
}

void stub_open(struct stub *stub)
{
	WITH_LOCK(&stub->lock);
	stub->open = true;
	pthread_cond_broadcast(&stub->opened);
}

static int show_contexts(const Csi__V1__NodeStageVolumeRequest *req, struct err *err)
{
	struct str all AUTO(str_clear) = STR_INIT(500);

	for (size_t i = 0; i < req->n_volume_context; i++)
		str_addf(&all, "%s=%s;", req->volume_context[i]->key,
		         req->volume_context[i]->value);
	return err_set(err, ERR_RANGE, "%s", all.ptr);
}

static int act(struct stub *stub, struct rpc_call *call, const Csi__V1__NodeStageVolumeRequest *req,
               struct err *err)
{
	const char *what = req->staging_target_path;

	if (str_eq(what, "gate"))
		return wait_at_gate(stub);
	if (strchr(what, ':'))
		return wait_ms(stub, call, what, err);
	if (str_eq(what, "deadline") && call->deadline.at == DEADLINE_NEVER)
		return err_set(err, ERR_RANGE, "left=never");
	if (str_eq(what, "deadline"))
		return err_set(err, ERR_RANGE, "left=%d", deadline_left_ms(call->deadline));
	if (str_eq(what, "peer"))
		return err_set(err, ERR_RANGE, "pid=%d", call->peer_pid);
	if (str_eq(what, "odd-text"))
		return err_set(
			err, ERR_INVALID,
			"first line\n(\xc3\xbcn\xc3\xaf 100 %%) \x1b[31m \xe2\x80\xae \\ \xff");
	if (str_eq(what, "length"))
		return err_set(err, ERR_RANGE, "length=%zu", strlen(req->volume_id));
	if (str_eq(what, "contexts"))
		return show_contexts(req, err);
	return 0;
}

static int stage(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                 struct err *err)
{
	const Csi__V1__NodeStageVolumeRequest *r = req;
	struct stub *stub = self;
	int rc;

	stub->running++;
	stub->entered++;
	rc = act(stub, call, r, err);
	if (!str_eq(r->staging_target_path, "nothing"))
		*resp = RPC_NEW(call, csi__v1__node_stage_volume_response);
	stub->running--;
	return rc;
}

static const char *stage_key(struct rpc_call *call, const void *req)
{
	(void)call;
	return ((const Csi__V1__NodeStageVolumeRequest *)req)->volume_id;
}

static int get_capabilities(void *self, struct rpc_call *call, const void *req,
                            ProtobufCMessage **resp, struct err *err)
{
	Csi__V1__NodeGetCapabilitiesResponse *r =
		RPC_NEW(call, csi__v1__node_get_capabilities_response);
	Csi__V1__NodeServiceCapability *c = RPC_NEW(call, csi__v1__node_service_capability);

	(void)self;
	(void)req;
	(void)err;
	c->type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
	c->rpc = RPC_NEW(call, csi__v1__node_service_capability__rpc);
	c->rpc->type = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME;
	r->n_capabilities = 1;
	r->capabilities = arena_alloc(&call->arena, sizeof(*r->capabilities));
	r->capabilities[0] = c;
	*resp = &r->base;
	return 0;
}

static const struct rpc_method methods[] = {
	{ "NodeStageVolume", stage, .key = stage_key },
	{ "NodeGetCapabilities", get_capabilities, .quiet = true },
};

void stub_init(struct stub *stub)
{
	*stub = (struct stub) { .locks = keylock_new(),
		                .lock = PTHREAD_MUTEX_INITIALIZER,
		                .opened = PTHREAD_COND_INITIALIZER };
	stub->services[0] = identity_service(&identity);
	stub->services[1] = (struct rpc_service) { .descriptor = &csi__v1__node__descriptor,
		                                   .methods = methods,
		                                   .n_methods = ARRAY_LEN(methods),
		                                   .self = stub,
		                                   .locks = stub->locks };
}

void stub_clear(struct stub *stub)
{
	stub->locks = keylock_free(stub->locks);
}

uint8_t *stub_request(const char *volume_id, const char *what, size_t *ret_n)
{
	Csi__V1__NodeStageVolumeRequest req = CSI__V1__NODE_STAGE_VOLUME_REQUEST__INIT;
	uint8_t *bytes;

	req.volume_id = (char *)volume_id;
	req.staging_target_path = (char *)what;
	*ret_n = protobuf_c_message_get_packed_size(&req.base);
	bytes = xmalloc(*ret_n + 1);
	protobuf_c_message_pack(&req.base, bytes);
	return bytes;
}
