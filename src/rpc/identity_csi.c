/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Identity service. It answers with constants on the poller thread, even while every worker is
 * busy. Only GetPluginCapabilities may need a request to the API server, to determine whether
 * volumes can be expanded. Probe returns "ready" as long as the process serves calls; otherwise the
 * liveness probe would kill a driver that only waits for an API server.
 */
#include "rpc/identity_csi.h"

static int get_plugin_info(void *self, struct rpc_call *call, const void *req,
                           ProtobufCMessage **resp, struct err *err)
{
	const struct identity *identity = self;
	Csi__V1__GetPluginInfoResponse *r = RPC_NEW(call, csi__v1__get_plugin_info_response);

	(void)req;
	(void)err;
	r->name = (char *)identity->name;
	r->vendor_version = (char *)identity->version;
	*resp = &r->base;
	return 0;
}

static Csi__V1__PluginCapability *service_capability(struct rpc_call *call,
                                                     Csi__V1__PluginCapability__Service__Type type)
{
	Csi__V1__PluginCapability *c = RPC_NEW(call, csi__v1__plugin_capability);

	c->type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE;
	c->service = RPC_NEW(call, csi__v1__plugin_capability__service);
	c->service->type = type;
	return c;
}

static Csi__V1__PluginCapability *expansion_capability(
	struct rpc_call *call, Csi__V1__PluginCapability__VolumeExpansion__Type type)
{
	Csi__V1__PluginCapability *c = RPC_NEW(call, csi__v1__plugin_capability);

	c->type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_VOLUME_EXPANSION;
	c->volume_expansion = RPC_NEW(call, csi__v1__plugin_capability__volume_expansion);
	c->volume_expansion->type = type;
	return c;
}

static int get_plugin_capabilities(void *self, struct rpc_call *call, const void *req,
                                   ProtobufCMessage **resp, struct err *err)
{
	const struct identity *identity = self;
	Csi__V1__GetPluginCapabilitiesResponse *r =
		RPC_NEW(call, csi__v1__get_plugin_capabilities_response);

	(void)req;
	(void)err;
	r->capabilities =
		arena_alloc(&call->arena, (identity->n_services + 1) * sizeof(*r->capabilities));
	for (size_t i = 0; i < identity->n_services; i++)
		r->capabilities[r->n_capabilities++] =
			service_capability(call, identity->services[i]);
	/* The host sees a grown disk at once, and its filesystem can grow while mounted. */
	if (identity->expands && identity->expands(identity->arg, call->deadline))
		r->capabilities[r->n_capabilities++] = expansion_capability(
			call, CSI__V1__PLUGIN_CAPABILITY__VOLUME_EXPANSION__TYPE__ONLINE);
	*resp = &r->base;
	return 0;
}

static int identity_probe(void *self, struct rpc_call *call, const void *req,
                          ProtobufCMessage **resp, struct err *err)
{
	Csi__V1__ProbeResponse *r = RPC_NEW(call, csi__v1__probe_response);

	(void)self;
	(void)req;
	(void)err;
	r->ready = RPC_NEW(call, google__protobuf__bool_value);
	r->ready->value = true;
	*resp = &r->base;
	return 0;
}

static const struct rpc_method methods[] = {
	{ .name = "GetPluginInfo", .handler = get_plugin_info, .on_poller = true },
	{ .name = "GetPluginCapabilities", .handler = get_plugin_capabilities, .on_poller = true },
	{ .name = "Probe", .handler = identity_probe, .on_poller = true, .quiet = true },
};

static const struct rpc_method asking_methods[] = {
	{ .name = "GetPluginInfo", .handler = get_plugin_info, .on_poller = true },
	{ .name = "GetPluginCapabilities", .handler = get_plugin_capabilities },
	{ .name = "Probe", .handler = identity_probe, .on_poller = true, .quiet = true },
};

struct rpc_service identity_service(struct identity *identity)
{
	return (struct rpc_service) {
		.descriptor = &csi__v1__identity__descriptor,
		.methods = identity->expands ? asking_methods : methods,
		.n_methods = ARRAY_LEN(methods),
		.self = identity,
	};
}
