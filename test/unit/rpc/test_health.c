/* SPDX-License-Identifier: Apache-2.0 */
/* The health service: its answer about the registration with kubelet. */
#include <string.h>

#include "csi/health.pb-c.h"

#include "rpc/health.h"
#include "test/lib/suite.h"

enum change { NOTHING, STARTED, REGISTERED, LOST };

static const struct {
	const char *what, *service;
	enum change change;
	enum err_code code;
	Grpc__Health__V1__HealthCheckResponse__ServingStatus status;
} rows[] = {
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
	{ "the server itself", "", NOTHING, ERR_OK, SERVING },
	{ "the server itself, not registered", "", STARTED, ERR_OK, SERVING },
	{ "a sidecar registers", HEALTH_REGISTERED, NOTHING, ERR_NOT_FOUND, 0 },
	{ "kubelet has not come", HEALTH_REGISTERED, STARTED, ERR_OK, NOT_SERVING },
	{ "kubelet has taken it", HEALTH_REGISTERED, REGISTERED, ERR_OK, SERVING },
	{ "kubelet has let it go", HEALTH_REGISTERED, LOST, ERR_OK, NOT_SERVING },
	{ "something else", "csi.v1.Node", REGISTERED, ERR_NOT_FOUND, 0 },
};

START_TEST(each_name_has_its_answer)
{
	struct health health = { .registration = HEALTH_NO_REGISTRATION };
	struct rpc_service service = health_service(&health);
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	ProtobufCMessage *resp = NULL;
	struct err err = ERR_INIT;
	struct rpc_call call;

	if (rows[_i].change != NOTHING)
		health_registered(&health, rows[_i].change == REGISTERED);
	request.service = (char *)rows[_i].service;
	rpc_call_init(&call, "Check");
	ck_assert(service.methods[0].on_poller);
	IGNORE_RESULT(service.methods[0].handler(service.self, &call, &request, &resp, &err));
	ck_assert_msg(err.code == rows[_i].code, "%s: %s", rows[_i].what, err.msg);
	if (!err.code)
		ck_assert_msg(((Grpc__Health__V1__HealthCheckResponse *)resp)->status ==
		                      rows[_i].status,
		              "%s", rows[_i].what);
	rpc_call_clear(&call);
}
END_TEST

SUITE("health", LOOP(each_name_has_its_answer, ARRAY_LEN(rows)));
