/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that knows both the API and the switches. Independent of sockets, so that tests
 * call it directly.
 */
#include "test/sim/server/route.h"

#include "test/sim/api/api.h"
#include "test/sim/server/switches.h"

void route_request(struct api_call *call, struct reply *ret)
{
	*ret = (struct reply) { 0 };
	if (str_has_prefix(call->path, "/sim/"))
		switches_handle(call, ret);
	else
		api_handle(call, ret);
}
