/* SPDX-License-Identifier: Apache-2.0 */
/* The Identity service: name, version, services, Probe. */
#include <string.h>

#include "rpc/identity_csi.h"
#include "test/lib/suite.h"

static const Csi__V1__PluginCapability__Service__Type services[] = {
	CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE,
	CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__VOLUME_ACCESSIBILITY_CONSTRAINTS,
};

static struct identity identity = { .name = "csi.snap.nvidia.com", .version = "1.0.0" };

static bool can_expand;

static bool expands(void *arg, struct deadline d)
{
	ck_assert_ptr_eq(arg, &can_expand);
	ck_assert(!deadline_passed(d));
	return can_expand;
}

static ProtobufCMessage *ask(struct rpc_call *call, const char *path)
{
	struct rpc_service service = identity_service(&identity);
	const struct rpc_service *found;
	const struct rpc_method *method = rpc_find(&service, 1, path, strlen(path), &found);
	ProtobufCMessage *resp = NULL;
	struct err err = ERR_INIT;

	ck_assert_ptr_nonnull(method);
	/* A method that may send a request must not run on the thread that serves all. */
	ck_assert(method->on_poller != (identity.expands && strstr(path, "Capabilities")));
	ck_assert(!method->key);
	rpc_call_init(call, path);
	ck_assert_int_eq(method->handler(service.self, call, NULL, &resp, &err), 0);
	return resp;
}

START_TEST(info_has_name_and_version)
{
	struct rpc_call call;
	Csi__V1__GetPluginInfoResponse *r = (void *)ask(&call, "/csi.v1.Identity/GetPluginInfo");

	ck_assert_str_eq(r->name, "csi.snap.nvidia.com");
	ck_assert_str_eq(r->vendor_version, "1.0.0");
	rpc_call_clear(&call);
}
END_TEST

START_TEST(capabilities_are_the_services_and_the_expansion)
{
	struct rpc_call call;
	Csi__V1__GetPluginCapabilitiesResponse *r;

	for (size_t n = 0; n <= 3; n++) {
		identity.services = services;
		identity.n_services = n > 2 ? 2 : n;
		identity.expands = n >= 2 ? expands : NULL;
		identity.arg = &can_expand;
		can_expand = n == 3;
		r = (void *)ask(&call, "/csi.v1.Identity/GetPluginCapabilities");
		ck_assert_uint_eq(r->n_capabilities, n);
		for (size_t i = 0; i < identity.n_services; i++)
			ck_assert_int_eq(r->capabilities[i]->service->type, services[i]);
		if (n == 3)
			ck_assert_int_eq(
				r->capabilities[2]->volume_expansion->type,
				CSI__V1__PLUGIN_CAPABILITY__VOLUME_EXPANSION__TYPE__ONLINE);
		rpc_call_clear(&call);
	}
	identity.expands = NULL;
}
END_TEST

START_TEST(probe_is_ready)
{
	struct rpc_call call;
	Csi__V1__ProbeResponse *r = (void *)ask(&call, "/csi.v1.Identity/Probe");

	ck_assert(r->ready && r->ready->value);
	rpc_call_clear(&call);
}
END_TEST

SUITE("identity", info_has_name_and_version, capabilities_are_the_services_and_the_expansion,
      probe_is_ready);
