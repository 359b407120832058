/* SPDX-License-Identifier: Apache-2.0 */
/* The service has one method, which changes one atomic of the log and logs the change. */
#include "rpc/log_level.h"

#include <stdio.h>

#include "csi/driver.pb-c.h"

#include "common/log.h"

static int set_log_level(void *self, struct rpc_call *call, const void *req,
                         ProtobufCMessage **resp, struct err *err)
{
	const Snapcsi__V1__SetLogLevelRequest *request = req;
	Snapcsi__V1__SetLogLevelResponse *r;
	char level[16], before[16];

	(void)self;
	if (request->level < 0)
		return err_set(err, ERR_INVALID,
		               "log level: %d is negative; write 0 to log only errors and changes",
		               request->level);
	r = RPC_NEW(call, snapcsi__v1__set_log_level_response);
	r->before = log_set(request->level);
	r->started_with = log_verbosity_set();
	snprintf(level, sizeof(level), "%d", request->level);
	snprintf(before, sizeof(before), "%d", r->before);
	log_event(LOG_INFO, "the verbosity has changed", "v", level, "before", before, NULL);
	*resp = &r->base;
	return 0;
}

static const struct rpc_method methods[] = {
	{ .name = "SetLogLevel", .handler = set_log_level, .on_poller = true, .quiet = true },
};

struct rpc_service log_level_service(void)
{
	return (struct rpc_service) {
		.descriptor = &snapcsi__v1__driver__descriptor,
		.methods = methods,
		.n_methods = ARRAY_LEN(methods),
	};
}
