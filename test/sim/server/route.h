/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches a request: /sim/... to the switches, everything else to the API. */
#pragma once

#include "test/sim/api/call.h"
#include "test/sim/api/status.h"

/* Fills *ret. Blocks as long as a fault requires. */
void route_request(struct api_call *call, struct reply *ret);
