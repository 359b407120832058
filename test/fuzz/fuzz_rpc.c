/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes into rpc_dispatch(): the first two choose service and method, the rest is the request. The
 * handler packs the request again, so that every string and list in it is read. It finds requests
 * that the wire checks should refuse but accept.
 */
#include <stdlib.h>
#include <string.h>

#include "csi/csi.pb-c.h"
#include "csi/health.pb-c.h"
#include "csi/pluginregistration.pb-c.h"
#include "csi/sriovdp_control.pb-c.h"

#include "common/log.h"
#include "rpc/rpc_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const ProtobufCServiceDescriptor *const services[] = {
	&csi__v1__controller__descriptor,
	&csi__v1__group_controller__descriptor,
	&csi__v1__node__descriptor,
	&csi__v1__identity__descriptor,
	&pluginregistration__registration__descriptor,
	&sriovdp__control__v1__control_service__descriptor,
	&grpc__health__v1__health__descriptor,
};

static int pack_again(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                      struct err *err)
{
	const ProtobufCMethodDescriptor *method = self;
	uint8_t *packed AUTO(free) = xmalloc(protobuf_c_message_get_packed_size(req) + 1);

	(void)err;
	protobuf_c_message_pack(req, packed);
	*resp = rpc_new_message(call, method->output);
	return 0;
}

static void ignore_line(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const ProtobufCServiceDescriptor *d;
	struct rpc_method method = { .handler = pack_again };
	struct rpc_service service = { .methods = &method, .n_methods = 1 };
	struct err err = ERR_INIT;
	struct rpc_call call;
	uint8_t *out = NULL;
	size_t n_out;

	if (n < 2)
		return 0;
	log_setup(10, data[0] & 0x80);
	log_redirect(ignore_line, NULL);
	d = services[data[0] % ARRAY_LEN(services)];
	service.descriptor = d;
	service.self = (void *)&d->methods[data[1] % d->n_methods];
	method.name = d->methods[data[1] % d->n_methods].name;
	rpc_call_init(&call, "/fuzz");
	if (rpc_dispatch(&service, &method, &call, data + 2, n - 2, &out, &n_out, &err) == 0)
		free(out);
	rpc_log_call(&call, &method, err.code ? &err : NULL);
	rpc_call_clear(&call);
	return 0;
}
