/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health service has one method, which reads one atomic. It knows two service names: "", which
 * is the server and is healthy whenever it answers, and HEALTH_REGISTERED.
 */
#include "rpc/health.h"

#include "csi/health.pb-c.h"

#include "common/str.h"

static int health_check(void *self, struct rpc_call *call, const void *req, ProtobufCMessage **resp,
                        struct err *err)
{
	const struct health *health = self;
	const Grpc__Health__V1__HealthCheckRequest *request = req;
	enum health_registration registration = atomic_load(&health->registration);
	Grpc__Health__V1__HealthCheckResponse *r;
	bool serving = true;

	if (str_eq(request->service, HEALTH_REGISTERED) && registration != HEALTH_NO_REGISTRATION)
		serving = registration == HEALTH_IS_REGISTERED;
	else if (!str_empty(request->service))
		return err_set(err, ERR_NOT_FOUND, "unknown service \"%s\"", request->service);
	r = RPC_NEW(call, grpc__health__v1__health_check_response);
	r->status = serving ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
	                    : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
	*resp = &r->base;
	return 0;
}

static const struct rpc_method methods[] = {
	{ .name = "Check", .handler = health_check, .on_poller = true, .quiet = true },
};

struct rpc_service health_service(struct health *health)
{
	return (struct rpc_service) {
		.descriptor = &grpc__health__v1__health__descriptor,
		.methods = methods,
		.n_methods = ARRAY_LEN(methods),
		.self = health,
	};
}

void health_registered(void *arg, bool registered)
{
	struct health *health = arg;

	atomic_store(&health->registration,
	             registered ? HEALTH_IS_REGISTERED : HEALTH_NOT_REGISTERED);
}

bool health_is_registered(const struct health *health)
{
	return atomic_load(&health->registration) == HEALTH_IS_REGISTERED;
}
